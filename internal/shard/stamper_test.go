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

	"example.org/bridge/event"
	"example.org/bridge/sink"
	"example.org/bridge/source"
)

// brokenBus breaks publishes off: a part of the batch is stored, acknowledged or not, and the
// attempt of the shard ends. It refuses some rows for good, and drops repeats where it is told to.
type brokenBus struct {
	sink.Sink
	drops bool

	mu  sync.Mutex
	rng *rand.Rand
	// stored is what the bus holds, sent and numbers what was handed to it by stamp and number.
	stored        []sink.Message
	sent, numbers map[stampOf]string
	// held is where the bus holds an id by which it drops repeats.
	held map[string]sink.At
	// out are the rows that the bus has, or their dead letters; faults is what went wrong.
	out    map[uint64]bool
	faults []error
}

// stampOf is the stamp of a message, or its number in a term: epoch, term and number.
type stampOf [3]uint64

func numberOf(s *sink.State) stampOf {
	return stampOf{s.Epoch, uint64(s.Term), uint64(s.Acked) + uint64(s.Index)}
}

func newBrokenBus(b *bench, seed uint64) *brokenBus {
	return &brokenBus{
		Sink: b.bus, drops: seed%2 == 0, rng: rand.New(rand.NewPCG(seed, 5)),
		sent: map[stampOf]string{}, numbers: map[stampOf]string{}, held: map[string]sink.At{}, out: map[uint64]bool{},
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
	if before, ok := s.numbers[numberOf(state)]; ok && before != fact {
		s.faults = append(s.faults, fmt.Errorf("the number %v is used for %s and %s", numberOf(state), before, fact))
	}
	s.numbers[numberOf(state)] = fact
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

// missing returns how a reader names lost messages: in each term of an epoch all numbers below the
// highest that a message calls acknowledged. terms is how many there are.
func (s *brokenBus) missing() (missing []stampOf, terms int) {
	there, highest := map[stampOf]bool{}, map[stampOf]uint32{}
	for i := range s.stored {
		state := &s.stored[i].State
		term := stampOf{state.Epoch, uint64(state.Term)}
		there[numberOf(state)] = true
		highest[term] = max(highest[term], state.Acked)
	}
	for term, acked := range highest {
		for n := range uint64(acked) {
			if number := (stampOf{term[0], term[1], n}); !there[number] {
				missing = append(missing, number)
			}
		}
	}
	return missing, len(highest)
}

// TestStampsNameWhatIsLost breaks publishes off and ends processes. No seq and no number is used
// twice, and the numbers of what was acknowledged have no gap: a reader finds by them exactly what
// the bus has lost.
func TestStampsNameWhatIsLost(t *testing.T) {
	for _, kind := range []event.Kind{event.Release, event.Capability} {
		t.Run(string(kind), func(t *testing.T) {
			terms := 0
			for seed := range uint64(8) {
				bus := breakBus(t, kind, seed)
				missing, n := bus.missing()
				if err := errors.Join(bus.faults...); err != nil || len(missing) > 0 {
					t.Fatalf("seed %d: nothing is lost, and a reader misses %v: %.2000v", seed, missing, err)
				}
				terms += n
			}
			if terms < 32 {
				t.Errorf("%d terms: the test shows nothing", terms)
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
