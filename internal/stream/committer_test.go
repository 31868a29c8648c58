package stream_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/client/backoff"
	"example.org/bridge/internal/outage"
	"example.org/bridge/internal/stream"
	"example.org/bridge/sink"
)

// lines is what was logged: one at a time, as slog's handlers write.
type lines struct{ bytes.Buffer }

func TestCommitterRun(t *testing.T) {
	begin := func(t *testing.T, image store.Image) (d *disk, out *lines, stop func() error) {
		d, out = newDisk(nil), &lines{}
		c := stream.NewCommitter(d, image, outage.New(slog.New(slog.NewTextHandler(out, nil))))
		if err := c.Apply(t.Context(), &store.Batch{Epoch: 7}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- c.Run(ctx) }()
		return d, out, func() error { cancel(); return <-done }
	}
	pass := func(t *testing.T, d time.Duration) {
		if err := backoff.Pause(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
	}
	registered := store.Image{Registrations: []store.Registration{{Number: 1, Stream: "s", TP: "d"}}}
	for name, every := range map[string]struct {
		image store.Image
		pause time.Duration
	}{"it syncs once a minute, and at the end": {registered, time.Minute}, "it syncs each second where nothing is read back": {store.Image{}, time.Second}} {
		bubble(t, name, func(t *testing.T) {
			d, _, stop := begin(t, every.image)
			synced := func(want int) {
				t.Helper()
				if _, got := d.applied(); got != want {
					t.Errorf("%d batches are synced, want %d", got, want)
				}
			}
			pass(t, every.pause-time.Millisecond)
			synced(0)
			pass(t, 2*time.Millisecond)
			synced(1)
			if err := d.Apply(t.Context(), &store.Batch{Epoch: 8}); err != nil {
				t.Fatal(err)
			}
			if err := stop(); err != nil {
				t.Error(err)
			}
			synced(2)
		})
	}
	bubble(t, "damage that is seen beside it ends it at once", func(t *testing.T) {
		d, _, stop := begin(t, registered)
		d.kill(0)
		d.fault = store.ErrDamaged
		pass(t, time.Second)
		if _, synced := d.applied(); synced != 0 {
			t.Error("it was synced before")
		}
		close(d.damaged)
		synctest.Wait()
		if err := stop(); !errors.Is(err, store.ErrDamaged) {
			t.Errorf("it has ended with %v", err)
		}
	})
	bubble(t, "it says once that the disk takes no writes, and that it does again", func(t *testing.T) {
		d, out, stop := begin(t, registered)
		d.fault = store.ErrOutage
		d.kill(0)
		pass(t, 5*time.Minute)
		d.kill(-1)
		pass(t, 6*time.Second)
		if !strings.Contains(out.String(), "outage ended") {
			t.Error("it has not tried again within seconds")
		}
		pass(t, 5*time.Minute)
		if err := stop(); err != nil {
			t.Error(err)
		}
		if s := out.String(); strings.Count(s, "outage begins") != 1 || strings.Count(s, "outage ended") != 1 || !strings.Contains(s, "dependency=checkpoint") {
			t.Errorf("logged was %s", s)
		}
	})
	bubble(t, "a broken store ends it", func(t *testing.T) {
		d, _, stop := begin(t, registered)
		d.kill(0)
		pass(t, 2*time.Minute)
		if err := stop(); err == nil {
			t.Error("Run returns nil")
		}
	})
}

// fencing makes a process whose bus calls fence.
func fencing(t *testing.T, b *bus, fence func() error, release bool) *rig {
	t.Helper()
	return newRig(t, b, nil, func(o *stream.Options) {
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
		if err := r.c.Resolve(t.Context(), "s"); !errors.Is(err, stream.ErrSuperseded) {
			t.Errorf("it resolves with %v", err)
		}
		if !errors.Is(r.over, stream.ErrSuperseded) {
			t.Errorf("it is over with %v", r.over)
		}
	})
	t.Run("a release stream that cannot be read stops", func(t *testing.T) {
		b := newBus("d")
		b.other("x")
		b.fails(func(sink.Span) error { return sink.ErrUnreadable })
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
		ack := stream.Span{TP: n, Range: stream.Range{From: from, To: to}, Marker: marker}
		if err := r.committer.Acknowledged(t.Context(), first, []stream.Span{ack}, &store.Batch{}); err != nil {
			t.Fatal(err)
		}
	}
	acknowledge(0, 5, false)
	acknowledge(6, 9, true)
	r.wantNext("s", "d", 9)
	t.Run("one that was read before contradicts nothing", func(t *testing.T) {
		if err := r.committer.Covered(t.Context(), n, stream.Range{From: 9, To: 10}, &store.Batch{}); err != nil {
			t.Fatal(err)
		}
		acknowledge(10, 12, true)
		r.wantNext("s", "d", 12)
	})
}
