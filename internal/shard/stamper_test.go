package shard_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"bridge/event"
	"bridge/sink"
	"bridge/source"
)

// brokenBus breaks publishes off: a part of the batch is stored, acknowledged or not, and the
// attempt of the shard ends. It refuses some rows for good, and drops repeats where it is told to.
type brokenBus struct {
	sink.Sink
	drops bool

	mu  sync.Mutex
	rng *rand.Rand
	// stored is what the bus holds, sent what was handed to it by its stamp.
	stored []sink.Message
	sent   map[stampOf]string
	// held is where the bus holds an id by which it drops repeats.
	held map[string]sink.At
	// out are the rows that the bus has, or their dead letters; faults is what went wrong.
	out    map[uint64]bool
	faults []error
}

// stampOf is the stamp of a message, or its number in a term: epoch, term and number.
type stampOf [3]uint64

func newBrokenBus(b *bench, seed uint64) *brokenBus {
	return &brokenBus{
		Sink: b.bus, drops: seed%2 == 0, rng: rand.New(rand.NewPCG(seed, 5)),
		sent: map[stampOf]string{}, held: map[string]sink.At{}, out: map[uint64]bool{},
	}
}

// errBroken ends the attempt, and another one follows at once.
var errBroken = fmt.Errorf("%w: the publish was broken off", source.ErrUnfit)

func (s *brokenBus) Publish(ctx context.Context, batch []sink.Message) (sink.Outcome, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := sink.Outcome{Status: make([]sink.Status, len(batch)), At: make([]sink.At, len(batch))}
	blocked := make(map[string]bool)
	for i := range batch {
		m := &batch[i]
		s.check(m)
		switch chance := s.rng.IntN(300); {
		case blocked[string(m.Key)]:
			continue
		case m.Destination != deadTopic && m.RowID%41 == 7:
			out.Status[i], blocked[string(m.Key)] = sink.Rejected, true
			out.Rejected = append(out.Rejected, sink.Rejection{Index: i, Reason: "refused"})
			continue
		case chance == 0:
			return out, errBroken
		case chance == 1:
			// Stored, and the acknowledgement is lost.
			s.store(ctx, m, &out)
			return out, errBroken
		case chance < 10 && len(blocked) > 0:
			// Stored, and its acknowledgement comes with the next publish.
			s.store(ctx, m, &out)
			continue
		}
		out.At[i], out.Status[i] = s.store(ctx, m, &out), sink.Acked
	}
	return out, nil
}

// store stores a message unless it is a repeat that the bus drops, and returns where it lies.
func (s *brokenBus) store(ctx context.Context, m *sink.Message, out *sink.Outcome) sink.At {
	if at, ok := s.held[m.DedupID()]; ok && s.drops {
		out.Duplicates++
		at.TP, at.Duplicate = tpOf(out, sink.TPRef{Name: m.Destination}), true
		return at
	}
	// What has arrived is stored, also where nobody waits for it.
	one, err := s.Sink.Publish(context.WithoutCancel(ctx), []sink.Message{*m})
	if err != nil || !one.AllAcked() {
		s.faults = append(s.faults, fmt.Errorf("row %d: %+v, %w", m.RowID, one, err))
		return sink.At{}
	}
	at := one.At[0]
	at.TP = tpOf(out, sink.TPRef{Name: m.Destination})
	kept := *m
	kept.Key, kept.Value = slices.Clone(m.Key), slices.Clone(m.Value)
	s.stored, s.held[m.DedupID()], s.out[m.RowID] = append(s.stored, kept), at, true
	return at
}

// check notes what a message that is handed over must not say.
func (s *brokenBus) check(m *sink.Message) {
	state, fact := &m.State, m.ID
	if m.Destination == deadTopic {
		fact = event.FormatID(state.Event)
		if state.Key == "" {
			s.faults = append(s.faults, fmt.Errorf("the dead letter of row %d has no key", m.RowID))
		}
	}
	stamp := stampOf{state.Epoch, state.Seq}
	if before, ok := s.sent[stamp]; ok && before != fact || state.Seq == 0 {
		s.faults = append(s.faults, fmt.Errorf("seq %d is used for %s and %s", state.Seq, before, fact))
	}
	s.sent[stamp] = fact
	if m.Domain != "bridge" || state.Hash != 7 || state.Kind == sink.StateLive && state.Digest == [16]byte{} && m.Origin != sink.FromReconcile {
		s.faults = append(s.faults, fmt.Errorf("row %d: domain %q, %+v", m.RowID, m.Domain, *state))
	}
	for id := uint64(1); id < state.Low; id++ {
		if !s.out[id] {
			s.faults = append(s.faults, fmt.Errorf("row %d says %d rows are out, and row %d is not", m.RowID, state.Low-1, id))
			break
		}
	}
}

// lost is how a reader names lost messages: in each term of an epoch all numbers below the highest
// that a message calls acknowledged.
func lost(stored []sink.Message) (missing []stampOf) {
	there, highest := map[stampOf]bool{}, map[stampOf]uint32{}
	for i := range stored {
		state := &stored[i].State
		term := stampOf{state.Epoch, uint64(state.Term)}
		there[stampOf{state.Epoch, uint64(state.Term), uint64(state.Acked) + uint64(state.Index)}] = true
		highest[term] = max(highest[term], state.Acked)
	}
	for term, acked := range highest {
		for n := range uint64(acked) {
			if number := (stampOf{term[0], term[1], n}); !there[number] {
				missing = append(missing, number)
			}
		}
	}
	slices.SortFunc(missing, func(a, b stampOf) int { return slices.Compare(a[:], b[:]) })
	return missing
}

// TestStampsNameWhatIsLost breaks publishes off and ends processes. No seq is used twice, and a
// reader finds by the counts exactly the acknowledged messages that were taken from the bus.
func TestStampsNameWhatIsLost(t *testing.T) {
	for _, kind := range []event.Kind{event.Release, event.Capability} {
		t.Run(string(kind), func(t *testing.T) {
			named, terms := 0, 0
			for seed := range uint64(12) {
				bus := breakBus(t, kind, seed)
				if err := errors.Join(bus.faults...); err != nil {
					t.Fatalf("seed %d: %.2000v", seed, err)
				}
				if missing := lost(bus.stored); len(missing) > 0 {
					t.Fatalf("seed %d: nothing is lost, and a reader misses %v", seed, missing)
				}
				terms += bus.terms()
				named += bus.lose(t)
			}
			if named == 0 || terms < 50 {
				t.Errorf("%d lost messages were named in %d terms: the test shows nothing", named, terms)
			}
		})
	}
}

// breakBus publishes 400 rows in three processes to a bus that breaks publishes off.
func breakBus(t *testing.T, kind event.Kind, seed uint64) *brokenBus {
	t.Helper()
	b := newBench(t)
	b.opts.Kind, b.opts.DeadLetter, b.opts.BatchRows, b.opts.Recheck = kind, deadTopic, 20, time.Millisecond
	b.opts.ShutdownTimeout = 20 * time.Millisecond
	bus := newBrokenBus(b, seed)
	b.sink = bus
	for process := range uint64(3) {
		// A row that commits late.
		id := b.table.Open("late", "2020-01-01 00:00:00.000000")
		b.insert(133)
		_, stop := b.run(t)
		if process < 2 {
			eventually(t, "half of it", func() bool { return b.position(t) > id+60 })
			b.table.Commit(id)
			stop()
			continue
		}
		b.table.Commit(id)
		eventually(t, "all of it", func() bool {
			bus.mu.Lock()
			defer bus.mu.Unlock()
			return len(bus.out) == 402
		})
		stop()
	}
	return bus
}

func (s *brokenBus) terms() int {
	terms := make(map[stampOf]bool)
	for i := range s.stored {
		terms[stampOf{s.stored[i].State.Epoch, uint64(s.stored[i].State.Term)}] = true
	}
	return len(terms)
}

// lose takes messages from the bus and fails the test unless a reader names just those that a later
// message of their term calls acknowledged. It returns how many.
func (s *brokenBus) lose(t *testing.T) (named int) {
	t.Helper()
	taken, highest := map[stampOf]bool{}, map[stampOf]uint32{}
	left := slices.DeleteFunc(slices.Clone(s.stored), func(m sink.Message) bool {
		gone := s.rng.IntN(10) == 0
		if gone {
			taken[stampOf{m.State.Epoch, uint64(m.State.Term), uint64(m.State.Acked + m.State.Index)}] = true
		}
		return gone
	})
	for i := range left {
		state := &left[i].State
		term := stampOf{state.Epoch, uint64(state.Term)}
		highest[term] = max(highest[term], state.Acked)
		// One copy is enough.
		delete(taken, stampOf{state.Epoch, uint64(state.Term), uint64(state.Acked + state.Index)})
	}
	var want []stampOf
	for number := range taken {
		if number[2] < uint64(highest[stampOf{number[0], number[1]}]) {
			want = append(want, number)
		}
	}
	slices.SortFunc(want, func(a, b stampOf) int { return slices.Compare(a[:], b[:]) })
	if got := lost(left); !slices.Equal(got, want) {
		t.Errorf("a reader misses %v, lost are %v", got, want)
	}
	return len(want)
}

// Messages that are sent again in one process keep their stamps, and a batch behind goes on in the
// term.
func TestAPartialOutcomeKeepsTheStamps(t *testing.T) {
	b := newBench(t)
	b.opts.DeadLetter, b.opts.BatchRows = deadTopic, 10
	b.bus.Reject(func(m *sink.Message) string {
		if m.RowID == 4 && m.Destination == topic {
			return "refused"
		}
		return ""
	})
	b.insert(25)
	_, stop := b.run(t)
	eventually(t, "published", func() bool { return b.position(t) == 25 })
	stop()
	dead := b.bus.Messages(deadTopic)
	if len(dead) != 1 || dead[0].State.Event == [16]byte{} || dead[0].State.Key != "4" || string(dead[0].Key) != "4" {
		t.Fatalf("the dead letters are %+v", dead)
	}
	all := append(b.bus.Messages(topic), dead...)
	slices.SortFunc(all, func(a, b sink.Message) int { return int(a.State.Seq) - int(b.State.Seq) })
	for i, m := range all {
		if s := m.State; s.Seq != uint64(i)+1 || s.Term != 0 || s.Acked+s.Index != uint32(i) || m.RowID != s.Seq {
			t.Errorf("message %d is of row %d and has the state %+v", i, m.RowID, s)
		}
	}
}
