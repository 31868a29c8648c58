package stream_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.org/bridge/internal/stream"
	"example.org/bridge/sink"
)

// peers has other shares publish.
func peers(b *bus, n int) {
	for i := range n {
		b.says(of("other", "x", 9, uint64(i)))
	}
}

// another is another process of the share: it has begun, and nobody tells whether it has.
type another struct{ begun, hidden atomic.Bool }

func (a *another) alone(ctx context.Context) (bool, error) {
	if a.hidden.Load() {
		<-ctx.Done()
		return false, context.Cause(ctx)
	}
	return !a.begun.Load(), nil
}

// publishes has the other process publish.
func (a *another) publishes(b *bus, r *rig) {
	a.begun.Store(true)
	b.says(of("a", "another", r.c.Epoch().Number()+1, 1))
}

// shared is a test of a release stream that publishes the shard a to a topic with other shares.
func shared(t *testing.T, name string, test func(t *testing.T, b *bus, r *rig, other *another)) {
	bubble(t, name, func(t *testing.T) {
		var other another
		b := newBus("d")
		b.says(of("a", "former", 5, 1))
		peers(b, 3)
		r := newRig(t, b, nil, func(o *stream.Options) {
			mine("a")(o)
			o.Alone = other.alone
			o.Streams[0].Release = true
		}, "s").start()
		r.run()
		r.wantSeen("s", "former")
		test(t, b, r, &other)
	})
}

func TestPass(t *testing.T) {
	shared(t, "what other shares publish is not read, and offsets come to the end", func(t *testing.T, b *bus, r *rig, other *another) {
		var read atomic.Uint64
		b.fails(func(span sink.Span) error { read.Add(span.To - span.From - 1); return nil })
		for range 30 {
			peers(b, 40)
			r.publishes("own")
			r.pass(time.Second)
		}
		if next := r.registration("s", "d").Next; next < 20*41 {
			t.Errorf("the offset is %d while the shares publish, the topic ends with %d", next, b.end("d"))
		}
		peers(b, 40)
		r.pass(2 * time.Minute)
		r.wantNext("s", "d", b.end("d"))
		r.wantSeen("s", "")
		if g := r.registration("s", "d"); read.Load() > 0 || g.High.Offset != b.end("d")-41 || g.Last != g.High {
			t.Errorf("%d messages were read beside anchors; registered as %+v", read.Load(), g)
		}
	})
	shared(t, "not over a batch in flight", func(t *testing.T, b *bus, r *rig, other *another) {
		peers(b, 5)
		m := r.sends("own")
		at := b.says(m)
		peers(b, 5)
		r.publishes("above")
		r.pass(2 * time.Minute)
		if next := r.registration("s", "d").Next; next < at-5 || next > at {
			t.Errorf("the offset is %d, the batch at %d", next, at)
		}
		if err := r.acknowledge(m, at); err != nil {
			t.Fatal(err)
		}
		r.pass(2 * time.Minute)
		r.wantNext("s", "d", b.end("d"))
	})
	shared(t, "what follows an unknown outcome is read until it was read back", func(t *testing.T, b *bus, r *rig, other *another) {
		m := r.sends("own")
		r.publishes("above")
		r.committer.Unknown(m.seq)
		r.pass(30 * time.Second)
		peers(b, 5)
		b.says(m)
		peers(b, 5)
		r.pass(2 * time.Minute)
		r.wantSeen("s", "own")
		if err := r.c.Resolve(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		// Late, behind that.
		b.says(of("a", "late", 5, 2))
		r.pass(2 * time.Minute)
		r.wantSeen("s", "")
		r.wantNext("s", "d", b.end("d"))
	})
	shared(t, "what follows an unknown outcome is read where the bus could not be read then", func(t *testing.T, b *bus, r *rig, other *another) {
		m := r.sends("own")
		r.committer.Unknown(m.seq)
		b.looks(unreadable)
		if err := r.c.Resolve(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		b.looks(nil)
		peers(b, 5)
		b.says(m)
		r.publishes("above")
		r.pass(2 * time.Minute)
		r.wantSeen("s", "own")
	})
	shared(t, "a topic that is found while the process runs is read to its end first", func(t *testing.T, b *bus, r *rig, other *another) {
		b.topics["d"] = []string{"d", "d/2"}
		b.make("d/2")
		b.append("d/2", of("other", "x", 7, 1).stored())
		b.append("d/2", of("a", "before", 5, 2).stored())
		r.pass(2 * time.Minute)
		r.wantSeen("s", "before")
		b.append("d/2", of("a", "late", 5, 3).stored())
		r.pass(3 * time.Minute)
		r.wantSeen("s", "")
		r.wantNext("s", "d/2", 3)
	})
	shared(t, "not where the bus has lost messages, and has others at their offsets", func(t *testing.T, b *bus, r *rig, other *another) {
		r.publishes("own")
		from := b.end("d") - 1
		peers(b, 5)
		r.publishes("lost, too")
		r.pass(time.Second)
		b.lose("d", from)
		r.c.NewSession("d")
		peers(b, 20)
		r.publishes("behind")
		r.pass(2 * time.Minute)
		if err := r.stopOf("s"); !errors.Is(err, sink.ErrBehind) {
			t.Errorf("the stream has stopped: %v; registered as %+v", err, r.registration("s", "d"))
		}
	})
	shared(t, "not where the bus has lost messages of others, and has one in flight at their offsets", func(t *testing.T, b *bus, r *rig, other *another) {
		peers(b, 1)
		r.publishes("own")
		from := b.end("d")
		peers(b, 30)
		// The end is noted.
		r.pass(6500 * time.Millisecond)
		b.lose("d", from)
		r.c.NewSession("d")
		m := r.sends("in flight")
		at := b.says(m)
		peers(b, 40)
		r.pass(2 * time.Minute)
		if err := r.acknowledge(m, at); err != nil {
			t.Error(err)
		}
		r.pass(2 * time.Minute)
		r.wantNext("s", "d", b.end("d"))
	})
	shared(t, "what was passed over is not read at a start, nor behind an unknown outcome", func(t *testing.T, b *bus, r *rig, other *another) {
		r.publishes("own")
		for range 5 {
			peers(b, 1000)
			r.pass(2 * time.Minute)
		}
		var mu sync.Mutex
		var readings, most uint64
		b.fails(func(span sink.Span) error {
			mu.Lock()
			defer mu.Unlock()
			readings, most = readings+1, max(most, span.To-span.From)
			return nil
		})
		peers(b, 3)
		if err := r.c.Resolve(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		peers(b, 3)
		batches, _ := r.disk.applied()
		readings = 0
		newRig(t, b, batches, func(o *stream.Options) { mine("a")(o); o.Streams[0].Release = true }, "s").start()
		if most > 6 || readings != 2 {
			t.Errorf("a span of %d messages was read for 6 new ones, a start has read %d spans", most, readings)
		}
	})
	wantSuperseded := func(t *testing.T, b *bus, r *rig) {
		t.Helper()
		for range 24 {
			peers(b, 5)
			r.publishes("own")
			r.pass(5 * time.Second)
		}
		if !errors.Is(r.over, stream.ErrSuperseded) {
			t.Errorf("superseded by %v", r.over)
		}
	}
	shared(t, "not over what another process of the share has published", func(t *testing.T, b *bus, r *rig, other *another) {
		peers(b, 5)
		other.publishes(b, r)
		wantSuperseded(t, b, r)
	})
	shared(t, "nor while a batch stays in flight", func(t *testing.T, b *bus, r *rig, other *another) {
		r.pass(time.Minute)
		r.sends("stays")
		peers(b, 5)
		r.pass(time.Minute)
		other.publishes(b, r)
		wantSuperseded(t, b, r)
	})
	shared(t, "nor while nobody tells who has begun", func(t *testing.T, b *bus, r *rig, other *another) {
		r.pass(time.Minute)
		other.hidden.Store(true)
		other.publishes(b, r)
		wantSuperseded(t, b, r)
	})
	shared(t, "nor while sessions end one after the other", func(t *testing.T, b *bus, r *rig, other *another) {
		peers(b, 5)
		b.says(of("a", "late", 5, 2))
		for range 60 {
			r.c.NewSession("d")
			r.publishes("own")
			r.pass(2 * time.Second)
		}
		r.wantSeen("s", "late")
	})
	shared(t, "again once the bus tells that nobody has begun", func(t *testing.T, b *bus, r *rig, other *another) {
		other.hidden.Store(true)
		peers(b, 5)
		b.says(of("a", "late", 5, 2))
		r.pass(2 * time.Minute)
		r.wantSeen("s", "late")
		other.hidden.Store(false)
		r.pass(time.Minute)
		b.says(of("a", "late", 5, 3))
		r.publishes("own")
		r.pass(2 * time.Minute)
		r.wantSeen("s", "")
		r.wantNext("s", "d", b.end("d"))
	})
}
