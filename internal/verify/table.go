package verify

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"bridge/event"
	"bridge/internal/backoff"
	"bridge/source"
)

// table reads the rows of a shard and keeps those that do not fit.
type table struct {
	run   *run
	shard *shard
	// after is the highest row that was read.
	after uint64
	// suspects are rows that do not fit, in the order of their ids.
	suspects []suspect
	// twins are rows of which another table has the key, of the suspects that are looked at again.
	twins []twin
	// matched counts the rows that have an event.
	matched      uint64
	rejectedRows uint64
}

// suspect is a row that does not fit.
type suspect struct {
	row uint64
	// sum digests what was compared, since is when that was seen first, by the database's clock.
	sum    uint64
	since  time.Time
	entity uint32
	key    key
	// known says that the bus has an event of it.
	known bool
}

func suspectOf(v *verdict, row uint64, now time.Time) suspect {
	return suspect{row: row, sum: v.sum, since: now, entity: v.entity, key: v.entityKey, known: v.fault != Missing}
}

// scan reads all rows that lie after those that were read.
func (t *table) scan(ctx context.Context) error {
	for {
		if err := t.read(ctx, source.Query{After: t.after, Limit: pageRows, MaxBytes: pageBytes}); err != nil {
			return err
		}
		page := &t.run.page
		for _, row := range page.Rows {
			if t.shard.rows++; t.shard.rows == 1 {
				t.shard.firstRow = row.ID
			}
			t.shard.lastRow = row.ID
			t.first(row, page.Now)
			t.after = row.ID
		}
		t.run.Progress(Step{What: "reading " + t.shard.Name, Done: t.after, Total: page.MaxID})
		if !page.More {
			return nil
		}
	}
}

// first looks at a row for the first time.
func (t *table) first(row source.Row, now time.Time) {
	v := t.shard.compareRow(row, now)
	if v.fault != Missing && !v.silent {
		t.matched++
	}
	if !t.accept(&v, row.ID) {
		t.suspects = append(t.suspects, suspectOf(&v, row.ID, now))
	}
}

// accept takes note of a row that needs no other look, and reports whether it is one.
func (t *table) accept(v *verdict, row uint64) bool {
	if v.double {
		return false
	}
	if v.reason != "" && v.fault == "" {
		t.shard.tally.doubt(v.reason, t.example(v, row))
	}
	return v.fault == ""
}

func (t *table) example(v *verdict, row uint64) Example {
	e := Example{Shard: t.shard.Name, Row: row, Key: v.key, What: v.what, partition: -1}
	if v.entity != none {
		n := t.shard.at(v.entity)
		e.partition, e.At = int(n.partition), n.at
	}
	return e
}

// read fills the page. It retries through an outage of up to retryFor.
func (t *table) read(ctx context.Context, q source.Query) error {
	pause := backoff.Backoff{First: 100 * time.Millisecond, Max: 2 * time.Second, Limit: retryFor}
	err := pause.Retry(ctx, func() error { return t.shard.Source.Read(ctx, q, &t.run.page) }, isTransient)
	if err == nil {
		err = t.shard.bind(t.run.page.Columns)
	} else if isTransient(err) {
		return fmt.Errorf("stream %s: %w", t.shard.Stream, err)
	}
	if err != nil {
		return fmt.Errorf("stream %s: %w", t.shard.Stream, &unfitError{err})
	}
	return nil
}

// unfitError says that a table cannot be judged, whatever becomes of others.
type unfitError struct{ error }

func (e *unfitError) Unwrap() error { return e.error }

// isTransient reports whether a read that failed may succeed later.
func isTransient(err error) bool {
	return !errors.Is(err, source.ErrMissing) && !errors.Is(err, source.ErrDenied) && !errors.Is(err, source.ErrUnfit)
}

// finishFacts tells events of rows that are gone from events of rows that never were: their ids
// have not been given out.
func (t *table) finishFacts(ctx context.Context) error {
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
			s.tally.fault(Extra, Example{Shard: s.Name, Row: row, What: fmt.Sprintf("the table has not given out its id yet, the next one is %d", next), partition: -1})
		}
	}
	if gone := uint64(len(s.byRow)) - t.matched; gone > never {
		s.tally.doubts(Purged, gone-never)
	}
	return nil
}

// sum adds the counts of a shard.
func (t *table) sum(to *Stream) {
	s := t.shard
	to.Shards++
	to.Rows += s.rows
	to.Events += s.events
	to.Repeats += s.repeats
	to.Tombstones += s.tombstones
	to.Rejected += t.rejectedRows
	to.Behind += s.behind
	if s.Kind == event.Release {
		to.Live += uint64(len(s.byRow))
	}
}
