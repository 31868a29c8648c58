package verify

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"example.org/bridge/client/backoff"
	"example.org/bridge/event"
	"example.org/bridge/source"
)

const (
	pageRows  = 2000
	pageBytes = 8 << 20
	// rereadRows is how many rows are read again at once.
	rereadRows = 500
	// retryFor is how long one outage of a source may last.
	retryFor = 30 * time.Second
	// mostWindow bounds how long a stability window is waited for.
	mostWindow = time.Minute
)

// table is a shard with what the bus says of it.
type table struct {
	schema
	run *run
	*stream

	// entities are the entities of a capability shard, which is table number number there, facts
	// the events of a release shard.
	*entities
	number uint16
	*facts
	// rows counts the rows read, unproven the events whose meta.id proves nothing.
	rows, unproven uint64
	// tails holds the first row that the tail published in each partition, newest the highest of
	// all.
	tails  map[int]uint64
	newest uint64
	// rejected are rows in the dead letters, refused are the events there.
	rejected map[uint64]bool
	refused  map[[16]byte]bool
	// doubts are events that are judged once the table has been read.
	doubts map[doubt]*Finding
	// unknownMembers are the events with a member of no column, or of another type than its column,
	// and usual the partitions where an event of the table's shape has come.
	unknownMembers map[uint64]*unknownMembers
	usual          map[int]bool
	// last is the last attempt to run the shard, firstRow and lastRow are the ids of its rows.
	last              attempt
	firstRow, lastRow uint64
	// suspects are rows that do not fit, in the order of their ids.
	suspects []suspect
}

// stream is what the tables of a stream share.
type stream struct {
	report Stream
	tally
	deliveries deliveries
	// head is the newest message, stamped counts those with a stamp.
	head    newest
	stamped uint64
}

func (r *run) newTable(o Shard, of *stream) *table {
	s := &table{
		schema: newSchema(o), run: r, stream: of,
		tails: make(map[int]uint64), rejected: make(map[uint64]bool), refused: make(map[[16]byte]bool),
		doubts: make(map[doubt]*Finding), unknownMembers: make(map[uint64]*unknownMembers), usual: make(map[int]bool),
	}
	if o.Kind == event.Release {
		s.facts = newFacts()
	}
	return s
}

// suspect is a row that does not fit.
type suspect struct {
	row uint64
	// sum digests what was compared, since is when that was seen first, by the database's clock.
	sum    uint64
	since  time.Time
	entity uint32
}

// duplicate is a row whose key another table of the stream had, too, when it was seen.
type duplicate struct {
	comparison
	// key has the values of its key columns.
	key [][]byte
	// other has the key in row otherRow, nil if no table has. fits says that a row of another table
	// is what the last event says.
	other    *table
	otherRow uint64
	fits     bool
}

// join adds a table to the tables that share its entities. A release stream has facts and no
// entities.
func (r *run) join(t *table) error {
	if t.Kind == event.Release {
		return nil
	}
	at := slices.IndexFunc(r.entities, func(l *entities) bool { return l.tables[0].Stream == t.Stream && !t.Apart })
	if at < 0 {
		at = len(r.entities)
		r.entities = append(r.entities, newEntities())
	}
	l := r.entities[at]
	if len(l.tables) == 1<<16-1 {
		return fmt.Errorf("stream %s has more than %d tables", t.Stream, len(l.tables))
	}
	t.entities, t.number = l, uint16(len(l.tables))
	l.tables = append(l.tables, t)
	return nil
}

// unfitError says that a table cannot be judged, whatever becomes of others.
type unfitError struct{ error }

func (e *unfitError) Unwrap() error { return e.error }

// read fills the page of the run. It retries through an outage of up to retryFor.
func (t *table) read(ctx context.Context, q source.Query) (*source.Page, error) {
	transient := func(err error) bool {
		return !errors.Is(err, source.ErrMissing) && !errors.Is(err, source.ErrDenied) && !errors.Is(err, source.ErrUnfit)
	}
	page := &t.run.page
	q.MaxBytes = pageBytes
	pause := backoff.Backoff{First: 100 * time.Millisecond, Max: 2 * time.Second, Limit: retryFor}
	err := pause.Retry(ctx, func() error { return t.Source.Read(ctx, q, page) }, transient)
	if err == nil {
		err = t.bind(page.Columns)
	} else if transient(err) {
		return nil, fmt.Errorf("stream %s: %w", t.Stream, err)
	}
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", t.Stream, &unfitError{err})
	}
	return page, nil
}

// readIDs reads rows by their ids, which ascend.
func (t *table) readIDs(ctx context.Context, ids []source.Range, each func(source.Row, time.Time)) error {
	for len(ids) > 0 {
		page, err := t.read(ctx, source.Query{Ranges: ids, Limit: pageRows})
		if err != nil {
			return err
		}
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

// scan reads all rows after the ones that were read.
func (t *table) scan(ctx context.Context) error {
	for {
		page, err := t.read(ctx, source.Query{After: t.lastRow, Limit: pageRows})
		if err != nil {
			return err
		}
		for _, row := range page.Rows {
			t.report.Rows++
			if t.rows++; t.rows == 1 {
				t.firstRow = row.ID
			}
			t.lastRow = row.ID
			if l := t.compare(row, page.Now); !t.accept(&l) {
				t.suspect(&l)
			}
		}
		t.run.Progress(Step{What: "reading " + t.Name, Done: t.lastRow, Total: page.MaxID})
		if !page.More {
			return nil
		}
	}
}

// accept takes note of a row that needs no other look, and reports whether it is one.
func (t *table) accept(l *comparison) bool {
	if l.double || l.fault != "" {
		return false
	}
	if l.reason != "" {
		t.add(l.reason, 1, t.rowExample(l))
	}
	return true
}

func (t *table) suspect(l *comparison) {
	t.suspects = append(t.suspects, suspect{row: l.row, sum: l.sum, since: l.since, entity: l.entity})
}

func (t *table) rowExample(l *comparison) Example {
	e := Example{Shard: t.Name, Row: l.row, Key: l.key, What: l.what, partition: -1}
	if l.entity != none {
		n := t.get(l.entity)
		e.partition, e.At = int(n.partition), n.at
	}
	return e
}

// recheck looks at the suspects another time, and at the rows that have come since. The last time,
// what still does not fit is reported.
func (t *table) recheck(ctx context.Context, last bool) error {
	list := t.suspects
	t.suspects = nil
	for chunk := range slices.Chunk(list, rereadRows) {
		if err := t.reread(ctx, chunk, last); err != nil {
			return err
		}
	}
	if err := t.scan(ctx); err != nil || !last {
		return err
	}
	for _, s := range t.suspects {
		t.add(young, 1, Example{Shard: t.Name, Row: s.row, What: "it came while the check ran", partition: -1})
	}
	t.suspects = nil
	return nil
}

// reread looks at some suspects.
func (t *table) reread(ctx context.Context, list []suspect, last bool) error {
	ids := make([]source.Range, len(list))
	for i, s := range list {
		ids[i] = source.Range{First: s.row, Last: s.row}
	}
	var duplicates []duplicate
	if err := t.readIDs(ctx, ids, func(row source.Row, now time.Time) {
		for ; list[0].row < row.ID; list = list[1:] {
			t.vanished(list[0])
		}
		before := list[0]
		list = list[1:]
		l := t.compare(row, now)
		if t.accept(&l) {
			return
		}
		if l.moved = l.sum != before.sum; !l.moved {
			l.since = before.since
		}
		switch {
		case !last:
			t.suspect(&l)
		case l.double:
			w := duplicate{comparison: l}
			for _, c := range t.columns.Key {
				w.key = append(w.key, bytes.Clone(row.Values[c]))
			}
			duplicates = append(duplicates, w)
		default:
			t.conclude(&l)
		}
	}); err != nil {
		return err
	}
	for _, s := range list {
		t.vanished(s)
	}
	if len(duplicates) == 0 {
		return nil
	}
	for _, other := range t.tables {
		if other != t {
			if err := other.findDuplicates(ctx, duplicates); err != nil {
				return err
			}
		}
	}
	for i := range duplicates {
		t.concludeDuplicate(&duplicates[i])
	}
	return nil
}

// vanished is a suspect whose row is gone: its entity may have another one, or none.
func (t *table) vanished(s suspect) {
	if s.entity == none || t.entities == nil {
		return
	}
	if n := t.get(s.entity); n.flags&seen == 0 || n.seenBy == t.number {
		n.flags &^= seen
		t.extra = append(t.extra, s.entity)
	}
}

// findDuplicates finds the rows of the table that have the keys of duplicates.
func (t *table) findDuplicates(ctx context.Context, list []duplicate) error {
	keys, index := make([][][]byte, len(list)), make(map[uint32]*duplicate, len(list))
	for i := range list {
		keys[i], index[list[i].entity] = list[i].key, &list[i]
	}
	page, err := t.read(ctx, source.Query{Keys: keys, Limit: pageRows})
	if err != nil {
		return err
	}
	if half := len(list) / 2; page.More && half > 0 {
		// It proves nothing about the rows that it lacks.
		if err := t.findDuplicates(ctx, list[:half]); err != nil {
			return err
		}
		return t.findDuplicates(ctx, list[half:])
	}
	for _, row := range page.Rows {
		l := t.compare(row, page.Now)
		if w := index[l.entity]; w != nil && l.entity != none {
			w.other, w.otherRow, w.fits = t, row.ID, w.fits || l.fault == ""
		}
	}
	return nil
}

// concludeDuplicate reports a row: alone, or with that of another table, once for both.
func (t *table) concludeDuplicate(w *duplicate) {
	n := t.get(w.entity)
	if w.other == nil {
		n.flags &^= double
		n.seenBy, w.double = t.number, false
		if !t.accept(&w.comparison) {
			t.conclude(&w.comparison)
		}
		return
	}
	if n.flags&reported != 0 {
		return
	}
	n.flags |= reported
	e := t.rowExample(&w.comparison)
	e.What = fmt.Sprintf("the table %s has its key, too, in row %d", w.other.Name, w.otherRow)
	t.add(twoRows, 1, e)
	if w.fault != "" && !w.fits {
		w.what += "; no table with its key has what the last event says"
		t.conclude(&w.comparison)
	}
}

// conclude reports a row that does not fit at the last look.
func (t *table) conclude(l *comparison) {
	window := t.Window
	if l.fault != missing || l.row <= t.newest {
		// What the tail has passed is not a new row.
		window = min(window, mostWindow)
	}
	// A row is old once what it says must have been published: by its own time, or since it was
	// seen first.
	due := window + 2*t.run.Pause
	isOld := l.now.Sub(l.since) >= due || !l.time.IsZero() && l.now.Sub(l.time) >= due
	e := t.rowExample(l)
	switch {
	case l.moved:
		t.add(changing, 1, e)
	case !isOld:
		t.add(young, 1, e)
	case l.fault == missing:
		t.missing(e)
	default:
		t.hint(&e)
		t.add(l.fault, 1, e)
	}
}

// missing reports a row without an event, unless the bus need not have one.
func (t *table) missing(e Example) {
	partitions := t.run.Bus.Partitions()
	if from, why := t.expectedFrom(partitions); e.Row < from {
		t.add(why, 1, e)
		return
	}
	t.hint(&e)
	if t.facts != nil && slices.ContainsFunc(partitions, func(p Partition) bool { return p.Thinned && t.uses(p) }) {
		t.add(thinned, 1, e)
		return
	}
	if e.Row > t.newest {
		t.report.Behind++
	}
	t.add(missing, 1, e)
}

// hint says where an event may be that the bus lacks.
func (t *table) hint(e *Example) {
	if t.rejected[e.Row] {
		e.What += "; the bus refused an event of the row, which is a dead letter"
		t.report.Rejected++
	}
}

// findExtra finds the entities that live by the bus and have no row.
func (l *entities) findExtra() {
	for i := range l.count {
		if l.get(i).flags&(seen|dead) == 0 {
			l.extra = append(l.extra, i)
		}
	}
}

// recheckExtra reads the rows that the last events of these entities are about, and drops the
// entities that turn out to have a row, or to be gone by the bus too. The last time, the others are
// reported.
func (l *entities) recheckExtra(ctx context.Context, last bool) error {
	for _, t := range l.tables {
		var ids []source.Range
		for _, i := range l.extra {
			if n := l.get(i); n.shard == t.number {
				ids = append(ids, source.Range{First: n.row, Last: n.row})
			}
		}
		slices.SortFunc(ids, func(a, b source.Range) int { return cmp.Compare(a.First, b.First) })
		for chunk := range slices.Chunk(slices.Compact(ids), rereadRows) {
			if err := t.readIDs(ctx, chunk, func(row source.Row, now time.Time) { t.compare(row, now) }); err != nil {
				return err
			}
		}
	}
	l.extra = slices.DeleteFunc(l.extra, func(i uint32) bool {
		n := l.get(i)
		t := l.tables[n.shard]
		e := Example{Shard: t.Name, Row: n.row, At: n.at, What: "the last event says that it lives, but it has no row", partition: int(n.partition)}
		switch {
		case n.flags&(seen|dead) != 0:
		case !last:
			return false
		default:
			t.hint(&e)
			t.add(extra, 1, e)
		}
		return true
	})
	return nil
}
