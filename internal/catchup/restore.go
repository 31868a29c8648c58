package catchup

import (
	"context"
	"fmt"

	"bridge/checkpoint/store"
)

// Copy is an older copy of what a store had of a stream, but for its view (decision 23). The zero
// value is none.
type Copy struct {
	// Registrations are those of a release stream. Their numbers mean nothing.
	Registrations []store.Registration
	// Shards have all that was copied of a shard.
	Shards []store.ShardChange
	// IgnoreBelow is that of the stream by the copy.
	IgnoreBelow uint64
}

// replaced are the kinds of parts that a copy of a shard replaces.
var replaced = []store.Kind{store.Gaps, store.Ahead, store.Published, store.Reconcile, store.AbsentEntities, store.MeaningPart, store.Noted, store.SchemaPart}

// restore puts into the store what it lacks of a copy: all where it has nothing of the stream, else
// the shards about which the copy has a decision that the store does not know. Either is older than
// what is on the bus, and so safe.
func (c *CatchUp) restore(ctx context.Context, s *stream) error {
	if c.opts.Copy == nil {
		return nil
	}
	copied, err := c.opts.Copy(ctx, s.Name)
	if err != nil {
		return err
	}
	if copied.IgnoreBelow > s.IgnoreBelow && s.partitions() == nil {
		s.IgnoreBelow, s.IgnoreStateless = copied.IgnoreBelow, true
	}
	image, err := c.committer.store.Load(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", errStore, err)
	}
	b := Lacking(&image, s.Name, &copied)
	if empty(b) {
		return nil
	}
	for i := range b.Registrations {
		b.Registrations[i].Number = c.committer.next()
	}
	c.opts.Log.Info("progress was restored from the bus", "stream", s.Name, "shards", len(b.Shards), "topics", len(b.Registrations))
	return c.committer.disk.retry(ctx, func() error {
		return s.Feed.Restore(b, func(b *store.Batch) error {
			return c.committer.cover(ctx, b)
		})
	})
}

// Lacking returns what a store that holds image lacks of a copy of a stream. Registrations have no
// numbers yet.
//
// A shard is replaced though the offsets of the store may lie beyond those of the copy: between
// them is no message of it that counts, or the store would know the decision from that.
func Lacking(image *store.Image, stream string, copied *Copy) *store.Batch {
	b := &store.Batch{}
	fresh := true
	for key := range image.Shards {
		fresh = fresh && key.Stream != stream
	}
	for i := range image.Registrations {
		fresh = fresh && image.Registrations[i].Stream != stream
	}
	if fresh {
		for _, r := range copied.Registrations {
			r.Number = 0
			b.Registrations = append(b.Registrations, r)
		}
	}
	for _, change := range copied.Shards {
		has, is := image.Shards[change.Key], change.Progress
		if fresh || is.Since > has.Since || is.Since == has.Since && is.Started && !has.Started {
			change.Clear = replaced
			b.Shards = append(b.Shards, change)
		}
	}
	return b
}
