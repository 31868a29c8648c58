package shard

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"example.org/bridge/sink"
	"example.org/bridge/source"
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
	republish   *republishing
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
		o.tail.position = o.gaps.position()
		// Shards that start together do not begin together.
		o.due = time.Now().Add(rand.N(o.opts.PollInterval + 1))
	}
	poll := time.NewTimer(time.Until(o.due))
	defer poll.Stop()
	o.republish.next.Reset(0)
	defer o.republish.next.Stop()
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
		case <-o.republish.asked:
			o.republish.next.Reset(0)
			continue
		case <-o.republish.next.C:
			o.status.heartbeat(owning)
			if err := o.republish.step(ctx); err != nil {
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

// poll looks once for what the tail and the second cursor find.
func (o *owner) poll(ctx context.Context) (more bool, err error) {
	began := time.Now()
	if !o.server.tailless() {
		more, err = o.pollPage(ctx)
		for errors.Is(err, errAged) {
			// At once: else other batches could be in the way each time.
			more, err = o.pollPage(ctx)
		}
		if err != nil {
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
	o.tailLog.note(o.tail.position, more)
	err = o.follow(ctx)
	if err == nil {
		o.status.looked(began)
	}
	return more, err
}

// follow looks at most once a poll for rows that were modified in place.
func (o *owner) follow(ctx context.Context) error {
	columns := o.reader.columns
	if o.entities == nil || columns == nil {
		return nil
	}
	if o.changes == nil && columns.Indexed {
		// The index may have come since, or come back.
		o.changes = newChanges(o.gaps, o.pace, o.gaps.stored().Cursor, o.entities.formersWait)
		o.gaps.changes = o.changes
	}
	c := o.changes
	column, ok := columns.Cursor()
	if c == nil || !ok || time.Since(c.poll.began) < o.opts.PollInterval {
		return nil
	}
	// A change of a row that is on its way would be left to the tail.
	stored, err := o.pipe.waitFor(ctx, time.Until(o.pipe.at.Add(slowBatch)))
	if err != nil || !stored {
		return err
	}
	err = c.follow(ctx, column, func(ctx context.Context, rows []source.Range) error {
		e := o.nominations.entities
		e.known = c.known
		defer func() { e.known = "" }()
		return o.nominations.rows(ctx, rows, sink.FromModified, nil)
	})
	switch {
	case errors.Is(err, source.ErrAltered) && ctx.Err() == nil:
		// The next poll brings the columns, and the cursor begins again with them.
		return nil
	case errors.Is(err, source.ErrUnfit) && columns.IDFormat == "" && ctx.Err() == nil:
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

// mayIdle reports whether the shard needs no goroutine until its next poll: it has had nothing new
// for a while and has no hot gap, all that was found is handed over and committed, and nobody waits
// for its owner.
func (o *owner) mayIdle(ctx context.Context) bool {
	return o.pace.quiet() && o.tail.oldestLeft.IsZero() && !o.gaps.hot() && !o.reader.oversize.big &&
		o.nominator.calls.Load() == 0 && !o.republish.active() && !o.status.publishes() && ctx.Err() == nil
}

// nextPoll returns when to poll after the poll that has begun at a time.
func (o *owner) nextPoll(began time.Time, more bool) time.Time {
	switch {
	case more && o.tail.limited:
		// Late rows are looked for as often as ever.
		due := time.Now().Add(o.opts.Rate.wait())
		if poll := began.Add(o.opts.PollInterval); poll.Before(due) {
			return poll
		}
		return due
	case more:
		return time.Now()
	case !o.pace.quiet():
		return began.Add(o.opts.PollInterval)
	}
	pause := 2 * o.opts.PollInterval
	if _, able := o.opts.Source.(source.HeadReader); !able || o.changes != nil {
		// It has reads of its own, which are better spread.
		return began.Add(pause)
	}
	// Such reads go together, and the process sleeps in between: so their times are multiples of
	// the pause.
	return began.Add(pause - began.Sub(epoch)%pause)
}

// epoch is what the times of reads of the highest id are counted from.
var epoch = time.Now()
