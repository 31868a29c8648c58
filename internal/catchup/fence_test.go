package catchup_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"bridge/checkpoint/store"
	"bridge/internal/catchup"
	"bridge/sink"
)

// fencing makes a process whose bus calls fence.
func fencing(t *testing.T, b *bus, fence func() error, release bool) *rig {
	t.Helper()
	return newRig(t, b, nil, func(o *catchup.Options) {
		o.Fence = func(context.Context) error { return fence() }
		o.Streams[0].Release = release
	}, "s")
}

func TestFence(t *testing.T) {
	t.Run("what a former process publishes until it is fenced is read", func(t *testing.T) {
		b := newBus("d")
		b.says(ours("a", 1, 1))
		r := fencing(t, b, func() error { b.says(ours("b", 1, 2)); return nil }, false).start()
		r.wantSeen("s", "a b")
	})
	t.Run("an unknown outcome is fenced before it is read", func(t *testing.T) {
		b := newBus("d")
		var late *said
		r := fencing(t, b, func() error {
			if late != nil {
				b.says(late)
			}
			return nil
		}, false).start()
		late = ours("a", r.c.Epoch().Number(), r.send())
		r.committer.Unknown(late.seq)
		if err := r.c.Resolve(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		r.wantSeen("s", "a*")
	})
	t.Run("a process that cannot take over any more is superseded", func(t *testing.T) {
		fenced := false
		r := fencing(t, newBus("d"), func() error {
			if fenced {
				return fmt.Errorf("the id: %w", sink.ErrFenced)
			}
			return nil
		}, false).start()
		fenced = true
		if err := r.c.Resolve(t.Context(), "s"); !errors.Is(err, catchup.ErrSuperseded) {
			t.Errorf("it resolves with %v", err)
		}
		if !errors.Is(r.over, catchup.ErrSuperseded) {
			t.Errorf("it is over with %v", r.over)
		}
	})
	t.Run("a release stream that cannot be read stops", func(t *testing.T) {
		b := newBus("d")
		b.other("x")
		b.fail = func(sink.Span) error { return sink.ErrUnreadable }
		r := fencing(t, b, func() error { return nil }, true).start()
		if err := r.stopOf("s"); !errors.Is(err, sink.ErrUnreadable) {
			t.Errorf("it stops with %v", err)
		}
	})
}

func TestMarkers(t *testing.T) {
	r := newRig(t, newBus("d"), nil, nil, "s").start()
	n := r.committer.Number("s", sink.TPRef{Name: "d"})
	acknowledge := func(from, to uint64, marker bool) {
		t.Helper()
		first := r.send()
		ack := catchup.Ack{TP: n, Range: catchup.Range{From: from, To: to}, Marker: marker}
		if err := r.committer.Acknowledged(t.Context(), first, []catchup.Ack{ack}, &store.Batch{}); err != nil {
			t.Fatal(err)
		}
	}
	acknowledge(0, 5, false)
	acknowledge(6, 9, true)
	r.wantNext("s", "d", 9)
	t.Run("one that was read before contradicts nothing", func(t *testing.T) {
		if err := r.committer.Covered(t.Context(), n, catchup.Range{From: 9, To: 10}, &store.Batch{}); err != nil {
			t.Fatal(err)
		}
		acknowledge(10, 12, true)
		r.wantNext("s", "d", 12)
	})
}
