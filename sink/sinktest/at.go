package sinktest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"bridge/sink"
	"bridge/tests/testall"
)

// located is an acknowledged message with what the outcome says of it.
type located struct {
	message sink.Message
	tp      sink.TPRef
	at      sink.At
}

// locate returns the acknowledged messages of a batch, each of which must have an offset.
func locate(t testing.TB, batch []sink.Message, out *sink.Outcome) []located {
	t.Helper()
	var found []located
	for i, status := range out.Status {
		if status != sink.Acked {
			continue
		}
		if len(out.At) != len(batch) || !out.At[i].Known {
			t.Errorf("message %d of %d is acknowledged without an offset, the outcome has %d", i, len(batch), len(out.At))
			return nil
		}
		found = append(found, located{batch[i], out.TPs[out.At[i].TP], out.At[i]})
	}
	return found
}

// acks has what several publishers were acknowledged.
type acks struct {
	mu    sync.Mutex
	found []located
}

// publish publishes a batch of which all must be acknowledged, or none where the outcome is
// unknown.
func (l *acks) publish(ctx context.Context, t testing.TB, s sink.Sink, batch []sink.Message) {
	t.Helper()
	out, err := s.Publish(ctx, copyOf(batch))
	if _, whole := s.(sink.Transactional); whole && errors.Is(err, sink.ErrUnknownOutcome) && out.Acked() == 0 {
		return
	}
	if err != nil || len(out.Status) != len(batch) || !out.AllAcked() {
		t.Errorf("%d of %d acknowledged: %v", out.Acked(), len(batch), err)
		return
	}
	l.add(locate(t, batch, &out))
}

func (l *acks) add(found []located) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.found = append(l.found, found...)
}

// stored returns what f.Sink reads of the destinations, by TP and offset.
func stored(t *testing.T, f Fixture) (messages map[string]map[uint64]sink.Stored, incarnations map[string]string) {
	t.Helper()
	reader := f.Sink.(sink.Reader)
	tps, err := reader.TPs(deadline(t), f.Destinations)
	if err != nil {
		t.Fatalf("TPs: %v", err)
	}
	messages, incarnations = make(map[string]map[uint64]sink.Stored), make(map[string]string)
	for _, tp := range tps {
		incarnations[tp.Name] = tp.Incarnation
		all := make(map[uint64]sink.Stored)
		messages[tp.Name] = all
		if _, err := reader.Read(deadline(t), span(tp), func(m *sink.Stored) error {
			all[m.Offset] = copyStored(m)
			return nil
		}); err != nil {
			t.Fatalf("Read %s: %v", tp.Name, err)
		}
	}
	return messages, incarnations
}

// wantLocated fails the test unless each message lies where its outcome says, and nowhere else does
// one of the same key that came before it in found. It returns how many are duplicates.
func wantLocated(t *testing.T, f Fixture, found []located) (duplicates int) {
	t.Helper()
	if len(found) == 0 {
		t.Fatal("no message is located")
	}
	messages, incarnations := stored(t, f)
	taken := make(map[string]map[uint64]string)
	for i := range found {
		l := &found[i]
		m, at := &l.message, l.at
		if got := incarnations[l.tp.Name]; l.tp.Incarnation != got {
			t.Fatalf("%s has the incarnation %q, outcomes say %q", l.tp.Name, got, l.tp.Incarnation)
		}
		got, there := messages[l.tp.Name][at.Offset]
		if !there {
			t.Fatalf("nothing is at %s %d, where message %s was acknowledged", l.tp.Name, at.Offset, m.ID)
		}
		if id := string(got.Header(sink.HeaderID)); id != m.ID || got.Destination != m.Destination || !bytes.Equal(got.Value, m.Value) {
			t.Fatalf("at %s %d is message %s to %s, message %s to %s was acknowledged there", l.tp.Name, at.Offset, id, got.Destination, m.ID, m.Destination)
		}
		if !at.Duplicate {
			// It is this copy of the message, and not another with its id.
			checkState(t, m, string(got.Header(sink.HeaderState)), f.Features.Keys)
		}
		if at.Duplicate {
			duplicates++
			continue
		}
		if taken[l.tp.Name] == nil {
			taken[l.tp.Name] = make(map[uint64]string)
		}
		if other, twice := taken[l.tp.Name][at.Offset]; twice {
			t.Fatalf("%s and %s were both acknowledged at %s %d", other, m.ID, l.tp.Name, at.Offset)
		}
		taken[l.tp.Name][at.Offset] = m.ID
	}
	return duplicates
}

// mixed makes n messages of a series, to all destinations in turn.
func mixed(f Fixture, series string, n int) []sink.Message {
	parts := make([][]sink.Message, len(f.Destinations))
	for i, d := range f.Destinations {
		parts[i] = batch(d, fmt.Sprintf("%s-%d", series, i), n, 20)
	}
	out := make([]sink.Message, n)
	for i := range out {
		out[i] = parts[i%len(parts)][i/len(parts)]
	}
	return out
}

// publishers publishes mixed batches of n messages side by side, for as long as more allows another
// round.
func publishers(t *testing.T, f Fixture, series string, n int, more func(round int) bool) *acks {
	t.Helper()
	var l acks
	ctx := deadline(t)
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for round := 0; more(round) && !t.Failed(); round++ {
				l.publish(ctx, t, f.Sink, mixed(f, fmt.Sprintf("%s-%d-%d", series, w, round), n))
			}
		})
	}
	wg.Wait()
	return &l
}

func locatedWhole(t *testing.T, f Fixture) {
	n := 0
	for try := range 5 {
		l := publishers(t, f, fmt.Sprint("located-", try), 200, func(round int) bool { return round < 5 })
		// Alone, too, and one by one.
		for _, m := range mixed(f, fmt.Sprint("located-single-", try), 10) {
			l.publish(deadline(t), t, f.Sink, []sink.Message{m})
		}
		if n = wantLocated(t, f, l.found); n == 0 {
			return
		}
		// What a slow bus answers too late is sent again, and may count as a duplicate.
	}
	t.Errorf("%d messages count as duplicates", n)
}

func locatedOverCuts(t *testing.T, f Fixture) {
	// The sink has its connections.
	mustPublish(t, f.Sink, mixed(f, "located-first", 20))
	want := int64(testall.Pick(5, 50))
	var cuts atomic.Int64
	done := make(chan *acks)
	go func() {
		done <- publishers(t, f, "located-cut", 1000, func(int) bool { return cuts.Load() < want })
	}()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if cuts.Load() < want {
				f.Cut(t)
				cuts.Add(1)
			}
		case l := <-done:
			last := mixed(f, "located-last", 1000)
			out := mustPublish(t, f.Sink, copyOf(last))
			l.add(locate(t, last, &out))
			n := wantLocated(t, f, l.found)
			t.Logf("%d messages, %d cuts, %d duplicates", len(l.found), cuts.Load(), n)
			return
		}
	}
}

// locatedDuplicates: a message that the bus has and drops is acknowledged where the first one lies.
func locatedDuplicates(t *testing.T, f Fixture) {
	var l acks
	before, between := mixed(f, "located-before", 200), mixed(f, "located-between", 200)
	l.publish(deadline(t), t, f.Sink, before)
	l.publish(deadline(t), t, f.Sink, between)
	first := slices.Clone(l.found)
	if n := wantLocated(t, f, first); n != 0 {
		t.Fatalf("%d messages count as duplicates at their first sending", n)
	}
	fresh := mixed(f, "located-fresh", 200)
	again := slices.Concat(before[:100], fresh[:100], between, fresh[100:], before[100:])
	out := mustPublish(t, f.Sink, copyOf(again))
	if want := len(before) + len(between); out.Duplicates != want {
		t.Errorf("%d duplicates, want %d", out.Duplicates, want)
	}
	second := locate(t, again, &out)
	wantLocated(t, f, second)
	was := make(map[string]uint64)
	for i := range first {
		was[first[i].message.ID] = first[i].at.Offset
	}
	for i := range second {
		offset, known := was[second[i].message.ID]
		if at := second[i].at; at.Duplicate != known || known && at.Offset != offset {
			t.Errorf("message %d is acknowledged as %+v, at first at %d (%v)", i, at, offset, known)
		}
	}
}

// locatedRepairs: a message with Again set is stored, whatever the bus has with its ID.
func locatedRepairs(t *testing.T, f Fixture) {
	var l acks
	sent := mixed(f, "located-repair", 200)
	l.publish(deadline(t), t, f.Sink, sent)
	repairs := copyOf(sent)
	for seq := range uint64(2) {
		for i := range repairs {
			repairs[i].State.Seq += 1000 * (seq + 1)
			repairs[i].Again = true
		}
		l.publish(deadline(t), t, f.Sink, repairs)
		// Ordinary messages go on behind them.
		l.publish(deadline(t), t, f.Sink, mixed(f, fmt.Sprintf("located-other-%d", seq), 100))
	}
	if n := wantLocated(t, f, l.found); n != 0 {
		t.Errorf("%d repairs count as duplicates", n)
	}
	if !f.Features.Drops {
		return
	}
	// Sent again, a repair is dropped like any message: as a repeat of the newest with its id.
	out := mustPublish(t, f.Sink, copyOf(repairs))
	again := locate(t, repairs, &out)
	wantLocated(t, f, again)
	for i := range again {
		if want := l.found[500+i].at.Offset; !again[i].at.Duplicate || again[i].at.Offset != want {
			t.Fatalf("repair %d is acknowledged as %+v when it is sent again, at first at %d", i, again[i].at, want)
		}
	}
}
