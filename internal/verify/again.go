package verify

import (
	"context"
	"time"

	"bridge/source"
)

// rereadRows is how many rows are read again at once.
const rereadRows = 500

// again looks at the suspects another time, and at the rows that have come since.
func (t *table) again(ctx context.Context, last bool) error {
	list := t.suspects
	t.suspects = nil
	for len(list) > 0 {
		n := min(len(list), rereadRows)
		if err := t.reread(ctx, list[:n], last); err != nil {
			return err
		}
		list = list[n:]
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
		t.shard.tally.doubt(Young, Example{Shard: t.shard.Name, Row: s.row, What: "it came while the check ran", partition: -1})
	}
	t.suspects = nil
}

// reread looks at some suspects.
func (t *table) reread(ctx context.Context, list []suspect, last bool) error {
	ids := make([]source.Range, len(list))
	for i, s := range list {
		ids[i] = source.Range{First: s.row, Last: s.row}
	}
	if err := t.readIDs(ctx, ids, func(row source.Row, now time.Time) {
		for list[0].row < row.ID {
			t.vanished(list[0])
			list = list[1:]
		}
		t.second(list[0], row, now, last)
		list = list[1:]
	}); err != nil {
		return err
	}
	for _, s := range list {
		t.vanished(s)
	}
	return t.finishTwins(ctx)
}

// readIDs reads rows by their ids.
func (t *table) readIDs(ctx context.Context, ids []source.Range, each func(source.Row, time.Time)) error {
	for len(ids) > 0 {
		if err := t.read(ctx, source.Query{Ranges: ids, Limit: pageRows, MaxBytes: pageBytes}); err != nil {
			return err
		}
		page := &t.run.page
		for _, row := range page.Rows {
			each(row, page.Now)
			for len(ids) > 0 && ids[0].First <= row.ID {
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
	n := t.shard.at(s.entity)
	if n.flags&seen != 0 && n.seenBy != t.shard.number {
		// Another table has a row of it.
		return
	}
	n.flags &^= seen
	t.shard.scope.extra = append(t.shard.scope.extra, ghost{s.key, s.entity})
}

// second looks at a suspect another time.
func (t *table) second(s suspect, row source.Row, now time.Time, last bool) {
	v := t.shard.compareRow(row, now)
	if !s.known && v.fault != Missing && !v.silent {
		t.matched++
	}
	if t.accept(&v, row.ID) {
		return
	}
	before, moved := s.since, v.sum != s.sum
	if s = suspectOf(&v, row.ID, now); !moved {
		s.since = before
	}
	if !last {
		t.suspects = append(t.suspects, s)
		return
	}
	if v.double {
		t.twins = append(t.twins, t.twinOf(s, &v, row, now, moved))
		return
	}
	t.conclude(s, &v, row.ID, now, moved)
}

// conclude reports a row that does not fit at the last look. moved says that it is another state
// than at the look before.
func (t *table) conclude(s suspect, v *verdict, row uint64, now time.Time, moved bool) {
	old := t.isOld(v, row, s.since, now)
	e := t.example(v, row)
	switch {
	case moved:
		t.shard.tally.doubt(Changing, e)
	case !old:
		t.shard.tally.doubt(Young, e)
	case v.fault == Missing:
		t.missing(e)
	default:
		t.hint(&e)
		t.shard.tally.fault(v.fault, e)
	}
}

// hint says where an event may be that the bus lacks.
func (t *table) hint(e *Example) {
	if _, rejected := t.shard.rejected[e.Row]; rejected {
		e.What += "; the bus refused an event of the row, which is a dead letter"
		t.rejectedRows++
	}
}

// isOld reports whether a row has not changed for so long that what it says must have been
// published: by its own time, or since it was seen first.
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
	partitions := t.run.Bus.Partitions()
	if from, why := t.shard.expectedFrom(partitions); e.Row < from {
		t.shard.tally.doubt(why, e)
		return
	}
	t.hint(&e)
	for _, p := range partitions {
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
