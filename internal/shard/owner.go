package shard

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"example.org/bridge/internal/panics"
	"example.org/bridge/sink"
	"example.org/bridge/source"
	"example.org/bridge/source/ledger"
)

// owner is the loop that alone reads the table of a shard and encodes its rows, so that the order
// of its reads is the order on the bus. One is made for each attempt to run the shard.
type owner struct {
	opts    *Options
	status  *tracker
	reader  *reader
	server  *server
	gaps    *gaps
	tail    *tail
	builder *builder
	tailLog *tailLog
	pace    *pace
	// publishedRows are those published last.
	publishedRows *publishedRows
	// pipe leads to the publisher.
	pipe *pipe
	// entities and changes are nil where the shard has none.
	entities    *entities
	changes     *changes
	nominations *nominations
	// nominator leads to the owner what others nominate.
	nominator *nominator
	// due is when to poll next, zero before the attempt has begun; begun says that it has polled.
	due   time.Time
	begun bool
}

// run reads the shard page by page behind its position and hands each on as a batch, then what was
// modified in place, and what is nominated. It returns when ctx ends, or when the shard is idle:
// then it goes on where it was when it is called again.
func (o *owner) run(ctx context.Context) (idle bool, err error) {
	if o.due.IsZero() {
		position := o.gaps.position()
		o.tail.position = position
		if err := o.publishedRows.refuse(ctx, position); err != nil {
			return false, ended(ctx, err)
		}
		// Shards that start together do not begin together.
		o.due = time.Now().Add(rand.N(o.opts.PollInterval + 1))
	}
	poll := time.NewTimer(time.Until(o.due))
	defer poll.Stop()
	// polled says that the last poll left nothing to read at once. However long it took, the shard
	// may be idle: the next one need not be due later.
	polled := false
	for {
		// Until the next poll it may be an hour.
		o.status.idle(owning)
		if (polled || time.Now().Before(o.due)) && o.mayIdle(ctx) {
			// The next poll makes again what it needs.
			o.tail.rows, o.tail.ids = nil, nil
			o.entities.shrink()
			return true, nil
		}
		select {
		case <-ctx.Done():
			return false, nil
		case n := <-o.nominator.nominated:
			o.status.heartbeat(owning)
			if err := o.nominations.handle(ctx, n); err != nil {
				return false, ended(ctx, err)
			}
			continue
		case <-poll.C:
			o.status.heartbeat(owning)
		}
		began := time.Now()
		more, err := o.poll(ctx)
		if err != nil {
			return false, ended(ctx, err)
		}
		o.begun, polled = true, !more
		o.due = o.nextPoll(began, more)
		limited := more && o.tail.limited
		if o.status.limitRate(limited); limited {
			o.opts.Metrics.limited(o.opts.Stream, LimitRate, time.Until(o.due))
		}
		if !o.pace.quiet() {
			o.status.polledEvery(o.opts.PollInterval)
		}
		poll.Reset(time.Until(o.due))
	}
}

// poll looks once for what the tail and the second cursor find. It reports whether there may be
// more to read at once.
func (o *owner) poll(ctx context.Context) (more bool, err error) {
	began := time.Now()
	if !o.server.tailless() {
		if more, err = o.pollTail(ctx); err != nil {
			return false, err
		}
	} else if err := o.server.ping(ctx, o.pace.quiet()); err != nil {
		return false, err
	}
	again := o.publishedRows.again
	o.publishedRows.again = nil
	slices.Sort(again)
	if err := o.nominations.rows(ctx, source.RangesOf(again), sink.FromReconcile, nil); err != nil {
		return false, err
	}
	o.tailLog.note(o.tail.position, o.gaps.position(), more)
	err = o.follow(ctx)
	if err == nil {
		o.status.looked(began)
	}
	return more, err
}

// follow looks for rows that were modified in place and publishes what has changed. It does so at
// most once a poll.
func (o *owner) follow(ctx context.Context) error {
	c := o.changes
	columns := o.reader.columns
	if c == nil || columns == nil || columns.Modified < 0 || time.Since(c.poll.began) < o.opts.PollInterval {
		return nil
	}
	// A change of a row that is on its way would be left to the tail.
	stored, err := o.pipe.waitFor(ctx, time.Until(o.pipe.at.Add(slowBatch)))
	if err != nil || !stored {
		return err
	}
	err = c.follow(ctx, columns.List[columns.Modified], func(ctx context.Context, rows []source.Range) error {
		return o.nominations.rows(ctx, rows, sink.FromModified, nil)
	})
	switch {
	case errors.Is(err, source.ErrAltered) && ctx.Err() == nil:
		// The next poll brings the columns, and the cursor begins again with them.
		return nil
	case errors.Is(err, source.ErrUnfit) && ctx.Err() == nil:
		o.changes = nil
		o.status.leave(findChanges, time.Time{})
		o.opts.Logger.Warn("updates in place wait for reconcile from now on: MODIFIED cannot be followed", "error", err)
		return nil
	case err != nil || time.Since(c.saved) < saveCursorEvery:
		return err
	}
	// No batch has taken the cursor for a while.
	return o.nominations.commit(ctx, func(*batch) error { return nil })
}

// ended tells an error that the end of ctx caused from one that stops the shard.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// slowBatch is how long the second cursor waits for a batch that is on its way: a bus that is away
// for longer does not keep the table from being polled.
const slowBatch = time.Minute

// pageAge is how long a page may wait for the batch before. Where the bus is away for an hour its
// rows have changed, what it says of the table is history, and its share is wanted elsewhere.
const pageAge = 3 * time.Second

// errAged says that a page has waited for the batch before for so long that it is read again.
var errAged = errors.New("the page is too old")

// pollTail reads one page, hands on what is old enough of it and moves position behind that. It
// reports whether there may be more to read at once. A page that has aged is read again at once:
// else other batches could be in the way each time.
func (o *owner) pollTail(ctx context.Context) (more bool, err error) {
	for {
		if more, err = o.pollPage(ctx); !errors.Is(err, errAged) {
			return more, err
		}
	}
}

func (o *owner) pollPage(ctx context.Context) (more bool, err error) {
	var held hold
	// Also where what is below panics.
	defer func() { o.opts.Limits.release(&held) }()
	p, err := o.readTail(ctx, &held)
	if err != nil || p == nil {
		return false, err
	}
	b, at, more, bad, err := o.next(ctx, p, &held)
	if err != nil || b == nil {
		return more, err
	}
	// While nothing is published the changes of the ledger are committed now and then.
	if b.empty() && !(o.gaps.isOpen() && time.Since(o.gaps.handed) >= saveLedgerEvery) {
		o.tail.leave(time.Time{})
		b.discard(o.opts)
		return more, bad
	}
	// Until it is handed over what it holds waits, too.
	o.tail.leave(b.oldest)
	if err := o.gaps.advance(ctx, b, at); err != nil {
		b.discard(o.opts)
		return false, err
	}
	o.tail.advance(b)
	o.handOver(b, &held)
	o.tail.leave(time.Time{})
	return more, bad
}

// readTail returns the page behind position, and sets held to the share that it is to become a
// batch in. There is no page where the highest id shows nothing behind position and the poll has
// nothing else to do.
func (o *owner) readTail(ctx context.Context, held *hold) (p *page, err error) {
	q := o.tail.query()
	if o.pace.quiet() {
		if p, err = o.reader.head(ctx); err != nil {
			return nil, err
		}
	}
	if p != nil && p.MaxID > o.tail.position {
		p.free()
		p = nil
	}
	if p != nil && !o.gaps.isOpen() && !o.reader.oversize.big {
		return nil, o.endEmpty(ctx, p)
	}
	if *held, err = o.reader.reserve(ctx); err != nil {
		p.free()
		return nil, err
	}
	if p == nil {
		if p, err = o.reader.page(ctx, q); err != nil {
			return nil, err
		}
	}
	p.seen = o.tail.firstSeen.Since
	return p, nil
}

// next makes a batch of p, the page behind position, which it frees; at is when that was read. bad
// is why the batch ends early, for good. What needs the batch before, which is at the bus
// meanwhile, comes last: gaps are looked for, and entities decided about, once the store has it.
func (o *owner) next(ctx context.Context, p *page, held *hold) (b *batch, at ledger.Age, more bool, bad, err error) {
	var rows []source.Row
	var late *page
	free := func() {
		p.free()
		late.free()
		p, late = nil, nil
	}
	defer free()
	drop := func() {
		if b != nil {
			b.discard(o.opts)
			b = nil
		}
	}
	defer func() {
		if err != nil {
			drop()
		}
	}()
	// again drops what was made of p, which is read again.
	again := func() {
		drop()
		o.tail.returnRows(o.tail.granted)
		o.entities.forget()
		o.tail.delayRest(p, rows, 0)
		o.tail.delayRest(late, late.rows(), 0)
		o.tail.leave(time.Time{})
		free()
	}
	ready, err := o.publishedRows.check(ctx, p, o.tail.position)
	if err != nil {
		return nil, at, false, nil, err
	}
	if !ready {
		// The lag counts from the first row of a page that is read again.
		o.tail.oldestLeft = time.Time{}
		o.tail.delayRest(p, p.Rows, 0)
		o.tail.leave(time.Time{})
		return nil, at, p.More, nil, nil
	}
	if err := o.server.meet(ctx, p.Server); err != nil {
		return nil, at, false, nil, err
	}
	at = o.tail.see(p)
	// What the first poll finds was there before: it says nothing about how busy the table is.
	if len(p.Rows) > 0 && o.begun || o.status.hot() {
		o.pace.touch()
	}
	looks := o.tail.looks()
	if !o.tail.holds() {
		rows = o.tail.withinRate(p, o.tail.stable(p, at))
		if b, bad, err = o.prepare(ctx, p, rows); err != nil {
			return b, at, false, nil, err
		}
	}
	if looks || o.entities != nil && len(rows) > 0 {
		// Those that the poll before has left wait still. Rows behind the first are hardly older.
		waits := o.tail.left
		if len(rows) > 0 {
			waits = earlier(waits, p.bornAt(rows[0]))
		}
		o.status.leave(findTail, waits)
		stored, err := o.pipe.waitFor(ctx, pageAge-time.Since(p.got))
		if err != nil {
			return b, at, false, nil, err
		}
		if !stored {
			again()
			o.opts.Limits.release(held)
			return nil, at, true, nil, cmp.Or(o.pipe.wait(ctx), errAged)
		}
	}
	if looks {
		if late, err = o.tail.findLate(ctx, p, at); err != nil {
			return b, at, false, nil, err
		}
	}
	switch {
	case looks && o.tail.blocks(p, late):
		if b != nil {
			drop()
			bad = nil
			o.tail.returnRows(len(rows))
		}
		o.tail.delayRest(p, p.Rows, 0)
		rows = nil
	case o.tail.holds():
		rows = o.tail.withinReach(p, at)
	}
	o.gaps.show(at)
	if b == nil {
		b, bad = o.encode(ctx, p, rows, len(late.rows()) > 0)
	}
	if bad == nil && len(late.rows()) > 0 {
		bad = o.encodeLate(ctx, b, p, late)
	}
	if !o.opts.Limits.resize(held, b.size()) {
		// Invariant 7: what is read again does not wait beside others.
		again()
		return nil, at, true, nil, o.reader.reserveBig(ctx, held)
	}
	more = o.leaveRest(b, p, rows, late, bad != nil)
	return b, at, more && bad == nil, bad, nil
}

// prepare does what may be done for rows while the batch before is at the bus: those of a release
// stream become a batch, entities are looked up.
func (o *owner) prepare(ctx context.Context, p *page, rows []source.Row) (b *batch, bad, err error) {
	switch {
	case o.entities == nil:
		b, bad = o.encode(ctx, p, rows, false)
	case len(rows) > 0:
		err = o.entities.prepare(ctx, rows)
	}
	return b, bad, err
}

// leaveRest notes for the lag what b leaves of the rows and the late ones; cut says that b ends
// early. It reports whether there may be more to read at once.
func (o *owner) leaveRest(b *batch, p *page, rows []source.Row, late *page, cut bool) (more bool) {
	if len(rows) > 0 && len(rows) == len(p.Rows) && p.More {
		more = true
		// What comes next is hardly older.
		o.tail.delayRest(p, rows, len(rows)-1)
	}
	if cut {
		o.tail.delayRest(p, rows, len(b.passed))
		o.tail.delayRest(late, late.rows(), len(b.filled))
	}
	if o.tail.moreLate(len(b.filled) > 0, late) {
		more = true
		// What comes next is hardly older.
		o.tail.delayRest(late, late.rows(), len(late.Rows)-1)
	}
	return more || o.tail.limited
}

// handOver gives b to the publisher, with what is held for it. No other batch is on its way.
func (o *owner) handOver(b *batch, held *hold) {
	o.builder.finish(b)
	o.status.queue(b.oldest)
	o.publishedRows.hand(b)
	o.reader.schemas.hand(b)
	b.held, *held = *held, hold{}
	o.pipe.send(b)
}

// pipe leads the batches of an attempt to the publisher, one at a time: entities of the next one
// are decided about, and gaps looked for, once the store has the one before. So all that is decided
// is decided by what the store has. Meanwhile a page is read, and a release shard encodes
// its rows: a slow bus slows reading down.
type pipe struct {
	// publish publishes and commits a batch; its error goes to fail.
	publish func(*batch) error
	fail    func(error)
	// publishing is the batch on its way, failed the error of the last one.
	publishing sync.WaitGroup
	failed     error
	// stored has an element once the batch on its way is committed; busy says that there is one,
	// sent counts all.
	stored chan struct{}
	busy   bool
	sent   uint64
	// at is when the last one was sent.
	at      time.Time
	retrier *retrier
}

// open begins to lead batches, none of which is on its way.
func (p *pipe) open(publish func(*batch) error, fail func(error)) {
	p.publish, p.fail, p.failed = publish, fail, nil
	p.stored, p.busy = make(chan struct{}, 1), false
}

// close waits for the batch on its way, and returns why that was not stored.
func (p *pipe) close() error {
	p.publishing.Wait()
	return p.failed
}

// send has a batch be published, while the owner goes on.
func (p *pipe) send(b *batch) {
	p.busy, p.sent, p.at = true, p.sent+1, time.Now()
	p.publishing.Go(func() {
		if p.failed = panics.Guard(func() error { return p.publish(b) }); p.failed != nil {
			p.fail(p.failed)
			return
		}
		p.stored <- struct{}{}
	})
}

// wait returns once the store has the batch on its way, or with the cause why ctx ended.
func (p *pipe) wait(ctx context.Context) error {
	_, err := p.waitFor(ctx, forEver)
	return err
}

// waitFor is wait for up to a time. It reports whether nothing is on its way any more.
func (p *pipe) waitFor(ctx context.Context, limit time.Duration) (stored bool, err error) {
	if p == nil || !p.busy {
		return true, nil
	}
	end := time.NewTimer(limit)
	defer end.Stop()
	err = p.retrier.wait(owning, forEver, func() error {
		select {
		case <-p.stored:
			p.busy, stored = false, true
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-end.C:
		}
		return nil
	})
	return stored, err
}
