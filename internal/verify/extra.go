package verify

import (
	"cmp"
	"context"
	"slices"
	"time"

	"bridge/source"
)

// findExtra finds the entities that live by the bus and have no row.
func (t *table) findExtra() {
	if t.shard.entities == nil {
		return
	}
	for k, at := range t.shard.index {
		if t.shard.at(at).flags&(seen|dead) == 0 {
			t.extra = append(t.extra, ghost{k, at})
		}
	}
}

// rereadExtra looks whether the last rows of entities are there after all.
func (t *table) rereadExtra(ctx context.Context) error {
	var ids []source.Range
	flush := func() error {
		ids = disjoint(ids)
		err := t.readIDs(ctx, ids, func(record source.Row, now time.Time) { t.shard.compareRow(record, now) })
		ids = ids[:0]
		return err
	}
	for _, g := range t.extra {
		row := t.shard.at(g.entity).row
		ids = append(ids, source.Range{First: row, Last: row})
		if len(ids) == 500 {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

// extraAgain drops the entities that turned out to have a row, or to be gone by the bus too; the
// last time the others are reported.
func (t *table) extraAgain(last bool) {
	kept := t.extra[:0]
	for _, g := range t.extra {
		n := t.shard.at(g.entity)
		switch {
		case n.flags&(seen|dead) != 0 || t.elsewhere(g.key):
		case !last:
			kept = append(kept, g)
		case n.flags&split != 0:
			t.shard.tally.doubt(Split, Example{Shard: t.shard.Name, Row: n.row, At: n.at, What: "it has no row", partition: int(n.partition)})
		default:
			e := Example{Shard: t.shard.Name, Row: n.row, At: n.at, What: "the last event says that it lives, but it has no row", partition: int(n.partition)}
			t.hint(&e)
			t.shard.tally.fault(Extra, e)
		}
	}
	t.extra = kept
}

// elsewhere reports whether another shard of the stream has a row of the entity.
func (t *table) elsewhere(k key) bool {
	for _, other := range t.run.shards {
		if other != t.shard && other.Stream == t.shard.Stream && other.entities != nil && other.holds(k) {
			return true
		}
	}
	return false
}

// disjoint sorts single ids and drops those that are there twice.
func disjoint(ids []source.Range) []source.Range {
	slices.SortFunc(ids, func(a, b source.Range) int { return cmp.Compare(a.First, b.First) })
	return slices.Compact(ids)
}
