package sinktest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.org/bridge/client/backoff"
	"example.org/bridge/sink"
	"example.org/bridge/tests/must"
)

func stalledCancel(t *testing.T, f Fixture) {
	h := begin(t, f)
	h.mustPublish(mixed(f, "before", 0, 20))
	during, acked, err := stalled(h, func(cancel func()) { cancel() })
	if !errors.Is(err, context.Canceled) || acked > 0 {
		t.Fatalf("a stalled Publish ends with %d acknowledged, %v; want none and context.Canceled", acked, err)
	}
	h.mustPublish(mixed(f, "after", 0, 20))
	h.mustPublish(during)
	h.check()
}

func stalledClose(t *testing.T, f Fixture) {
	h := begin(t, f)
	_, _, err := stalled(h, func(func()) {
		must.OK(t, f.Sink.Close())
	})
	must.Fail(t, err, sink.ErrClosed)
	h.consumed()
}

// stalled publishes while the bus does not answer, until end ends it.
func stalled(h *history, end func(cancel func())) (during []sink.Message, acked int, err error) {
	h.repeats = true
	resume := h.f.Stall(h.t)
	defer resume()
	during = mixed(h.f, "stalled", 0, 200)
	ctx, cancel := context.WithCancel(Deadline(h.t))
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		var out sink.Outcome
		out, err = h.publish(ctx, during)
		acked = out.Acked()
	}()
	select {
	case <-done:
		h.t.Fatalf("Publish to a bus that stands still returns %d acknowledged, %v", acked, err)
	case <-time.After(100 * time.Millisecond):
	}
	end(cancel)
	select {
	case <-done:
		return during, acked, err
	case <-time.After(timeout):
		h.t.Fatal("Publish does not return")
		return nil, 0, nil
	}
}

func harmed(t *testing.T, f Fixture, harm func(testing.TB)) {
	h := begin(t, f)
	h.repeats = !f.Features.Drops
	h.deliver(Deadline(t), mixed(f, "before", 0, 100))
	var over atomic.Bool
	var publishing sync.WaitGroup
	publishing.Go(func() { h.publishers("during", 250, func(round int) bool { return round < 10 && !over.Load() }) })
	func() {
		defer publishing.Wait()
		defer over.Store(true)
		harm(t)
	}()
	h.deliver(Deadline(t), mixed(f, "after", 0, 1000))
	n := h.check()
	t.Logf("%d messages, %d duplicates", len(h.sent), n)
}

func cut(t *testing.T, f Fixture) {
	harmed(t, f, func(t testing.TB) {
		for range 5 {
			f.Cut(t)
			<-time.After(20 * time.Millisecond)
		}
	})
}

// wiped publishes until the outcomes name the destinations as they are after a Wipe.
func wiped(t *testing.T, f Fixture) {
	begin(t, f).mustPublish(mixed(f, "before", 0, 200))
	f.Wipe(t)
	h := begin(t, f)
	h.repeats = true
	ctx := Deadline(t)
	for round := 0; ; round++ {
		h.acked = nil
		out := h.mustPublish(mixed(f, fmt.Sprint("after-", round), 0, 200))
		if !f.Features.Reads {
			break
		}
		tps := must.Get(f.Sink.(sink.Reader).TPs(ctx, f.Destinations))(t)
		former := slices.ContainsFunc(out.TPs, func(ref sink.TPRef) bool {
			return !slices.ContainsFunc(tps, func(tp sink.TP) bool { return tp.Name == ref.Name && tp.Incarnation == ref.Incarnation })
		})
		if !former {
			break
		}
		if err := backoff.Pause(ctx, 100*time.Millisecond); err != nil {
			t.Fatalf("after %d batches the outcome names %+v: %v", round, out.TPs, err)
		}
	}
	h.check()
}

// HangAt has what onStep is given hang at a step, once, until resume is called. onStep sets the
// function that a sink calls at each step. reached is closed when it hangs.
func HangAt(step string, onStep func(hook func(string))) (reached <-chan struct{}, resume func()) {
	at, gate := make(chan struct{}), make(chan struct{})
	var hit sync.Once
	onStep(func(now string) {
		if now == step {
			hit.Do(func() {
				close(at)
				<-gate
			})
		}
	})
	return at, sync.OnceFunc(func() { close(gate) })
}

// MustPublish publishes a batch, all of which has to be acknowledged.
func MustPublish(t testing.TB, s sink.Sink, batch []sink.Message) sink.Outcome {
	t.Helper()
	out, err := s.Publish(Deadline(t), batch)
	if err != nil || !out.AllAcked() {
		t.Fatalf("%d of %d messages are acknowledged, rejected %v: %v", out.Acked(), len(batch), out.Rejected, err)
	}
	return out
}

// Publishing publishes in the background. It tells what Publish returns, or how many messages are
// not acknowledged.
func Publishing(ctx context.Context, s sink.Sink, batch []sink.Message) <-chan error {
	done := make(chan error, 1)
	go func() {
		out, err := s.Publish(ctx, batch)
		if err == nil && !out.AllAcked() {
			err = fmt.Errorf("%d of %d acknowledged, rejected %v", out.Acked(), len(batch), out.Rejected)
		}
		done <- err
	}()
	return done
}
