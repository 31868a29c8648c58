package buscopy

import (
	"context"
	"maps"
	"slices"

	"bridge/checkpoint/store"
)

// copied are the kinds of parts that a copy has: all but those of a reconcile, which begins again.
var copied = []store.Kind{store.Gaps, store.Ahead, store.Published, store.MeaningPart, store.Noted, store.SchemaPart}

// read reads the content of a copy. Where the parts are too large, thin is true, and the copy has
// of each shard what `bridge checkpoint rebuild` keeps: what START and commands have decided.
func read(ctx context.Context, kept store.Store, s Stream) (c content, thin bool, err error) {
	image, err := kept.Load(ctx)
	if err != nil {
		return content{}, false, err
	}
	size := 0
	for _, key := range slices.SortedFunc(maps.Keys(image.Shards), store.Key.Compare) {
		if key.Stream != s.Name {
			continue
		}
		shard := Shard{Name: key.Shard, Progress: image.Shards[key]}
		// A view that is rebuilt lacks what was recorded, and what has expired.
		shard.Progress.ReconcileDue = shard.Progress.ReconcileDue || !s.Release
		for _, kind := range copied {
			for part, err := range kept.Parts(ctx, key, kind, 0) {
				if err != nil {
					return content{}, false, err
				}
				if size += len(part.Bytes); size > maxBytes {
					return decisions(&image, s), true, nil
				}
				shard.Parts = append(shard.Parts, part)
			}
		}
		c.Shards = append(c.Shards, shard)
	}
	if s.Release {
		c.Registrations = inForce(&image, s.Name)
	}
	return c, false, nil
}

func inForce(image *store.Image, stream string) []store.Registration {
	return slices.DeleteFunc(slices.Clone(image.Registrations), func(r store.Registration) bool { return r.Stream != stream || r.Retired })
}

// decisions returns a copy with the decisions alone.
func decisions(image *store.Image, s Stream) (c content) {
	for _, key := range slices.SortedFunc(maps.Keys(image.Shards), store.Key.Compare) {
		if p := image.Shards[key]; key.Stream == s.Name {
			c.Shards = append(c.Shards, Shard{Name: key.Shard, Progress: store.Progress{
				Started: p.Started, Floor: p.Floor, Since: p.Since, Saved: p.Saved, ReconcileDue: true,
			}})
		}
	}
	return c
}
