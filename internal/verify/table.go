package verify

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"bridge/source"
)

// table reads the rows of a shard and keeps those that do not fit.
type table struct {
	run   *run
	shard *shard
	// after is the highest row that was read.
	after uint64
	// suspects are rows that do not fit, in the order of their ids; extra are entities without a row.
	suspects []suspect
	extra    []ghost
	// matched counts the rows that have an event.
	matched      uint64
	rejectedRows uint64
}

// suspect is a row that does not fit.
type suspect struct {
	row uint64
	// look digests what was compared, since is when that was seen first, by the database's clock.
	look   uint64
	since  time.Time
	entity uint32
	key    key
	// known says that the bus has an event of it.
	known bool
}

func suspectOf(v *verdict, row uint64, now time.Time) suspect {
	return suspect{row: row, look: v.look, since: now, entity: v.entity, key: v.entityKey, known: v.fault != Missing}
}

// ghost is an entity that lives by the bus and has no row.
type ghost struct {
	key    key
	entity uint32
}

// scan reads all rows that lie behind those that were read.
func (t *table) scan(ctx context.Context) error {
	for {
		if err := t.read(ctx, source.Query{After: t.after, Limit: pageRows, MaxBytes: pageBytes}); err != nil {
			return err
		}
		page := &t.run.page
		for _, record := range page.Records {
			t.shard.rows++
			t.first(record, page.Now)
			t.after = record.ID
		}
		t.run.Progress(Step{What: "reading " + t.shard.Name, Done: t.after, Total: page.MaxID})
		if !page.More {
			return nil
		}
	}
}

// first looks at a row for the first time.
func (t *table) first(record source.Record, now time.Time) {
	v := t.shard.look(record, now)
	if v.fault != Missing {
		t.matched++
	}
	if !t.accept(&v, record.ID) {
		t.suspects = append(t.suspects, suspectOf(&v, record.ID, now))
	}
}

// accept takes note of a row that needs no other look, and reports whether it is one.
func (t *table) accept(v *verdict, row uint64) bool {
	if v.reason != "" && v.fault == "" {
		t.shard.tally.doubt(v.reason, t.example(v, row))
	}
	return v.fault == ""
}

func (t *table) example(v *verdict, row uint64) Example {
	e := Example{Shard: t.shard.Name, Row: row, Key: v.key, What: v.what, place: -1}
	if v.entity != none {
		n := t.shard.at(v.entity)
		e.place, e.At = int(n.place), n.at
	}
	return e
}

// again looks at the suspects another time, and at the rows that have come since.
func (t *table) again(ctx context.Context, last bool) error {
	list := t.suspects
	t.suspects = nil
	for len(list) > 0 {
		n := min(len(list), 500)
		if err := t.reread(ctx, list[:n], last); err != nil {
			return err
		}
		list = list[n:]
	}
	if err := t.rereadExtra(ctx); err != nil {
		return err
	}
	if err := t.scan(ctx); err != nil {
		return err
	}
	if last {
		t.tooYoung()
	}
	return nil
}

// tooYoung gives up on rows that came during the last look.
func (t *table) tooYoung() {
	for _, s := range t.suspects {
		t.shard.tally.doubt(Young, Example{Shard: t.shard.Name, Row: s.row, What: "it came while the check ran", place: -1})
	}
	t.suspects = nil
}

// reread looks at some suspects.
func (t *table) reread(ctx context.Context, list []suspect, last bool) error {
	ids := make([]source.Range, len(list))
	for i, s := range list {
		ids[i] = source.Range{First: s.row, Last: s.row}
	}
	if err := t.readIDs(ctx, ids, func(record source.Record, now time.Time) {
		for list[0].row < record.ID {
			t.vanished(list[0])
			list = list[1:]
		}
		t.second(list[0], record, now, last)
		list = list[1:]
	}); err != nil {
		return err
	}
	for _, s := range list {
		t.vanished(s)
	}
	return nil
}

// readIDs reads rows by their ids.
func (t *table) readIDs(ctx context.Context, ids []source.Range, each func(source.Record, time.Time)) error {
	for len(ids) > 0 {
		if err := t.read(ctx, source.Query{Ranges: ids, Limit: pageRows, MaxBytes: pageBytes}); err != nil {
			return err
		}
		page := &t.run.page
		for _, record := range page.Records {
			each(record, page.Now)
			for len(ids) > 0 && ids[0].First <= record.ID {
				ids = ids[1:]
			}
		}
		if !page.More {
			return nil
		}
	}
	return nil
}

// vanished is a suspect whose row is gone: its entity may have another one, or none.
func (t *table) vanished(s suspect) {
	if s.entity == none || t.shard.entities == nil {
		return
	}
	t.shard.at(s.entity).flags &^= seen
	t.extra = append(t.extra, ghost{s.key, s.entity})
}

// second looks at a suspect another time.
func (t *table) second(s suspect, record source.Record, now time.Time, last bool) {
	v := t.shard.look(record, now)
	if !s.known && v.fault != Missing {
		t.matched++
	}
	if t.accept(&v, record.ID) {
		return
	}
	before, moved := s.since, v.look != s.look
	if s = suspectOf(&v, record.ID, now); !moved {
		s.since = before
	}
	if !last {
		t.suspects = append(t.suspects, s)
		return
	}
	old := t.isOld(&v, record.ID, s.since, now)
	e := t.example(&v, record.ID)
	switch {
	case moved:
		t.shard.tally.doubt(Changing, e)
	case !old:
		t.shard.tally.doubt(Young, e)
	case v.fault == Missing:
		t.missing(e)
	default:
		t.shard.tally.fault(v.fault, e)
	}
}

// isOld reports whether a row has not changed for so long that what it says must have been published: by its own time, or since
// it was seen first.
func (t *table) isOld(v *verdict, row uint64, since, now time.Time) bool {
	window := t.shard.Window
	if v.fault != Missing || row <= t.shard.newest {
		// What the tail has passed is no new row.
		window = min(window, mostWindow)
	}
	due := window + 2*t.run.Pause
	return now.Sub(since) >= due || !v.time.IsZero() && now.Sub(v.time) >= due
}

// missing reports a row without an event, unless the bus need not have one.
func (t *table) missing(e Example) {
	places := t.run.Bus.Places()
	if from, why := t.shard.expectedFrom(places); e.Row < from {
		t.shard.tally.doubt(why, e)
		return
	}
	if _, rejected := t.shard.rejected[e.Row]; rejected {
		e.What += "; the bus refused it, it is in the dead letters"
		t.rejectedRows++
	}
	for _, p := range places {
		if p.Thinned && t.shard.facts != nil && t.shard.uses(p) {
			t.shard.tally.doubt(Thinned, e)
			return
		}
	}
	if e.Row > t.shard.newest {
		t.shard.behind++
	}
	t.shard.tally.fault(Missing, e)
}

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
		err := t.readIDs(ctx, ids, func(record source.Record, now time.Time) { t.shard.look(record, now) })
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

// extraAgain drops the entities that turned out to have a row, or to be gone by the bus too; the last time the others are
// reported.
func (t *table) extraAgain(last bool) {
	kept := t.extra[:0]
	for _, g := range t.extra {
		n := t.shard.at(g.entity)
		switch {
		case n.flags&(seen|dead) != 0 || t.elsewhere(g.key):
		case !last:
			kept = append(kept, g)
		case n.flags&split != 0:
			t.shard.tally.doubt(Split, Example{Shard: t.shard.Name, Row: n.row, At: n.at, What: "it has no row", place: int(n.place)})
		default:
			t.shard.tally.fault(Extra, Example{
				Shard: t.shard.Name, Row: n.row, At: n.at, What: "the last event says that it lives, but it has no row", place: int(n.place),
			})
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

// settleFacts tells events of rows that are gone from events of rows that never were: their ids have not been given out.
func (t *table) settleFacts(ctx context.Context) error {
	s := t.shard
	if s.facts == nil {
		return nil
	}
	next, err := s.Source.NextID(ctx)
	if err != nil {
		return fmt.Errorf("stream %s: %w", s.Stream, err)
	}
	if next == 0 {
		next = math.MaxUint64
	}
	never := uint64(0)
	for row := range s.byRow {
		if row >= next {
			never++
			s.tally.fault(Extra, Example{Shard: s.Name, Row: row, What: fmt.Sprintf("the table has not given out its id yet, the next one is %d", next), place: -1})
		}
	}
	if gone := uint64(len(s.byRow)) - t.matched; gone > never {
		s.tally.doubts(Purged, gone-never)
	}
	return nil
}

// disjoint sorts single ids and drops those that are there twice.
func disjoint(ids []source.Range) []source.Range {
	slices.SortFunc(ids, func(a, b source.Range) int { return cmp.Compare(a.First, b.First) })
	return slices.Compact(ids)
}
