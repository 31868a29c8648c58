package catchup_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"bridge/internal/catchup"
	"bridge/sink"
)

func TestWait(t *testing.T) {
	bubble(t, "a stream waits for its own topics alone", func(t *testing.T) {
		b := newBus("d", "e")
		b.says(ours("a", 5, 1))
		o := ours("b", 5, 2)
		o.stream = "o"
		b.append("e", o.stored())
		open := make(chan struct{})
		b.fail = func(span sink.Span) error {
			if span.TP == "e" {
				<-open
			}
			return nil
		}
		r := newRig(t, b, nil, func(o *catchup.Options) { o.Streams[1].Destinations = []string{"e"} }, "s", "o")
		done := make(chan error, 1)
		go func() { done <- r.c.Start(t.Context()) }()
		if err := r.stopOf("s"); err != nil {
			t.Fatal(err)
		}
		if r.c.Epoch() == nil {
			t.Error("the stream is ready without an epoch")
		}
		synctest.Wait()
		p := r.c.Progress()
		if s := p.Streams[0]; !s.Ready || s.Messages != 1 || s.Left != 0 {
			t.Errorf("the stream that is ready: %+v", s)
		}
		if s := p.Streams[1]; s.Ready || s.Messages != 0 || s.Left != 1 || p.Epoch != r.c.Epoch().Number() {
			t.Errorf("the other one: %+v", s)
		}
		close(open)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if err := r.stopOf("o"); err != nil {
			t.Error(err)
		}
		if _, synced := r.disk.applied(); synced < 3 {
			t.Errorf("%d batches are synced: the registration of the other stream is not", synced)
		}
	})
	bubble(t, "what the store has is not left to read", func(t *testing.T) {
		b := newBus("d", "e")
		for n := range 3 {
			b.says(ours("a", 5, uint64(n+1)))
		}
		both := func(o *catchup.Options) { o.Streams[0].Destinations = []string{"d", "e"} }
		batches, _ := newRig(t, b, nil, both, "s").start().disk.applied()
		b.append("e", ours("b", 5, 4).stored())
		open := make(chan struct{})
		b.fail = func(span sink.Span) error {
			if span.TP == "e" {
				<-open
			}
			return nil
		}
		r := newRig(t, b, batches, both, "s")
		done := make(chan error, 1)
		go func() { done <- r.c.Start(t.Context()) }()
		synctest.Wait()
		if s := r.c.Progress().Streams[0]; s.Ready || s.Left != 1 {
			t.Errorf("one message of four is left: %+v", s)
		}
		close(open)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	})
	bubble(t, "a wait ends with its context, and an unknown stream is an error", func(t *testing.T) {
		r := newRig(t, newBus("d"), nil, nil, "s")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errKilled)
		defer cancel()
		if err := r.c.Wait(ctx, "s"); !errors.Is(err, errKilled) {
			t.Errorf("Wait: %v", err)
		}
		if err := r.c.Wait(ctx, "nobody"); err == nil || errors.Is(err, errKilled) {
			t.Errorf("Wait: %v", err)
		}
	})
	bubble(t, "a cancelled Start returns the cause, and the next one goes on", func(t *testing.T) {
		b := newBus("d")
		b.says(ours("a", 5, 1))
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errKilled)
		r := newRig(t, b, nil, nil, "s")
		if err := r.c.Start(ctx); !errors.Is(err, errKilled) {
			t.Errorf("Start: %v", err)
		}
		if err := r.c.Wait(ctx, "s"); err == nil {
			t.Error("the stream is ready")
		}
	})
	bubble(t, "topics that cannot be read stop a capability stream, and not a release stream", func(t *testing.T) {
		b := newBus("d")
		b.says(ours("a", 5, 1))
		b.fail = func(sink.Span) error { return sink.ErrUnreadable }
		r := newRig(t, b, nil, func(o *catchup.Options) { o.Streams[1].Release = true }, "s", "o").start()
		if err := r.stopOf("s"); !errors.Is(err, sink.ErrUnreadable) {
			t.Errorf("the capability stream stops with %v", err)
		}
		if err := r.stopOf("o"); err != nil {
			t.Errorf("the release stream stops with %v", err)
		}
	})
	bubble(t, "without a reader all streams are ready at once", func(t *testing.T) {
		r := newRig(t, nil, nil, func(o *catchup.Options) { o.Reader = nil }, "s").start()
		if err := r.stopOf("s"); err != nil || r.c.Epoch() == nil {
			t.Errorf("the stream stops with %v", err)
		}
	})
}
