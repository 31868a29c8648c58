package catchup_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"bridge/internal/catchup"
	"bridge/sink"
)

// hiddenReader is a bus that tells no TPs.
type hiddenReader struct {
	*bus
	hidden bool
}

func (r *hiddenReader) TPs(ctx context.Context, destinations []string) ([]sink.TP, error) {
	if r.hidden {
		return nil, sink.ErrUnreadable
	}
	return r.bus.TPs(ctx, destinations)
}

// TestRegister has messages be acknowledged in a TP that is not registered.
func TestRegister(t *testing.T) {
	register := func(t *testing.T, r *rig, tp, incarnation string, want uint32) {
		t.Helper()
		if n, err := r.c.Register(t.Context(), "s", sink.TPRef{Name: tp, Incarnation: incarnation}); n != want || err != nil {
			t.Errorf("number %d, %v, want %d", n, err, want)
		}
	}
	bubble(t, "one that was made again is registered at once, so that its loss is noticed", func(t *testing.T) {
		b, batches := filled(t, nil)
		r := newRig(t, b, batches, nil, "s").start()
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
	bubble(t, "of one that was made again meanwhile the outcome is unknown", func(t *testing.T) {
		b, batches := filled(t, nil)
		r := newRig(t, b, batches, nil, "s").start()
		b.make("d")
		b.make("d")
		if n, err := r.c.Register(t.Context(), "s", sink.TPRef{Name: "d", Incarnation: "2"}); n != 0 || !errors.Is(err, catchup.ErrReadBack) {
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
		reader := &hiddenReader{bus: b}
		r := newRig(t, b, batches, func(o *catchup.Options) { o.Reader, o.Streams[0].Release = reader, true }, "s").start()
		b.make("d")
		reader.hidden = true
		register(t, r, "d", "2", 0)
	})
	bubble(t, "of a capability stream that cannot be read the outcome is unknown", func(t *testing.T) {
		b, batches := filled(t, nil)
		reader := &hiddenReader{bus: b}
		r := newRig(t, b, batches, func(o *catchup.Options) { o.Reader = reader }, "s").start()
		b.make("d")
		reader.hidden = true
		if _, err := r.c.Register(t.Context(), "s", sink.TPRef{Name: "d", Incarnation: "2"}); !errors.Is(err, catchup.ErrReadBack) {
			t.Error(err)
		}
	})
}
