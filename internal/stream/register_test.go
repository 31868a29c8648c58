package stream_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.org/bridge/client/backoff"
	"example.org/bridge/internal/stream"
	"example.org/bridge/sink"
)

func TestWait(t *testing.T) {
	bubble(t, "a stream waits for its own topics alone", func(t *testing.T) {
		b := newBus("d", "e")
		b.says(ours("a", 5, 1))
		o := ours("b", 5, 2)
		o.stream = "o"
		b.append("e", o.stored())
		open := b.holds("e")
		r := newRig(t, b, nil, func(o *stream.Options) { o.Streams[1].Destinations = []string{"e"} }, "s", "o")
		done := r.starting()
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
		b.fails(func(sink.Span) error { return sink.ErrUnreadable })
		r := newRig(t, b, nil, func(o *stream.Options) { o.Streams[1].Release = true }, "s", "o").start()
		if err := r.stopOf("s"); !errors.Is(err, sink.ErrUnreadable) {
			t.Errorf("the capability stream stops with %v", err)
		}
		if err := r.stopOf("o"); err != nil {
			t.Errorf("the release stream stops with %v", err)
		}
	})
	bubble(t, "without a reader all streams are ready at once", func(t *testing.T) {
		r := newRig(t, nil, nil, func(o *stream.Options) { o.Reader = nil }, "s").start()
		if err := r.stopOf("s"); err != nil || r.c.Epoch() == nil {
			t.Errorf("the stream stops with %v", err)
		}
	})
}

func unreadable(context.Context, []string) error { return sink.ErrUnreadable }

// TestRegister has messages be acknowledged in a TP that is not registered.
func TestRegister(t *testing.T) {
	started(t, "a shard waits for the look of another one, and has its number", func(t *testing.T, b *bus, r *rig) {
		b.make("e")
		b.topics["d"] = []string{"d", "e"}
		open, numbers := make(chan struct{}), make(chan uint32, 2)
		b.looks(func(context.Context, []string) error { <-open; return nil })
		for range 2 {
			go func() {
				n, err := r.c.Register(t.Context(), "s", sink.TPRef{Name: "e"})
				if err != nil {
					t.Error(err)
				}
				numbers <- n
			}()
			synctest.Wait()
		}
		close(open)
		if a, b := <-numbers, <-numbers; a == 0 || a != b {
			t.Errorf("the numbers are %d and %d", a, b)
		}
	})
	started(t, "shards do not repeat a slow look that has just ended", func(t *testing.T, b *bus, r *rig) {
		b.topics["d"] = []string{"d", "e"}
		looks := atomic.Int32{}
		b.looks(func(ctx context.Context, _ []string) error { looks.Add(1); return backoff.Pause(ctx, 3*time.Second) })
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() {
				if n, err := r.c.Register(t.Context(), "s", sink.TPRef{Name: "e"}); n != 0 || err != nil {
					t.Errorf("number %d, %v", n, err)
				}
			})
		}
		all.Wait()
		if n := looks.Load(); n != 1 {
			t.Errorf("%d looks", n)
		}
	})
	register := func(t *testing.T, r *rig, tp, incarnation string, want uint32) {
		t.Helper()
		if n, err := r.c.Register(t.Context(), "s", sink.TPRef{Name: tp, Incarnation: incarnation}); n != want || err != nil {
			t.Errorf("number %d, %v, want %d", n, err, want)
		}
	}
	goesOn(t, "one that was made again is registered at once, so that its loss is noticed", func(t *testing.T, b *bus, r *rig) {
		r.run()
		b.make("d")
		m := r.sends("d")
		at := b.says(m)
		register(t, r, "d", "2", 2)
		if err := r.acknowledge(m, at); err != nil {
			t.Fatal(err)
		}
		b.lose("d", at)
		r.pass(5 * time.Minute)
		if e, err := r.feeds["s"].entry(t.Context(), "d"); err != nil || !e.Disputed {
			t.Errorf("what the bus has lost is not disputed: %+v, %v", e, err)
		}
	})
	goesOn(t, "of one that was made again meanwhile the outcome is unknown", func(t *testing.T, b *bus, r *rig) {
		b.make("d")
		b.make("d")
		if n, err := r.c.Register(t.Context(), "s", sink.TPRef{Name: "d", Incarnation: "2"}); n != 0 || !errors.Is(err, stream.ErrReadBack) {
			t.Errorf("number %d, %v", n, err)
		}
	})
	bubble(t, "one that is not there is looked up once a second", func(t *testing.T) {
		b := newBus("d")
		b.topics["d"] = []string{"d", "d/2"}
		r := newRig(t, b, nil, nil, "s").start()
		register(t, r, "d/2", "2", 0)
		b.make("d/2")
		register(t, r, "d/2", "2", 0)
		r.pass(time.Second)
		register(t, r, "d/2", "2", 2)
	})
	bubble(t, "a release stream that cannot be read goes on", func(t *testing.T) {
		b, batches := filled(t, nil)
		r := newRig(t, b, batches, func(o *stream.Options) { o.Streams[0].Release = true }, "s").start()
		b.make("d")
		b.looks(unreadable)
		register(t, r, "d", "2", 0)
	})
	goesOn(t, "of a capability stream that cannot be read the outcome is unknown", func(t *testing.T, b *bus, r *rig) {
		b.make("d")
		b.looks(unreadable)
		if _, err := r.c.Register(t.Context(), "s", sink.TPRef{Name: "d", Incarnation: "2"}); !errors.Is(err, stream.ErrReadBack) {
			t.Error(err)
		}
	})
}
