package stream_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/internal/share"
	"example.org/bridge/internal/stream"
	"example.org/bridge/sink"
)

// mine has a process publish some shards of stream s, and others the rest.
func mine(shards ...string) func(*stream.Options) {
	return func(o *stream.Options) {
		o.Streams[0].Mine = func(shard string) bool { return slices.Contains(shards, shard) }
	}
}

// of is a message of a shard.
func of(shard, key string, epoch, seq uint64) *said {
	m := ours(key, epoch, seq)
	m.shard = shard
	return m
}

// TestMessagesOfOtherShares: nothing of them is applied, and nothing concluded from their epochs,
// their hash and what they lack, while catching up and later.
func TestMessagesOfOtherShares(t *testing.T) {
	future := uint64(time.Now().Add(time.Hour).UnixMilli())
	foreign := func(b *bus) {
		b.says(of("other", "b", future, 1))
		changed := of("other", "c", future, 2)
		changed.hash = 77
		b.says(changed)
		stateless := of("other", "d", 7, 3).stored()
		stateless.Headers = slices.DeleteFunc(slices.Clone(stateless.Headers), func(h sink.Header) bool { return strings.EqualFold(h.Name, sink.HeaderState) })
		b.append("d", stateless)
	}
	bubble(t, "of a topic", func(t *testing.T) {
		b := newBus("d")
		b.says(of("a", "a", 5, 1))
		foreign(b)
		r := newRig(t, b, nil, mine("a"), "s").start()
		r.run()
		r.wantSeen("s", "a")
		if r.c.Epoch().Number() > future {
			t.Errorf("the epoch %d is above that of another share", r.c.Epoch().Number())
		}
		foreign(b)
		b.says(of("a", "late", 4, 1))
		r.publishes("own")
		r.pass(2 * time.Minute)
		r.wantSeen("s", "late*")
		r.wantNext("s", "d", b.end("d"))
		if g := r.registration("s", "d"); g.Epoch != r.c.Epoch().Number() || r.over != nil || r.stopOf("s") != nil {
			t.Errorf("registered as %+v; superseded: %v, stopped: %v", g, r.over, r.stopOf("s"))
		}
		// One of its own share supersedes it.
		b.says(of("a", "x", future+1, 1))
		r.pass(2 * time.Minute)
		if !errors.Is(r.over, stream.ErrSuperseded) {
			t.Errorf("superseded: %v", r.over)
		}
	})
}

// TestEpochsOfShares: shares that begin in one millisecond have different ones, near the time.
func TestEpochsOfShares(t *testing.T) {
	bubble(t, "at once", func(t *testing.T) {
		for _, number := range []int{1, 3, share.Most} {
			seen, now := make(map[uint64]int), uint64(time.Now().UnixMilli())
			for _, index := range slices.Compact([]int{0, number / 2, number - 1}) {
				r := newRig(t, newBus("d"), nil, func(o *stream.Options) { o.Share = share.Share{Index: index, Number: number} }, "s").start()
				epoch := r.c.Epoch().Number()
				if other, met := seen[epoch]; met || epoch < now || epoch >= now+uint64(number) {
					t.Errorf("share %d of %d has epoch %d at %d, and share %d, too", index, number, epoch, now, other)
				}
				seen[epoch] = index
			}
		}
		b := newBus("d")
		high := uint64(time.Now().Add(time.Hour).UnixMilli())
		b.says(of("a", "a", high, 1))
		r := newRig(t, b, nil, func(o *stream.Options) { o.Share = share.Share{Index: 2, Number: 7} }, "s").start()
		if epoch := r.c.Epoch().Number(); epoch <= high || epoch%7 != 2 {
			t.Errorf("the epoch is %d above %d", epoch, high)
		}
	})
}

// TestPermit: a process that is not permitted publishes nothing, and has to be started again. It is
// asked once its epoch is durable.
func TestPermit(t *testing.T) {
	bubble(t, "refused", func(t *testing.T) {
		refused, asked := errors.New("refused"), 0
		var r *rig
		permit := func(_ context.Context, epoch uint64) error {
			asked++
			if image, err := r.disk.Load(t.Context()); err != nil || image.Epoch == 0 || image.Epoch != epoch {
				t.Errorf("the store has the epoch %d: %v", image.Epoch, err)
			}
			if asked > 1 {
				return nil
			}
			return refused
		}
		b := newBus("d")
		r = newRig(t, b, nil, func(o *stream.Options) { o.Permit = permit }, "s", "other")
		if err := r.c.Start(t.Context()); !errors.Is(err, stream.ErrStartAgain) || !errors.Is(err, refused) {
			t.Errorf("it starts: %v", err)
		}
		if asked == 0 {
			t.Error("it is not asked")
		}
	})
}

// TestAnEpochIsAboveThoseOfCopies: the clock of a host may be behind that of the former owner of a
// table, below whose epoch messages do not count.
func TestAnEpochIsAboveThoseOfCopies(t *testing.T) {
	future := uint64(time.Now().Add(time.Hour).UnixMilli())
	for _, copied := range []stream.Copy{
		{Epoch: future},
		{Shards: []store.ShardChange{{Key: store.Key{Stream: "s", Shard: "t"}, Progress: &store.Progress{Since: future}}}},
	} {
		r := newRig(t, newBus("d"), nil, func(o *stream.Options) {
			o.Copy = func(context.Context, string) (stream.Copy, error) { return copied, nil }
		}, "s").start()
		if got := r.c.Epoch().Number(); got <= future {
			t.Errorf("the epoch is %d, want one above %d", got, future)
		}
	}
}
