package shard

import (
	"context"
	"slices"
	"time"

	"example.org/bridge/source"
)

// An UPDATE sets MODIFIED when its statement begins, and may commit minutes later, far behind the
// second cursor. So where evidence counts the index of MODIFIED is read at READ UNCOMMITTED, too:
// the look-back at each poll, and further back a part at each poll (far). What that shows and the
// cursor has not seen is looked up by id, committed: it is published, or it is in flight and
// watched. Like the cursor this only notices; the rows are read again by id. Where the id is the
// time the same is read again without evidence, committed.

const (
	// farAtOnce bounds the changes of one read of far, farShare is how many times as long as a read
	// takes far pauses after it.
	farAtOnce = 5000
	farShare  = 20
	// checkAtOnce bounds the ids of one look-up.
	checkAtOnce = 1000
	// lightRows is how many changes within the reach may be read together with the look-back.
	lightRows = changesAtOnce / 2
	// watchShare is the part of the changes that a cursor remembers which may be in flight at the
	// same time.
	watchShare = 8
	// leastCursorRows is the least of Options.CursorRows.
	leastCursorRows = 4000
)

// far reads the changes between the reach and the look-back, again and again.
type far struct {
	changes *changes
	watch   *watch
	// after is how far the pass has come, through where it ends; rows counts what it has read.
	running bool
	after   source.Cursor
	through string
	rows    int
	// next is when the next part is due; hurry says that it is due at once until the pass ends.
	next  time.Time
	hurry bool
	// light says that all within the reach is so little that the look-back reads it.
	light bool
	// unseen are changes that were read and not seen before.
	unseen []source.Cursor
	warned time.Time
}

// begin returns the MODIFIED behind which a pass begins.
func (f *far) begin() string {
	now, column, zone := f.changes.poll.now, f.changes.column, f.changes.opts.Zone
	from := column.Text(f.changes.recent.from(now), zone)
	if f.watch.low != "" && f.watch.low <= from {
		// Behind excludes it.
		if at, ok := column.Time([]byte(f.watch.low), zone); ok {
			return column.Text(at.Add(-column.Resolution()), zone)
		}
	}
	return from
}

// read reads a part of what lies before the look-back and sees to all that is in flight.
func (f *far) read(ctx context.Context, publish publish) error {
	poll := &f.changes.poll
	if !poll.reaches {
		f.unseen = f.unseen[:0]
		return nil
	}
	if err := f.checkUnseen(ctx, publish); err != nil {
		return err
	}
	if poll.inFlight {
		if err := f.checkWatched(ctx, publish); err != nil {
			return err
		}
	}
	if f.light && f.watch.low == "" {
		return nil
	}
	for f.hurry || !time.Now().Before(f.next) {
		began := time.Now()
		ended, err := f.readPart(ctx, publish)
		f.next = time.Now().Add(farShare * time.Since(began))
		if err != nil || ended || !f.hurry || f.changes.late() {
			return err
		}
	}
	return nil
}

func (f *far) readPart(ctx context.Context, publish publish) (ended bool, err error) {
	c := f.changes
	if !f.running {
		f.running, f.rows = true, 0
		f.after = source.Cursor{Modified: f.begin()}
		f.through = c.column.Text(c.poll.now.Add(-c.opts.LookBack), c.opts.Zone)
		f.watch.next = ""
	}
	if after := f.after; after.Modified < f.through {
		if err := c.read(ctx, &after, f.through, farAtOnce, c.poll.inFlight); err != nil || c.poll.inFlight && !c.server.fitsTraits(c.list.Server) {
			return true, err
		}
		f.after, f.rows = after, f.rows+len(c.list.List)
		f.noteUnseen(c.list.List)
		more := c.list.More
		if err := f.checkUnseen(ctx, publish); err != nil || more {
			return false, err
		}
	}
	f.running, f.hurry, f.light = false, false, f.rows <= lightRows
	// There is room for all but next.
	f.watch.low = f.watch.next
	return true, nil
}

func (f *far) noteUnseen(list []source.Cursor) {
	for _, change := range list {
		watched := f.changes.poll.inFlight && f.watch.rows[nameOf(change)] == change.Modified
		if f.changes.isNew(change) && !watched {
			f.unseen = append(f.unseen, change)
		}
	}
}

// checkUnseen publishes those of the unseen changes that are committed and watches the others. All
// are where none are read in flight.
func (f *far) checkUnseen(ctx context.Context, publish publish) error {
	for part := range slices.Chunk(f.unseen, checkAtOnce) {
		if !f.changes.poll.inFlight {
			if err := f.changes.publishNew(ctx, part, publish); err != nil {
				return err
			}
			continue
		}
		_, pending, err := f.check(ctx, part, publish)
		if err != nil {
			return err
		}
		for _, at := range pending {
			f.watch.add(at)
		}
	}
	f.unseen = f.unseen[:0]
	if f.watch.full() && time.Since(f.warned) > heldOpen {
		f.warned = time.Now()
		f.changes.opts.Logger.Warn("more updates are in flight than are watched one by one: the index of MODIFIED is read from the oldest on",
			"watched", len(f.watch.rows), "oldest", f.watch.low)
	}
	return nil
}

// checkWatched looks at some of the changes in flight, and where one is no longer in flight at all
// with the same MODIFIED.
func (f *far) checkWatched(ctx context.Context, publish publish) error {
	list := f.watch.sample(checkAtOnce)
	for len(list) > 0 {
		ended, err := f.checkSome(ctx, list, publish)
		if err != nil || len(ended) == 0 {
			return err
		}
		if f.watch.low != "" {
			// There is room now.
			f.hurry = true
		}
		if f.changes.late() {
			// The tail has its turn; a sample of the next poll finds the others.
			f.changes.poll.cut = true
			return nil
		}
		if list = f.watch.beside(ended, checkAtOnce); f.changes.column.Format != "" {
			// Each row has a moment of its own.
			list = f.watch.sample(checkAtOnce)
		}
	}
	return nil
}

// checkSome looks at some of the changes in flight and returns the MODIFIED of those that are no
// longer. In flight is what has another MODIFIED uncommitted than committed; what has none
// uncommitted is deleted or about to be.
func (f *far) checkSome(ctx context.Context, list []source.Cursor, publish publish) (ended map[string]bool, err error) {
	committed, pending, err := f.check(ctx, list, publish)
	if err != nil {
		return nil, err
	}
	inFlight := make(map[rowName]string, len(pending))
	for _, at := range pending {
		inFlight[nameOf(at)] = at.Modified
	}
	if len(pending) > 0 {
		uncommitted, err := f.lookup(ctx, pending, true)
		if err != nil {
			return nil, err
		}
		if !f.changes.server.fitsTraits(uncommitted.server) || committed.server != uncommitted.server {
			pending = nil
		}
		for _, at := range pending {
			was, there := committed.modified[nameOf(at)]
			is, shown := uncommitted.modified[nameOf(at)]
			if there == shown && was == is {
				delete(inFlight, nameOf(at))
			} else if shown {
				inFlight[nameOf(at)] = is
			}
		}
	}
	ended = make(map[string]bool)
	for _, at := range list {
		if modified, ok := inFlight[nameOf(at)]; ok {
			f.watch.add(source.Cursor{Modified: modified, ID: at.ID, Row: at.Row})
		} else {
			ended[at.Modified] = true
			delete(f.watch.rows, nameOf(at))
		}
	}
	return ended, nil
}

// check looks up rows by id, committed, publishes what of them the cursor has not seen, and returns
// those whose MODIFIED is not committed.
func (f *far) check(ctx context.Context, list []source.Cursor, publish publish) (committed found, pending []source.Cursor, err error) {
	c := f.changes
	if committed, err = f.lookup(ctx, list, false); err != nil {
		return committed, nil, err
	}
	var news []source.Cursor
	for _, at := range list {
		modified, ok := committed.modified[nameOf(at)]
		if ok {
			news = append(news, source.Cursor{Modified: modified, ID: at.ID, Row: at.Row})
		}
		if !ok || modified != at.Modified {
			pending = append(pending, at)
		}
	}
	return committed, pending, c.publishNew(ctx, news, publish)
}

// found is the MODIFIED of rows by name, and the server that has them.
type found struct {
	modified map[rowName]string
	server   string
}

func (f *far) lookup(ctx context.Context, list []source.Cursor, uncommitted bool) (found, error) {
	ids := make([]uint64, len(list))
	var texts []string
	for i, at := range list {
		if ids[i] = at.ID; at.Row != "" {
			texts = append(texts, at.Row)
		}
	}
	slices.Sort(ids)
	read := &f.changes.list
	q := source.ChangeQuery{Ranges: source.RangesOf(ids), Rows: texts, Limit: len(ids) + 1, Uncommitted: uncommitted}
	if err := f.changes.reader.changes(ctx, q, read); err != nil {
		return found{}, err
	}
	rows := found{make(map[rowName]string, len(read.List)), read.Server}
	for _, at := range read.List {
		rows.modified[nameOf(at)] = at.Modified
	}
	return rows, nil
}
