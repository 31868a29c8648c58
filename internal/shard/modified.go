package shard

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"bridge/internal/failpoint"
	"bridge/sink"
	"bridge/source"
)

const (
	// lookBackEvery is how often the second cursor reads again what it has passed within the look-back, since modification times, too,
	// are taken before the commit.
	lookBackEvery = time.Second
	// changesAtOnce bounds the changes of one read.
	changesAtOnce = 2000
	// maxSeen bounds the changes that are remembered; what is forgotten is read once more, and dropped by the view.
	maxSeen = 100_000
	// saveCursorEvery is how often a place is saved while nothing is published.
	saveCursorEvery = 30 * time.Second
)

// second is the cursor over (MODIFIED, id) of a capability shard. It only notices: what has changed is read again by id.
type second struct {
	// after is how far it has come, again how far the look-back has, while one is under way.
	after, again source.Cursor
	// from is the MODIFIED that the look-back began at.
	from    string
	looking bool
	// restored says that after comes from the checkpoint.
	restored bool
	// began is the database's clock when the look-back began, covered that of the last one that came to its end.
	began, covered time.Time
	// column is MODIFIED as it was when the cursor was moved last.
	column source.Column
	// polled, looked and saved are when it last read what is new, began to look back, and handed its place to be saved.
	polled, looked, saved time.Time
	// far looks for changes in flight; short says that the last look-back was a single read, parts counts those of the present one.
	far   *far
	short bool
	parts int
	// inFlight says that changes in flight are looked for at this poll, now is the database's clock.
	inFlight bool
	now      time.Time
	// seen holds, for rows read within the look-back, the MODIFIED they were read with.
	seen map[uint64]string
	// over is the newest MODIFIED whose moment has passed, behind a MODIFIED at or behind which there are changes that were not read
	// yet, empty where there are none.
	over   string
	behind string
	// found is the oldest MODIFIED of what this poll found late, cut says that it had no time to look for all that is like it.
	found   string
	cut     bool
	changes source.Changes
	ids     []uint64
}

// follow looks for rows that were modified in place and publishes what has changed. It does so at most once a poll.
func (s *Shard) follow(ctx context.Context, out chan<- *batch) error {
	c, columns := s.second, s.reader.columns
	if c == nil || columns == nil || columns.Modified < 0 || time.Since(c.polled) < s.opts.PollInterval {
		return nil
	}
	c.polled = time.Now()
	err := s.followChanges(ctx, s.reader.databaseNow(), out)
	if errors.Is(err, source.ErrAltered) && ctx.Err() == nil {
		// The next poll brings the columns, and the cursor begins anew with them.
		return nil
	}
	if errors.Is(err, source.ErrUnfit) && ctx.Err() == nil {
		s.second = nil
		s.status.leave(findChanges, time.Time{})
		s.opts.Logger.Warn("updates in place wait for reconcile from now on: MODIFIED cannot be followed", "error", err)
		return nil
	}
	return err
}

func (s *Shard) followChanges(ctx context.Context, now time.Time, out chan<- *batch) error {
	c, column := s.second, s.reader.columns.List[s.reader.columns.Modified]
	through := column.Text(now, s.opts.Zone)
	c.over = column.Text(now.Add(-column.Resolution()), s.opts.Zone)
	c.inFlight, c.now = s.seesInFlight(), now
	c.begin(column, s.opts, now, through)
	if err := s.newChanges(ctx, through, out); err != nil {
		return err
	}
	c.found, c.cut = "", false
	if err := s.oldChanges(ctx, now, out); err != nil {
		return err
	}
	c.cut = c.looking
	if err := s.farChanges(ctx, now, out); err != nil {
		return err
	}
	waits := c.behind
	if c.cut && c.found != "" {
		// What was found late seldom comes alone.
		waits = older(waits, c.found)
	}
	s.status.leave(findChanges, s.changesSince(waits))
	return s.saveCursor(ctx, out)
}

// begin sets the place of a cursor that has none, or one that cannot be.
func (c *second) begin(column source.Column, opts Options, now time.Time, through string) {
	at, readable := column.Time([]byte(c.after.Modified), opts.Zone)
	altered := c.column != column && c.column != source.Column{}
	switch {
	case !readable, altered, c.after.Modified > through:
		// Beyond the present: a clock that was set back, or the hour that a zone shows twice.
		c.after = source.Cursor{Modified: column.Text(now.Add(-opts.LookBack), opts.Zone)}
	case c.restored:
		// What was committed late around the saved place is read once more.
		c.after = source.Cursor{Modified: column.Text(at.Add(-opts.LookBack), opts.Zone)}
		c.far.watch.low = column.Text(at.Add(-opts.Reach), opts.Zone)
	}
	if altered {
		c.looking = false
		clear(c.seen)
		c.far = newFar(opts)
	}
	c.column, c.restored = column, false
}

// newChanges reads what lies behind the cursor.
func (s *Shard) newChanges(ctx context.Context, through string, out chan<- *batch) error {
	c := s.second
	for {
		if err := s.readChanges(ctx, source.ChangeQuery{After: c.after, Through: through, Limit: changesAtOnce}); err != nil {
			return err
		}
		n := len(c.changes.List)
		if n == 0 {
			c.behind = ""
			c.reach(through)
			return nil
		}
		next, more := c.changes.List[n-1], c.changes.More
		c.behind = ""
		if more {
			c.behind = next.Modified
		}
		if err := s.readChanged(ctx, out); err != nil {
			return err
		}
		c.after = next
		if !more {
			c.reach(through)
			return nil
		}
		if time.Since(c.polled) > s.opts.PollInterval {
			// The tail has its turn.
			return nil
		}
	}
}

// reach notes that there is nothing more up to a moment.
func (c *second) reach(through string) {
	if c.after.Modified < through {
		c.after = source.Cursor{Modified: through}
	}
}

// oldChanges reads a part of what lies within the look-back.
func (s *Shard) oldChanges(ctx context.Context, now time.Time, out chan<- *batch) error {
	c := s.second
	if failpoint.Mutant(failpoint.NoLookBack) {
		return nil
	}
	if !c.looking {
		if time.Since(c.looked) < lookBackEvery && !(c.inFlight && c.short) {
			return nil
		}
		if err := s.lookBack(ctx, now, out); err != nil {
			return err
		}
	}
	if c.again.Modified >= c.after.Modified {
		c.lookedBack()
		return nil
	}
	q := source.ChangeQuery{After: c.again, Through: c.after.Modified, Limit: changesAtOnce, Uncommitted: c.inFlight}
	if err := s.readChanges(ctx, q); err != nil || q.Uncommitted && !s.sameServer(c.changes.Server) {
		return err
	}
	if n := len(c.changes.List); n > 0 {
		c.again = c.changes.List[n-1]
	}
	c.parts++
	if !c.changes.More {
		c.lookedBack()
	}
	if q.Uncommitted {
		if c.far.light && c.changes.More {
			// There is too much for one read: what is older than the look-back is left to far.
			c.far.light = false
			if c.again.Modified < c.from {
				c.again = source.Cursor{Modified: c.from}
			}
		}
		s.noteUnseen()
		return nil
	}
	return s.readChanged(ctx, out)
}

// lookBack begins to look back: from the look-back before now, or, after a stall, before when it was last done and where the cursor stands.
func (s *Shard) lookBack(ctx context.Context, now time.Time, out chan<- *batch) error {
	c := s.second
	c.looking, c.looked, c.began = true, time.Now(), now
	begin := now
	if !c.covered.IsZero() && c.covered.Before(begin) {
		begin = c.covered
	}
	if at, ok := c.column.Time([]byte(c.after.Modified), s.opts.Zone); ok && at.Before(begin) {
		begin = at
	}
	from := c.column.Text(begin.Add(-s.opts.LookBack), s.opts.Zone)
	c.from, c.again, c.parts = from, source.Cursor{Modified: from}, 0
	if c.inFlight && c.far.light {
		c.again.Modified = min(from, c.far.begin(now, c.column, s.opts.Zone))
	}
	// To the second, two changes of a row often bear the same MODIFIED, and the later one may have been committed since it was read.
	left := c.forget(from)
	slices.Sort(left)
	for part := range slices.Chunk(left, changesAtOnce) {
		if err := s.republish(ctx, rangesOf(part), sink.FromModified, nil, out); err != nil {
			return err
		}
	}
	return nil
}

// lookedBack notes that all within the look-back has been read.
func (c *second) lookedBack() { c.looking, c.covered, c.short = false, c.began, c.parts <= 1 }

func (s *Shard) readChanges(ctx context.Context, q source.ChangeQuery) error {
	return s.reader.changes(ctx, q, &s.second.changes)
}

// readChanged reads those of the rows of the last changes that may say something new.
func (s *Shard) readChanged(ctx context.Context, out chan<- *batch) error {
	c := s.second
	c.ids = c.ids[:0]
	oldest := c.behind
	for _, change := range c.changes.List {
		if s.ahead(change.ID) || c.noted(change) {
			continue
		}
		if oldest == "" || change.Modified < oldest {
			oldest = change.Modified
		}
		c.ids = append(c.ids, change.ID)
		c.see(change.ID, change.Modified)
	}
	if len(c.ids) == 0 {
		return nil
	}
	s.active = time.Now()
	c.found = older(c.found, oldest)
	s.status.leave(findChanges, s.changesSince(oldest))
	slices.Sort(c.ids)
	return s.republish(ctx, rangesOf(slices.Compact(c.ids)), sink.FromModified, nil, out)
}

// changesSince is the host's time of a MODIFIED, for the lag; zero for an empty one.
func (s *Shard) changesSince(modified string) time.Time {
	if modified == "" {
		return time.Time{}
	}
	at, ok := s.second.column.Time([]byte(modified), s.opts.Zone)
	if !ok {
		return time.Now()
	}
	return s.hostTime(at)
}

// ahead reports whether the row with this id is for the tail or the ledger to publish.
func (s *Shard) ahead(id uint64) bool {
	ledger := s.gaps.ledger
	return ledger != nil && (id > ledger.Position() || ledger.Missing(id))
}

// rangesOf returns ascending ids as ranges.
func rangesOf(ids []uint64) []source.Range {
	var ranges []source.Range
	for _, id := range ids {
		if n := len(ranges); n > 0 && ranges[n-1].Last+1 == id {
			ranges[n-1].Last = id
			continue
		}
		ranges = append(ranges, source.Range{First: id, Last: id})
	}
	return ranges
}

// see notes that a row is read with this MODIFIED. While that moment is not over another change may bear it, too.
func (c *second) see(id uint64, modified string) {
	if modified >= c.over {
		return
	}
	if len(c.seen) >= maxSeen {
		clear(c.seen)
	}
	c.seen[id] = modified
	c.remember(id, modified)
}

// remember notes for longer than the look-back that a row is read with this MODIFIED, where changes in flight are looked for.
func (c *second) remember(id uint64, modified string) {
	if c.inFlight && modified < c.over {
		c.far.recent.add(id, modified, c.now)
	}
}

// seeTail notes the rows of a page that the tail has read, so that the cursor does not read the newest of them again.
func (s *Shard) seeTail(page *source.Page, records []source.Row) {
	c := s.second
	if c == nil || page.Columns.Modified < 0 {
		return
	}
	column := page.Columns.List[page.Columns.Modified]
	from := column.Text(page.Now.Add(-s.opts.LookBack), s.opts.Zone)
	far := column.Text(page.Now.Add(-s.opts.Reach), s.opts.Zone)
	for _, record := range records {
		switch v := record.Values[page.Columns.Modified]; {
		case v == nil:
		case string(v) > from:
			c.see(record.ID, string(v))
		case string(v) > far:
			c.remember(record.ID, string(v))
		}
	}
}

// forget drops what lies before the look-back and returns the rows whose MODIFIED was written to the second.
func (c *second) forget(from string) []uint64 {
	var left []uint64
	for id, modified := range c.seen {
		if modified < from {
			delete(c.seen, id)
			if _, fraction, _ := strings.Cut(modified, "."); strings.Trim(fraction, "0") == "" {
				left = append(left, id)
			}
		}
	}
	return left
}

// saveCursor hands the place on to be saved when no batch has taken it for a while.
func (s *Shard) saveCursor(ctx context.Context, out chan<- *batch) error {
	if time.Since(s.second.saved) < saveCursorEvery {
		return nil
	}
	b := s.newBatch()
	if s.gaps.ledger != nil {
		b.last = s.gaps.ledger.Position()
	}
	return s.handOver(ctx, b, out)
}

// cursorAt returns the place of the second cursor at a moment, the zero one where there is no MODIFIED.
func (s *Shard) cursorAt(columns *source.Columns, now time.Time) source.Cursor {
	if s.view == nil || columns.Modified < 0 {
		return source.Cursor{}
	}
	return source.Cursor{Modified: columns.List[columns.Modified].Text(now, s.opts.Zone)}
}

// openCursor makes the second cursor of a shard whose MODIFIED has an index, from the place that was saved.
func (s *Shard) openCursor(saved source.Cursor) {
	s.second = nil
	if s.view != nil && s.gaps.traits.ModifiedIndexed {
		s.second = &second{
			after: saved, restored: saved != source.Cursor{}, seen: make(map[uint64]string), saved: time.Now(), far: newFar(s.opts), short: true,
		}
	}
}
