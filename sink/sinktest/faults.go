package sinktest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"bridge/internal/backoff"
	"bridge/sink"
)

// result is what a Publish under way returns.
type result struct {
	out sink.Outcome
	err error
}

// start publishes in the background.
func start(ctx context.Context, s sink.Sink, batch []sink.Message) <-chan result {
	done := make(chan result, 1)
	go func() {
		out, err := s.Publish(ctx, batch)
		done <- result{out, err}
	}()
	return done
}

// await returns what start began, or fails the test.
func await(t *testing.T, done <-chan result, n int) result {
	t.Helper()
	select {
	case r := <-done:
		checkOutcome(t, r.out, n)
		return r
	case <-time.After(timeout):
		t.Fatal("Publish does not return")
		return result{}
	}
}

// blocked fails the test if a Publish that can not succeed returns.
func blocked(t *testing.T, done <-chan result) {
	t.Helper()
	select {
	case r := <-done:
		t.Fatalf("Publish to a bus that stands still returns %d acknowledged, %v", r.out.Acked(), r.err)
	case <-time.After(100 * time.Millisecond):
	}
}

// maybeOf returns the ids that r does not acknowledge.
func maybeOf(r result, batch []sink.Message) map[string]bool {
	maybe := make(map[string]bool)
	for i, status := range r.out.Status {
		if status != sink.Acked {
			maybe[batch[i].ID] = true
		}
	}
	return maybe
}

func stalledCancel(t *testing.T, f Fixture) {
	before := batch(f.Destinations[0], "stalled-before", 20, 3)
	mustPublish(t, f.Sink, copyOf(before))
	resume := f.Stall(t)
	defer resume()
	during := batch(f.Destinations[0], "stalled", 200, 3)
	buffer := copyOf(during)
	ctx, cancel := context.WithCancel(deadline(t))
	defer cancel()
	done := start(ctx, f.Sink, buffer)
	blocked(t, done)
	cancel()
	r := await(t, done, len(during))
	if !errors.Is(r.err, context.Canceled) || r.out.Acked() > 0 {
		t.Fatalf("a stalled Publish ends with %d acknowledged, %v; want none and context.Canceled", r.out.Acked(), r.err)
	}
	// What is still under way inside the sink must not read this memory.
	spoil(buffer)
	resume()

	after := batch(f.Destinations[0], "stalled-after", 20, 3)
	mustPublish(t, f.Sink, copyOf(after))
	mustPublish(t, f.Sink, copyOf(during))
	sent := append(append(before, after...), during...)
	judge{fixture: f, repeats: true}.check(t, sent)
}

func stalledClose(t *testing.T, f Fixture) {
	resume := f.Stall(t)
	defer resume()
	during := batch(f.Destinations[0], "stalled", 50, 3)
	done := start(deadline(t), f.Sink, copyOf(during))
	blocked(t, done)
	if err := f.Sink.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	r := await(t, done, len(during))
	if !errors.Is(r.err, sink.ErrClosed) {
		t.Errorf("Close ends a Publish with %v, want ErrClosed", r.err)
	}
	resume()
	judge{fixture: f, repeats: true, maybe: maybeOf(r, during)}.check(t, during)
}

// rejected publishes, among others, a series for one key with one message in its middle that the
// bus refuses, and then what is pending.
func rejected(t *testing.T, f Fixture) {
	const begin, length, bad = 150, 10, 154
	sent := mixed(f, "others", 300)
	for i := range length {
		size := 300
		if begin+i == bad {
			size = f.MaxBytes + 16<<10
		}
		sent = slices.Insert(sent, begin+i, message(f.Destinations[0], "rejected", "same", i, size))
	}
	var l acks
	for rest := sent; len(rest) > 0; {
		out, err := f.Sink.Publish(deadline(t), copyOf(rest))
		if err != nil {
			t.Fatalf("Publish: %v", err)
		}
		checkOutcome(t, out, len(rest))
		if f.Features.Reads {
			l.add(locate(t, rest, &out))
		}
		var pending []sink.Message
		for i, status := range out.Status {
			if status == sink.Pending {
				pending = append(pending, rest[i])
			}
			if len(rest) < len(sent) || i < begin || i >= begin+length {
				continue
			}
			want := sink.Acked
			switch {
			case i == bad:
				want = sink.Rejected
			case i > bad:
				want = sink.Pending
			}
			if status != want {
				t.Errorf("message %d has status %d, want %d", i, status, want)
			}
		}
		if len(pending) > 0 && len(out.Rejected) == 0 {
			t.Fatalf("%d messages are pending, and none is rejected", len(pending))
		}
		rest = pending
	}
	judge{fixture: f}.check(t, slices.Delete(slices.Clone(sent), bad, bad+1))
	if f.Features.Reads {
		wantLocated(t, f, l.found)
	}
}

// wiped publishes until the outcomes name the destination as it is after a Wipe.
func wiped(t *testing.T, f Fixture) {
	mustPublish(t, f.Sink, batch(f.Destinations[0], "wiped-before", 200, 20))
	f.Wipe(t)
	var sent []sink.Message
	ctx := deadline(t)
	for round := 0; ; round++ {
		part := batch(f.Destinations[0], fmt.Sprintf("wiped-%d", round), 200, 20)
		out := mustPublish(t, f.Sink, copyOf(part))
		sent = append(sent, part...)
		if !f.Features.Reads || named(t, f, out.TPs) {
			judge{fixture: f, repeats: true}.check(t, sent)
			if f.Features.Reads {
				wantLocated(t, f, locate(t, part, &out))
			}
			return
		}
		if err := backoff.Pause(ctx, 100*time.Millisecond); err != nil {
			t.Fatalf("after %d batches the outcome names %+v: %v", round, out.TPs, err)
		}
	}
}

// named reports whether refs are the TPs as a reader finds them.
func named(t *testing.T, f Fixture, refs []sink.TPRef) bool {
	t.Helper()
	tps, err := f.Sink.(sink.Reader).TPs(deadline(t), f.Destinations)
	if err != nil {
		t.Fatalf("TPs: %v", err)
	}
	return !slices.ContainsFunc(refs, func(ref sink.TPRef) bool {
		return !slices.ContainsFunc(tps, func(tp sink.TP) bool { return tp.Name == ref.Name && tp.Incarnation == ref.Incarnation })
	})
}

func restart(t *testing.T, f Fixture) {
	d := f.Destinations[0]
	sent := batch(d, "restart-before", 100, 3)
	out := mustPublish(t, f.Sink, copyOf(sent))
	var l acks
	if f.Features.Reads {
		l.add(locate(t, sent, &out))
	}
	stop := make(chan struct{})
	published := make(chan []sink.Message, 1)
	go func() {
		var all []sink.Message
		defer func() { published <- all }()
		for round := 0; ; round++ {
			select {
			case <-stop:
				return
			default:
			}
			part := batch(d, fmt.Sprintf("restart-%d", round), 50, 3)
			out, err := f.Sink.Publish(deadline(t), copyOf(part))
			if err != nil || len(out.Status) != len(part) || !out.AllAcked() {
				t.Errorf("Publish over a restart: %d of %d acknowledged: %v", out.Acked(), len(part), err)
				return
			}
			all = append(all, part...)
			if f.Features.Reads {
				l.add(locate(t, part, &out))
			}
		}
	}()
	f.Restart(t)
	close(stop)
	sent = append(sent, <-published...)
	after := batch(d, "restart-after", 100, 3)
	mustPublish(t, f.Sink, copyOf(after))
	judge{fixture: f, repeats: true}.check(t, append(sent, after...))
	if f.Features.Reads {
		wantLocated(t, f, l.found)
	}
}
