package verify

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
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

type table struct {
	schema
	run *run
	*stream

	*entities
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
	// suspects are rows that do not fit, open those of the last look whose key another table had.
	suspects map[rowKey]suspect
	open     []comparison
}

type stream struct {
	report Stream
	tally
	// origins are the tables by what their events name: of a table that was removed, there may be
	// many events.
	origins    map[origin][]*table
	deliveries deliveries
	// formers are the tables that are not configured and have events of the stream's entities.
	formers map[string]*table
	// head is the newest message, stamped counts those with a stamp.
	head    newest
	stamped uint64
}

func (r *run) newTable(o Shard, of *stream) *table {
	s := &table{
		schema: newSchema(o), run: r, stream: of,
		tails: make(map[int]uint64), rejected: make(map[uint64]bool), refused: make(map[[16]byte]bool),
		doubts: make(map[doubt]*Finding), unknownMembers: make(map[uint64]*unknownMembers), usual: make(map[int]bool),
		suspects: make(map[rowKey]suspect),
	}
	if o.Kind == event.Release {
		s.facts = &facts{byRow: make(map[uint64]fact), newestOf: make(map[uint64]uint64)}
	}
	return s
}

// rowKey names a row: by its id and, where rows share ids, the key of its entity.
type rowKey struct {
	row uint64
	key string
}

// suspect is a row that does not fit: sum digests what was compared, since is when that was seen
// first, by the database's clock.
type suspect struct {
	sum    uint64
	since  time.Time
	entity *entity
}

// sharesIDs reports whether several rows may have one id.
func (s *schema) sharesIDs() bool { return s.columns != nil && s.columns.IDFormat != "" }

func (s *schema) rowKey(row uint64, key string) rowKey {
	if !s.sharesIDs() {
		key = ""
	}
	return rowKey{row, key}
}

// unfitError says that a table cannot be judged, whatever becomes of others; away, that its
// database cannot be reached.
type unfitError struct {
	error
	away bool
}

func (e *unfitError) Unwrap() error { return e.error }

// read fills the page of the run. It retries through an outage of up to retryFor.
func (t *table) read(ctx context.Context, q source.Query) (*source.Page, error) {
	page := &t.run.page
	q.MaxBytes = pageBytes
	pause := backoff.Backoff{First: 100 * time.Millisecond, Max: 2 * time.Second, Limit: retryFor}
	if err := pause.Retry(ctx, func() error { return t.Source.Read(ctx, q, page) }, func(err error) bool { return !source.Stops(err) }); err != nil {
		return nil, t.failed(ctx, err)
	}
	if err := t.bind(page.Columns); err != nil {
		return nil, fmt.Errorf("stream %s: %w", t.Stream, &unfitError{error: err})
	}
	return page, nil
}

func (t *table) failed(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		err = &unfitError{err, !source.Stops(err)}
	}
	return fmt.Errorf("stream %s: %w", t.Stream, err)
}

// readIDs reads the rows of ids, which it sorts.
func (t *table) readIDs(ctx context.Context, ids []uint64, each func(source.Row, time.Time)) error {
	slices.Sort(ids)
	for chunk := range slices.Chunk(slices.Compact(ids), rereadRows) {
		for len(chunk) > 0 {
			ranges := make([]source.Range, len(chunk))
			for i, id := range chunk {
				ranges[i] = source.Range{First: id, Last: id}
			}
			page, err := t.read(ctx, source.Query{Ranges: ranges, Limit: pageRows})
			if err != nil {
				return err
			}
			last := uint64(math.MaxUint64)
			for _, row := range page.Rows {
				each(row, page.Now)
				last = row.ID
			}
			if !page.More {
				break
			}
			chunk = slices.DeleteFunc(chunk, func(id uint64) bool { return id <= last })
		}
	}
	return nil
}

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
			l := t.compare(row, page.Now)
			t.noteRow(&l, false)
		}
		t.run.Progress(Step{What: "reading " + t.Name, Done: t.lastRow, Total: page.MaxID})
		if !page.More {
			return nil
		}
	}
}

// noteRow takes a row as it is if it fits, else has it looked at again. The last time it reports
// it, once all tables have been read where several have had its key.
func (t *table) noteRow(l *comparison, last bool) {
	n := l.entity
	shared := n != nil && n.shared
	switch {
	case last && shared:
		t.open = append(t.open, *l)
	case last && l.fault != "":
		t.conclude(l)
	case l.fault == "" && !shared:
		if l.reason != "" {
			t.add(l.reason, 1, l.example(t.Name))
		}
	default:
		t.suspects[t.rowKey(l.row, l.key)] = suspect{l.sum, l.since, n}
		if n == nil || !n.double || n.seenBy == t {
			return
		}
		// The row of the other table was not known to be one of two.
		if first := n.seenBy.rowKey(n.seenRow, l.key); n.seenBy.suspects[first].entity == nil {
			n.seenBy.suspects[first] = suspect{entity: n}
		}
	}
}

func (l *comparison) example(shard string) Example {
	e := Example{Shard: shard, Row: l.row, Key: l.key, What: l.what, partition: -1}
	if n := l.entity; n != nil {
		e.partition, e.At = int(n.partition), n.at
	}
	return e
}

// recheck looks at the suspects another time, and at the rows that have come since. The last time,
// what still does not fit is reported.
func (t *table) recheck(ctx context.Context, last bool) error {
	before := t.suspects
	t.suspects = make(map[rowKey]suspect)
	ids := make([]uint64, 0, len(before))
	for at := range before {
		ids = append(ids, at.row)
	}
	err := t.readIDs(ctx, ids, func(row source.Row, now time.Time) {
		l := t.compare(row, now)
		at := t.rowKey(row.ID, l.key)
		was, known := before[at]
		if delete(before, at); !known && !l.double && l.fault == "" {
			// It has the id of a suspect and was none.
			return
		}
		if l.moved = !known || l.sum != was.sum; !l.moved {
			l.since = was.since
		}
		t.noteRow(&l, last)
	})
	if err != nil {
		return err
	}
	for _, s := range before {
		if s.entity != nil {
			// Its row is gone: it may have another one, or none.
			t.extra[s.entity] = true
		}
	}
	if err := t.scan(ctx); err != nil || !last {
		return err
	}
	for _, row := range slices.SortedFunc(maps.Keys(t.suspects), func(a, b rowKey) int { return cmp.Compare(a.row, b.row) }) {
		t.add(young, 1, Example{Shard: t.Name, Row: row.row, What: "it came while the check ran", partition: -1})
	}
	clear(t.suspects)
	return nil
}

// concludeShared reports the rows of which another table had the key, once for both, or alone where
// none has it any more. All tables have been read, but for the other row of one that has got its
// key since the look before.
func (t *table) concludeShared() {
	for _, l := range t.open {
		n := l.entity
		if !n.double || l.moved {
			if l.double = false; l.fault != "" {
				t.conclude(&l)
			} else if l.reason != "" {
				t.add(l.reason, 1, l.example(t.Name))
			}
			continue
		}
		if n.seenBy == t || n.reported {
			continue
		}
		n.reported = true
		e := l.example(t.Name)
		e.What = fmt.Sprintf("the table %s has its key, too, in row %d", n.seenBy.Name, n.seenRow)
		t.add(twoRows, 1, e)
		if l.fault != "" && !n.fits {
			l.what += "; no table with its key has what the last event says"
			t.conclude(&l)
		}
	}
	t.open = nil
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
	e := l.example(t.Name)
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
	partitions := t.run.Bus.Partitions
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

func (t *table) hint(e *Example) {
	if t.rejected[e.Row] {
		e.What += "; the bus refused an event of the row, which is a dead letter"
		t.report.Rejected++
	}
}

// recheckExtra reads the rows that the last events of these entities are about, and drops the
// entities that turn out to have a row, or to be gone by the bus too, or of a former table. The
// last time, the others are reported.
func (l *entities) recheckExtra(ctx context.Context, last bool) error {
	for _, t := range l.tables {
		var ids []uint64
		for n := range l.extra {
			if n.shard == t && !n.seen {
				ids = append(ids, n.row)
			}
		}
		if err := t.readIDs(ctx, ids, func(row source.Row, now time.Time) { t.compare(row, now) }); err != nil {
			return err
		}
	}
	maps.DeleteFunc(l.extra, func(n *entity, _ bool) bool { return n.seen || n.dead || n.shard.isFormer() })
	if !last {
		return nil
	}
	for _, n := range slices.SortedFunc(maps.Keys(l.extra), func(a, b *entity) int {
		return cmp.Or(cmp.Compare(a.shard.Name, b.shard.Name), cmp.Compare(a.row, b.row))
	}) {
		t := n.shard
		e := Example{Shard: t.Name, Row: n.row, At: n.at, What: "the last event says that it lives, but it has no row", partition: int(n.partition)}
		t.hint(&e)
		t.add(extra, 1, e)
	}
	clear(l.extra)
	return nil
}
