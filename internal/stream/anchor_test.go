package stream_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/checkpoint/store/storetest/memory"
	"example.org/bridge/internal/stream"
)

// TestALossThatIsReadOver: the bus loses the tail of a TP, others refill it, and the hole behind
// the lost messages is read before anchors are compared the next time (rule 20).
func TestALossThatIsReadOver(t *testing.T) {
	for name, single := range map[string]bool{"several messages": false, "one message": true} {
		goesOn(t, name, func(t *testing.T, b *bus, r *rig) {
			r.run()
			r.pass(time.Second)
			b.lose("d", 2)
			b.other("1")
			b.other("2")
			if !single {
				b.other("3")
			}
			r.publishes("d")
			r.pass(5 * time.Minute)
			r.wantRead(2, true)
		})
	}
	bubble(t, "another stream reads the TP from its beginning, and over that loss", func(t *testing.T) {
		b, _ := filled(t, nil)
		r := newRig(t, b, nil, nil, "o", "s").start()
		r.run()
		r.pass(time.Second)
		b.lose("d", 2)
		b.other("1")
		b.other("2")
		r.publishes("d")
		former := r.registration("s", "d").Number
		r.pass(5 * time.Minute)
		for _, stream := range []string{"o", "s"} {
			if g := r.registration(stream, "d"); g.Number <= former || g.Next != b.end("d") || !r.feeds[stream].due {
				t.Errorf("registration %+v, a reconcile is due: %v", g, r.feeds[stream].due)
			}
		}
	})
	for name, lost := range map[string]bool{"a stream that starts later reads over what another one has published": false, "and over its loss": true} {
		bubble(t, name, func(t *testing.T) {
			b := newBus("d", "e")
			o := ours("x", 5, 1)
			o.stream = "o"
			b.append("e", o.stored())
			open := b.holds("e")
			r := newRig(t, b, nil, func(o *stream.Options) { o.Streams[1].Destinations = []string{"d", "e"} }, "s", "o")
			done := r.starting()
			if err := r.stopOf("s"); err != nil {
				t.Fatal(err)
			}
			former := r.registration("s", "d").Number
			for range 2 {
				b.other("x")
				r.publishes("d")
			}
			if lost {
				b.lose("d", 1)
				for range 4 {
					b.other("y")
				}
			}
			r.pass(time.Minute)
			close(open)
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			r.run()
			r.pass(2 * time.Minute)
			r.wantSeen("s", "")
			if g := r.registration("s", "d"); (g.Number != former) != lost || g.Next != b.end("d") || r.feeds["s"].due != lost {
				t.Errorf("registration %+v, a reconcile is due: %v", g, r.feeds["s"].due)
			}
		})
	}
	goesOn(t, "nothing was lost, and the message at the anchor has expired", func(t *testing.T, b *bus, r *rig) {
		r.run()
		for range 5 {
			b.other("x")
			b.expire("d", 3)
			r.publishes("d")
			r.pass(5 * time.Minute)
		}
		if g := r.registration("s", "d"); g.Number != 1 || g.Next != b.end("d") {
			t.Errorf("registration %+v", g)
		}
	})
}

var errKilled = errors.New("killed")

// disk is a store that can be killed, and can be opened as it was at any time.
type disk struct {
	store.Store
	mu      sync.Mutex
	batches []store.Batch
	synced  int
	// left is how many more batches it applies before it is killed; below 0: any number.
	left int
	// fault, when not nil, is returned once it has run out of left batches.
	fault error
	// damaged, when not nil, is closed by the test.
	damaged chan struct{}
}

// newDisk returns a store that has applied batches.
func newDisk(batches []store.Batch) *disk {
	d := &disk{Store: memory.New(), left: -1, fault: errKilled, damaged: make(chan struct{})}
	for i := range batches {
		if err := d.Apply(context.Background(), &batches[i]); err != nil {
			panic(err)
		}
	}
	d.synced = len(d.batches)
	return d
}

func (d *disk) Apply(ctx context.Context, b *store.Batch) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.left == 0 {
		return d.fault
	}
	d.left--
	kept := cloneBatch(b)
	if err := d.Store.Apply(ctx, &kept); err != nil {
		return err
	}
	d.batches = append(d.batches, kept)
	return nil
}

func (d *disk) Sync(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.left == 0 {
		return d.fault
	}
	d.synced = len(d.batches)
	return d.Store.Sync(ctx)
}

// kill makes the store fail after some more batches.
func (d *disk) kill(after int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.left = after
}

// applied returns the batches that were applied, and how many of them are synced.
func (d *disk) applied() ([]store.Batch, int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.batches), d.synced
}

func cloneBatch(b *store.Batch) store.Batch {
	kept := *b
	kept.Registrations = slices.Clone(b.Registrations)
	kept.Views = nil
	kept.Shards = slices.Clone(b.Shards)
	for i := range kept.Shards {
		one := &kept.Shards[i]
		one.Parts = slices.Clone(one.Parts)
		for j := range one.Parts {
			one.Parts[j].Bytes = bytes.Clone(one.Parts[j].Bytes)
		}
	}
	for _, v := range b.Views {
		changes := slices.Clone(v.Changes)
		for i := range changes {
			changes[i].Entity = bytes.Clone(changes[i].Entity)
		}
		kept.Views = append(kept.Views, store.ViewChange{Stream: v.Stream, Changes: changes})
	}
	return kept
}

func (d *disk) Damaged() <-chan struct{} { return d.damaged }
