package shard

import (
	"context"
	"slices"
	"strings"
	"time"

	"bridge/source"
)

// lookBack reads again what the cursor has passed, since modification times, too, are taken before
// the commit.
type lookBack struct {
	running bool
	// from is the MODIFIED that it began at, after how far it has come; parts counts its reads.
	from  string
	after source.Cursor
	parts int
	// looked is when it began, by the host's clock, began the same by the database's, covered that
	// of the last one that came to its end.
	looked, began, covered time.Time
	// short says that the last one was a single read.
	short bool
}

// end notes that all within the look-back has been read.
func (b *lookBack) end() { b.running, b.covered, b.short = false, b.began, b.parts <= 1 }

// readAgain reads a part of what lies within the look-back.
func (c *changes) readAgain(ctx context.Context, publish publish) error {
	back, inFlight := &c.back, c.poll.inFlight
	if !back.running {
		if time.Since(back.looked) < lookBackEvery && !(inFlight && back.short) {
			return nil
		}
		if err := c.beginLookBack(ctx, publish); err != nil {
			return err
		}
	}
	if back.after.Modified >= c.after.Modified {
		back.end()
		return nil
	}
	q := source.ChangeQuery{After: back.after, Through: c.after.Modified, Limit: changesAtOnce, Uncommitted: inFlight}
	if err := c.reader.changes(ctx, q, &c.list); err != nil || inFlight && !c.server.fitsTraits(c.list.Server) {
		return err
	}
	if n := len(c.list.List); n > 0 {
		back.after = c.list.List[n-1]
	}
	back.parts++
	if !c.list.More {
		back.end()
	}
	if !inFlight {
		return c.publishNew(ctx, publish)
	}
	if c.list.More && c.far.separate() {
		// There is too much for one read: what is older than the look-back is left to far.
		if back.after.Modified < back.from {
			back.after = source.Cursor{Modified: back.from}
		}
	}
	c.far.noteUnseen(c.list.List)
	return nil
}

// beginLookBack begins to look back: from the look-back before now, or, after a stall, before when
// it was last done and where the cursor stands.
func (c *changes) beginLookBack(ctx context.Context, publish publish) error {
	back, now := &c.back, c.poll.now
	back.running, back.looked, back.began = true, time.Now(), now
	begin := now
	if !back.covered.IsZero() && back.covered.Before(begin) {
		begin = back.covered
	}
	if at, ok := c.column.Time([]byte(c.after.Modified), c.opts.Zone); ok && at.Before(begin) {
		begin = at
	}
	from := c.column.Text(begin.Add(-c.opts.LookBack), c.opts.Zone)
	back.from, back.after, back.parts = from, source.Cursor{Modified: from}, 0
	if c.poll.inFlight && c.far.light {
		back.after.Modified = min(from, c.far.begin())
	}
	// To the second, two changes of a row often bear the same MODIFIED, and the later one may have
	// been committed since it was read.
	left := c.forget(from)
	slices.Sort(left)
	for part := range slices.Chunk(left, changesAtOnce) {
		if err := publish(ctx, source.RangesOf(part)); err != nil {
			return err
		}
	}
	return nil
}

// forget drops what lies before the look-back and returns the rows whose MODIFIED was written to
// the second.
func (c *changes) forget(from string) []uint64 {
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
