package verify

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"bridge/event"
	"bridge/source"
)

// scope is the tables whose entities are one set: those of a capability stream, or one table, see
// Shard.Apart. A release stream has facts and no entities.
type scope struct {
	*entities
	tables []*table
	// extra are entities that live by the bus and that no table has.
	extra []ghost
}

// ghost is an entity that lives by the bus and has no row.
type ghost struct {
	key    key
	entity uint32
}

// join adds a table to the scope that its entities belong to.
func (r *run) join(t *table) error {
	s := t.shard
	if s.Kind == event.Release {
		return nil
	}
	at := slices.IndexFunc(r.scopes, func(c *scope) bool {
		return c.tables[0].shard.Stream == s.Stream && !s.Apart
	})
	if at < 0 {
		at = len(r.scopes)
		r.scopes = append(r.scopes, &scope{entities: newEntities()})
	}
	c := r.scopes[at]
	if len(c.tables) == math.MaxUint16 {
		return fmt.Errorf("stream %s has more than %d tables", s.Stream, math.MaxUint16)
	}
	s.scope, s.number, s.entities = c, uint16(len(c.tables)), c.entities
	c.tables = append(c.tables, t)
	return nil
}

// of returns the table of an entity's last event.
func (c *scope) of(n *entity) *table { return c.tables[n.shard] }

// live counts the entities that live by the bus.
func (c *scope) live() (n uint64) {
	for i := range c.count {
		if c.at(i).flags&dead == 0 {
			n++
		}
	}
	return n
}

// findExtra finds the entities that live by the bus and have no row.
func (c *scope) findExtra() {
	for k, at := range c.index {
		if c.at(at).flags&(seen|dead) == 0 {
			c.extra = append(c.extra, ghost{k, at})
		}
	}
}

// rereadExtra reads the rows that the last events of these entities are about.
func (c *scope) rereadExtra(ctx context.Context) error {
	ids := make([][]source.Range, len(c.tables))
	flush := func(table uint16) error {
		t := c.tables[table]
		list := disjoint(ids[table])
		ids[table] = ids[table][:0]
		return t.readIDs(ctx, list, func(row source.Row, now time.Time) { t.shard.compareRow(row, now) })
	}
	for _, g := range c.extra {
		n := c.at(g.entity)
		ids[n.shard] = append(ids[n.shard], source.Range{First: n.row, Last: n.row})
		if len(ids[n.shard]) == rereadRows {
			if err := flush(n.shard); err != nil {
				return err
			}
		}
	}
	for table := range ids {
		if err := flush(uint16(table)); err != nil {
			return err
		}
	}
	return nil
}

// extraAgain drops the entities that turned out to have a row, or to be gone by the bus too; the
// last time the others are reported.
func (c *scope) extraAgain(last bool) {
	kept := c.extra[:0]
	for _, g := range c.extra {
		n := c.at(g.entity)
		t := c.of(n)
		e := Example{Shard: t.shard.Name, Row: n.row, At: n.at, partition: int(n.partition)}
		switch {
		case n.flags&(seen|dead) != 0:
		case !last:
			kept = append(kept, g)
		case n.flags&split != 0:
			e.What = "it has no row"
			t.shard.tally.doubt(Split, e)
		default:
			e.What = "the last event says that it lives, but it has no row"
			t.hint(&e)
			t.shard.tally.fault(Extra, e)
		}
	}
	c.extra = kept
}

// disjoint sorts single ids and drops those that are there twice.
func disjoint(ids []source.Range) []source.Range {
	slices.SortFunc(ids, func(a, b source.Range) int { return cmp.Compare(a.First, b.First) })
	return slices.Compact(ids)
}

// finishLinks reports links that lead nowhere, and histories that begin again.
func (c *scope) finishLinks(partitions []Partition) {
	for _, awaited := range c.awaited {
		c.brokenLink(awaited, partitions)
	}
	for _, awaited := range c.unlinked {
		c.brokenLink(awaited, partitions)
	}
	for _, d := range c.disorders {
		n := c.at(d.entity)
		last, _ := c.unpack(n.stamp)
		d.shard.tally.pastFault(OutOfOrder, 1, d.example, n.flags&overtaken == 0 && d.epoch != 0 && (d.healer || d.epoch < last))
	}
	// To publish rows again begins many histories again, or repeats events that begin one. One
	// alone is something else.
	tally := c.tables[0].shard.tally
	if c.restarts == 1 && c.rootless == 0 {
		tally.faults(OutOfOrder, 1, c.restartExamples)
		return
	}
	tally.doubts(Restarted, c.restarts, c.restartExamples...)
}

func (c *scope) brokenLink(a await, partitions []Partition) {
	if c.at(a.entity).flags&several != 0 {
		// The event that it follows may have been read before, in another partition.
		return
	}
	s := c.tables[a.shard].shard
	e := a.example(s, "it follows "+event.FormatID(a.link)+", which the bus does not hold")
	refused := slices.ContainsFunc(c.tables, func(t *table) bool { _, refused := t.shard.refused[a.link]; return refused })
	switch p := partitions[e.partition]; {
	case refused:
		e.What = "it follows " + event.FormatID(a.link) + ", which the bus refused: it is a dead letter"
		s.tally.doubt(PutAside, e)
	case p.Expired:
		s.tally.doubt(Expired, e)
	case p.Thinned:
		s.tally.doubt(Thinned, e)
	default:
		s.tally.pastFault(BrokenLink, 1, e, a.attempt.epoch != 0 && a.attempt.before(s.last))
	}
}
