package shard

import (
	"context"
	"time"

	"bridge/source"
)

// quietAfter is how long a shard must have had nothing new before it is polled half as often, and
// may be idle.
const quietAfter = 10 * time.Second

// pace tells how busy a shard is. The zero value has had nothing new since its start.
type pace struct {
	active time.Time
	// after is how long it must have had nothing new to be quiet.
	after time.Duration
}

// touch notes that there is something new, or a gap to look for.
func (p *pace) touch() { p.active = time.Now() }

// quiet reports whether the shard has had nothing new, and no hot gap, for a while, or since its
// start.
func (p *pace) quiet() bool { return time.Since(p.active) > p.after }

// mayIdle reports whether the shard needs no goroutine until its next poll: it has had nothing new
// for a while and has no hot gap, all that was found is handed over and committed, and nobody waits
// for its owner.
func (o *owner) mayIdle(ctx context.Context) bool {
	return o.pace.quiet() && o.tail.oldestLeft.IsZero() && !o.gaps.hot() && o.reader.ahead == nil && !o.reader.hasOversize() &&
		!o.nominator.busy() && !o.status.publishes() && ctx.Err() == nil
}

// nextPoll returns when to poll after the poll that has begun at a time; more says that there may
// be more to read at once.
func (o *owner) nextPoll(began time.Time, more bool) time.Time {
	switch {
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

// head asks a quiet shard for no more than its highest id, where that is cheaper than a page; nil
// where it does not.
func (o *owner) head(ctx context.Context) (*page, error) {
	if !o.pace.quiet() {
		return nil, nil
	}
	return o.reader.head(ctx)
}

// owes reports whether a poll may have something to do though the table has nothing new: open gaps,
// or the memory for a page that was too large, which is gone now.
func (o *owner) owes() bool {
	return o.gaps.isOpen() || o.reader.hasOversize()
}

// endEmpty ends a poll that has found nothing, in p, behind position, and owes nothing: it takes
// note of the time, and no more.
func (o *owner) endEmpty(ctx context.Context, p *page) error {
	defer p.free()
	if ready, err := o.idWatch.check(ctx, p, o.tail.position); err != nil || !ready {
		return err
	}
	o.gaps.show(o.tail.see(p))
	o.tail.leave(time.Time{})
	return nil
}
