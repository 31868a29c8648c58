package stream_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/internal/stream"
)

// undecided is a feed that cannot read the store for late messages.
type undecided struct{ *recorder }

func (undecided) ForgetDecided(context.Context) error { return stream.ErrUnread }

func TestLateMessagesThatCannotBeRead(t *testing.T) {
	bubble(t, "the bus is read on, so another bridge is seen", func(t *testing.T) {
		b := newBus("d")
		r := newRig(t, b, nil, func(o *stream.Options) { o.Streams[0].Feed = undecided{o.Streams[0].Feed.(*recorder)} }, "s").start()
		r.run()
		b.says(ours("new", r.c.Epoch().Number()+1, 1))
		r.pass(2 * time.Minute)
		if len(r.faults.Outages()) != 1 || !errors.Is(r.over, stream.ErrSuperseded) {
			t.Errorf("the outages are %+v, superseded by %v", r.faults.Outages(), r.over)
		}
	})
}

func TestACopyIsLaterThanTheStoreWas(t *testing.T) {
	bubble(t, "what a later process has dropped is forgotten though another stream was ready first", func(t *testing.T) {
		key := store.Key{Stream: "s", Shard: "x"}
		former := []store.Batch{{Epoch: 5, Shards: []store.ShardChange{{Key: key, Progress: &store.Progress{Started: true, Position: 7, Saved: published}}}}}
		var r *rig
		r = newRig(t, newBus("d"), former, func(o *stream.Options) {
			o.Copy = func(ctx context.Context, name string) (stream.Copy, error) {
				if name == "u" {
					return stream.Copy{}, nil
				}
				err := r.c.Wait(ctx, "u")
				return stream.Copy{Epoch: 6, Forgets: func(string) (may, table bool) { return true, true }}, err
			}
		}, "s", "u")
		if err := errors.Join(r.start().stopOf("s"), r.stopOf("u")); err != nil {
			t.Fatal(err)
		}
		image, err := r.disk.Load(t.Context())
		if p := image.Shards[key]; err != nil || p.Position != 0 || p.Since != 7 {
			t.Errorf("%+v, %v", p, err)
		}
	})
}
