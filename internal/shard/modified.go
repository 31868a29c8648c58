package shard

import (
	"context"
	"slices"
	"strings"
	"time"

	"example.org/bridge/event"
	"example.org/bridge/source"
)

const (
	// lookBackEvery is how often the second cursor reads again what it has passed within the
	// look-back, since modification times, too, are taken before the commit.
	lookBackEvery = time.Second
	// changesAtOnce bounds the changes of one read.
	changesAtOnce = 2000
	// maxLookBack bounds the changes within the look-back that are remembered beyond CursorRows,
	// and the rows that are read again for their MODIFIED to the second.
	maxLookBack = 100_000
	// saveCursorEvery is how often the cursor is saved while nothing is published.
	saveCursorEvery = 30 * time.Second
)

// changes is the cursor over (MODIFIED, id) of a capability shard. It only nominates: what has
// changed is read again by id. It belongs to the owner.
type changes struct {
	opts   *Options
	reader *reader
	server *server
	status *tracker
	pace   *pace
	// toPublish reports whether the row with an id is for the tail or the ledger to publish.
	toPublish func(id uint64) bool
	// waits reports whether former entities of changed rows wait to be looked up.
	waits func() bool

	// after is how far it has come, safe how far without former entities that wait: a restart goes
	// on there, and finds them again. restored says that after comes from the checkpoint.
	after    source.Cursor
	safe     source.Cursor
	restored bool
	// known is where it was when it began: what it reads again before that may be as it was.
	known string
	// column is MODIFIED as it was when the cursor was moved last.
	column source.Column
	// saved is when the cursor was last handed over to be saved.
	saved time.Time
	// recent are the changes that it has seen to, whole the MODIFIED to the second that rows were
	// read with within the look-back.
	recent *recent
	whole  map[rowName]string
	// behind is a MODIFIED at or behind which there are changes that were not read yet, empty where
	// there are none.
	behind string
	poll   changesPoll
	back   lookBack
	far    *far
	// list and ids are used again and again: changes that were read, and the ids of some.
	list source.Changes
	ids  []uint64
}

type changesPoll struct {
	// began is when it began, by the host's clock, now the same by the database's.
	began, now time.Time
	// inFlight says that changes in flight are looked for, reaches that all within the reach is
	// read again: for them, and for ids, which are made before their INSERT by another clock.
	inFlight, reaches bool
	// over is the newest MODIFIED whose moment has passed.
	over string
	// found is the oldest MODIFIED of what this poll found late, cut says that it had no time to
	// look for all that is like it.
	found string
	cut   bool
}

// publish reads rows again and publishes those that say something new.
type publish func(ctx context.Context, rows []source.Range) error

// follow publishes rows that were modified in place, found by their MODIFIED.
func (c *changes) follow(ctx context.Context, column source.Column, publish publish) error {
	now, looked := c.reader.databaseNow(), c.poll.inFlight
	if back := c.poll.now.Sub(now); back > c.opts.LookBack {
		c.recent.setBack(back)
	}
	c.poll = changesPoll{
		began: time.Now(), now: now, over: column.Text(now.Add(-column.Resolution()), c.opts.Zone),
		inFlight: c.server.traits.Evidence && !c.server.agreement.skips(time.Now()),
	}
	c.poll.reaches = c.poll.inFlight || column.Format != ""
	through := column.Text(now, c.opts.Zone)
	c.begin(column, through)
	if c.poll.inFlight != looked {
		// They may be uncommitted.
		c.far.unseen = c.far.unseen[:0]
	}
	if c.poll.inFlight && !looked {
		// The cursor has seen changes meanwhile, and none in flight.
		c.far.running, c.far.watch.low = false, older(c.far.watch.low, column.Text(now.Add(-c.opts.Reach), c.opts.Zone))
	}
	if err := c.readNew(ctx, through, publish); err != nil {
		return err
	}
	c.poll.found, c.poll.cut = "", false
	if err := c.readAgain(ctx, publish); err != nil {
		return err
	}
	c.poll.cut = c.back.running
	if err := c.far.read(ctx, publish); err != nil {
		return err
	}
	waits := c.behind
	if c.poll.cut && c.poll.found != "" {
		// What was found late seldom comes alone.
		waits = older(waits, c.poll.found)
	}
	c.status.leave(findChanges, c.since(waits))
	return nil
}

// begin sets where a cursor starts that has no MODIFIED, or one that cannot be.
func (c *changes) begin(column source.Column, through string) {
	opts, now := c.opts, c.poll.now
	at, readable := column.Time([]byte(c.after.Modified), opts.Zone)
	was := c.column
	was.NotNull = column.NotNull
	altered := was != column && c.column != source.Column{}
	switch {
	case !readable, altered, c.after.Modified > through:
		// Beyond the present: a clock that was set back, or the hour that a zone shows twice.
		c.after = source.Cursor{Modified: column.Text(now.Add(-opts.LookBack), opts.Zone)}
		c.safe, c.known = c.after, through
	case c.restored:
		c.known = c.after.Modified
		// What was committed late around the saved MODIFIED is read once more.
		c.after = source.Cursor{Modified: column.Text(at.Add(-opts.LookBack), opts.Zone)}
		c.far.watch.low = column.Text(at.Add(-opts.Reach), opts.Zone)
	}
	if altered {
		c.back.running = false
		c.forget()
	}
	c.column, c.restored = column, false
}

// forget has nothing be known of changes.
func (c *changes) forget() {
	c.recent, c.whole = newRecent(c.opts.CursorRows, c.opts.LookBack, c.opts.Reach), make(map[rowName]string)
	c.far = &far{changes: c, watch: &watch{most: c.opts.CursorRows / watchShare, rows: make(map[rowName]string)}, light: true}
}

// read reads the changes behind a cursor, which it moves to the last one of them.
func (c *changes) read(ctx context.Context, after *source.Cursor, through string, limit int, uncommitted bool) error {
	q := source.ChangeQuery{After: *after, Through: through, Limit: limit, Uncommitted: uncommitted}
	err := c.reader.changes(ctx, q, &c.list)
	if n := len(c.list.List); err == nil && n > 0 {
		*after = c.list.List[n-1]
	}
	return err
}

func (c *changes) readNew(ctx context.Context, through string, publish publish) error {
	for {
		next := c.after
		if err := c.read(ctx, &next, through, changesAtOnce, false); err != nil {
			return err
		}
		more := c.list.More
		if c.behind = ""; more {
			c.behind = next.Modified
		}
		if err := c.publishNew(ctx, c.list.List, publish); err != nil {
			return err
		}
		if c.after = next; !more && next.Modified < through {
			c.after = source.Cursor{Modified: through}
		}
		if !more || c.late() {
			// Else the tail has its turn.
			return nil
		}
	}
}

// late reports whether the tail is to be polled again.
func (c *changes) late() bool { return time.Since(c.poll.began) > c.opts.PollInterval }

func (c *changes) publishNew(ctx context.Context, list []source.Cursor, publish publish) error {
	c.ids = c.ids[:0]
	oldest := c.behind
	for _, change := range list {
		if c.isNew(change) {
			oldest = older(oldest, change.Modified)
			c.ids = append(c.ids, change.ID)
			c.see(change)
		}
	}
	if len(c.ids) == 0 {
		return nil
	}
	slices.Sort(c.ids)
	c.pace.touch()
	c.poll.found = older(c.poll.found, oldest)
	c.status.leave(findChanges, c.since(oldest))
	return publish(ctx, source.RangesOf(c.ids))
}

// since is the host's time of a MODIFIED, for the lag; zero for an empty one.
func (c *changes) since(modified string) time.Time {
	if modified == "" {
		return time.Time{}
	}
	now := time.Now()
	at, ok := c.column.Time([]byte(modified), c.opts.Zone)
	if !ok {
		return now
	}
	return earlier(now, now.Add(at.Sub(c.reader.databaseNow())))
}

// see notes that a row is read with this MODIFIED. While that moment is not over another change may
// bear it, too.
func (c *changes) see(at source.Cursor) {
	if at.Modified >= c.poll.over {
		return
	}
	c.recent.add(at, c.poll.now)
	if _, fraction, _ := strings.Cut(at.Modified, "."); c.column.Format == "" && strings.Trim(fraction, "0") == "" {
		if len(c.whole) >= maxLookBack {
			clear(c.whole)
		}
		c.whole[nameOf(at)] = at.Modified
	}
}

// noteTail notes the rows of a page that the tail has read, so that the cursor does not read the
// newest of them again.
func (c *changes) noteTail(p *page, rows []source.Row) {
	if c == nil || p.Columns.Modified < 0 {
		return
	}
	column := p.Columns.List[p.Columns.Modified]
	from := column.Text(p.Now.Add(-c.opts.LookBack), c.opts.Zone)
	far := column.Text(p.Now.Add(-c.opts.Reach), c.opts.Zone)
	for _, row := range rows {
		switch v := row.Values[p.Columns.Modified]; {
		case v == nil:
		case string(v) > from:
			c.see(source.Cursor{Modified: string(v), ID: row.ID})
		case string(v) > far && string(v) < c.poll.over:
			c.recent.add(source.Cursor{Modified: string(v), ID: row.ID}, c.poll.now)
		}
	}
}

// isNew reports whether neither the tail or the ledger nor the cursor sees to a change.
func (c *changes) isNew(change source.Cursor) bool {
	return !c.toPublish(change.ID) && !c.recent.has(change)
}

// handOver returns the cursor, to be committed with a batch.
func (c *changes) handOver() source.Cursor {
	c.saved = time.Now()
	if !c.waits() {
		c.safe = c.after
	}
	return c.safe
}

// cursorAt returns the second cursor as of a moment, the zero one where there is no MODIFIED.
func cursorAt(opts *Options, columns *source.Columns, now time.Time) source.Cursor {
	column, ok := columns.Cursor()
	if opts.Kind != event.Capability || !ok {
		return source.Cursor{}
	}
	return source.Cursor{Modified: column.Text(now, opts.Zone)}
}

// newChanges returns the second cursor of a shard whose MODIFIED has an index, as it was saved.
func newChanges(gaps *gaps, pace *pace, saved source.Cursor, waits func() bool) *changes {
	c := &changes{
		opts: gaps.opts, reader: gaps.reader, server: gaps.server, status: gaps.status, pace: pace, toPublish: gaps.toPublish,
		waits: waits, after: saved, safe: saved, restored: saved != source.Cursor{}, saved: time.Now(), back: lookBack{short: true},
	}
	c.forget()
	return c
}
