package shard

import (
	"context"
	"hash/maphash"
	"slices"
	"time"

	"example.org/bridge/source"
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
	after := back.after
	if err := c.read(ctx, &after, c.after.Modified, changesAtOnce, inFlight); err != nil || inFlight && !c.server.fitsTraits(c.list.Server) {
		return err
	}
	back.after = after
	back.parts++
	if !c.list.More {
		back.end()
	}
	if !c.poll.reaches {
		return c.publishNew(ctx, c.list.List, publish)
	}
	if c.list.More && c.far.light {
		// There is too much for one read: what is older than the look-back is left to far.
		c.far.light = false
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
		if now.Sub(begin) > c.opts.LookBack {
			// Nothing was read for a while. What was within the reach then may be committed by now.
			c.far.watch.from(c.column.Text(begin.Add(-c.opts.Reach), c.opts.Zone))
		}
	}
	if at, ok := c.column.Time([]byte(c.after.Modified), c.opts.Zone); ok && at.Before(begin) {
		begin = at
	}
	from := c.column.Text(begin.Add(-c.opts.LookBack), c.opts.Zone)
	back.from, back.after, back.parts = from, source.Cursor{Modified: from}, 0
	if c.poll.reaches && c.far.light {
		back.after.Modified = min(from, c.far.begin())
	}
	// To the second, two changes of a row often bear the same MODIFIED, and the later one may have
	// been committed since it was read.
	var left []uint64
	for name, modified := range c.whole {
		if modified < from {
			delete(c.whole, name)
			left = append(left, name.id)
		}
	}
	slices.Sort(left)
	for part := range slices.Chunk(left, changesAtOnce) {
		if err := publish(ctx, source.RangesOf(part)); err != nil {
			return err
		}
	}
	return nil
}

// rowName names a row among changes: by its id, and by the text of that where several rows have
// one.
type rowName struct {
	id   uint64
	text string
}

func nameOf(at source.Cursor) rowName { return rowName{at.ID, at.Row} }

// recent remembers which changes the second cursor has seen to: pairs of an id and its MODIFIED. It
// is bounded: of each row only the last change is kept, and the older half of all goes when the
// younger half is full or old enough. Full it is beyond maxLookBack, and before that only where it
// holds a look-back, since that is read again and again. A change whose hash is that of another one
// of its row is left to reconcile.
type recent struct {
	// most bounds the changes of one half that are older than lookBack, reach is how old a half may
	// become.
	most            int
	lookBack, reach time.Duration
	seed            maphash.Seed
	// young and old hold hashes of MODIFIED by id, or by the hash of its text; a change is added to
	// the young half.
	young, old map[uint64]uint64
	// youngFrom and oldFrom are when the halves were begun, by the database's clock.
	youngFrom, oldFrom time.Time
}

func newRecent(most int, lookBack, reach time.Duration) *recent {
	return &recent{most: max(1, most/2), lookBack: lookBack, reach: reach, seed: maphash.MakeSeed(), young: make(map[uint64]uint64)}
}

func (r *recent) add(at source.Cursor, now time.Time) {
	n, age := len(r.young), now.Sub(r.youngFrom)
	if n >= r.most && (age > r.lookBack || n >= maxLookBack) || age > r.reach {
		r.old, r.oldFrom = r.young, r.youngFrom
		r.young, r.youngFrom = make(map[uint64]uint64, len(r.old)/4), now
	}
	r.young[r.name(at)] = maphash.String(r.seed, at.Modified)
}

func (r *recent) name(at source.Cursor) uint64 {
	if at.Row == "" {
		return at.ID
	}
	return maphash.String(r.seed, at.Row)
}

func (r *recent) has(at source.Cursor) bool {
	name := r.name(at)
	hash, ok := r.young[name]
	if !ok {
		hash, ok = r.old[name]
	}
	return ok && hash == maphash.String(r.seed, at.Modified)
}

// from returns the moment from which on no change that was noted is forgotten, at most the reach
// before now. Before the first change it is that.
func (r *recent) from(now time.Time) time.Time {
	if limit := now.Add(-r.reach); limit.After(r.oldFrom) {
		return limit
	}
	return r.oldFrom
}

// setBack notes that the database's clock was set back by d.
func (r *recent) setBack(d time.Duration) {
	r.youngFrom, r.oldFrom = r.youngFrom.Add(-d), r.oldFrom.Add(-d)
}

// watch holds changes in flight: rows whose MODIFIED was read at READ UNCOMMITTED and is not
// committed. It is bounded; of what there is no room for it keeps the oldest MODIFIED, from which
// on everything is to be read until there is room.
//
// All rows of one statement have the same MODIFIED, and all of a transaction are committed at the
// same moment. So it is enough to look at one row of each moment at a poll: when that is no longer
// in flight, the others of its moment are looked at, too.
type watch struct {
	// most bounds the rows, which have their MODIFIED by name.
	most int
	rows map[rowName]string
	// low is the oldest MODIFIED that there was no room for, next the same since the pass of far
	// began, which reads everything from low on; empty for none.
	low, next string
}

// add watches a row, in place of what was known of it.
func (w *watch) add(at source.Cursor) {
	if _, known := w.rows[nameOf(at)]; !known && w.full() {
		w.from(at.Modified)
		return
	}
	w.rows[nameOf(at)] = at.Modified
}

// from has everything be read from a MODIFIED on, by the next pass of far.
func (w *watch) from(modified string) {
	w.low, w.next = older(w.low, modified), older(w.next, modified)
}

func (w *watch) full() bool { return len(w.rows) >= w.most }

func older(a, b string) string {
	if a == "" || b < a {
		return b
	}
	return a
}

// sample returns one row of each moment, others where there is room, at most n: others at each call
// where there are more.
func (w *watch) sample(n int) (list []source.Cursor) {
	var others []source.Cursor
	moments := make(map[string]bool)
	// Maps are walked from an entry that differs each time.
	for name, modified := range w.rows {
		at := source.Cursor{Modified: modified, ID: name.id, Row: name.text}
		if !moments[modified] {
			moments[modified] = true
			list = append(list, at)
		} else if len(others) < n {
			others = append(others, at)
		}
	}
	list = append(list, others...)
	return list[:min(n, len(list))]
}

// beside returns the rows that are watched with the MODIFIED of one of these, at most n.
func (w *watch) beside(moments map[string]bool, n int) (list []source.Cursor) {
	for name, modified := range w.rows {
		if moments[modified] && len(list) < n {
			list = append(list, source.Cursor{Modified: modified, ID: name.id, Row: name.text})
		}
	}
	return list
}
