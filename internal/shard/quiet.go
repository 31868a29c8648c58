package shard

import (
	"context"
	"time"

	"bridge/source"
)

// quietAfter is how long a shard must have had nothing new before it is polled half as often.
const quietAfter = 10 * time.Second

// quiet reports whether the shard has had nothing new, and no hot gap, for a while, or since its start.
func (s *Shard) quiet() bool { return time.Since(s.active) > quietAfter }

// nextPoll returns when to poll after the poll that has begun at a time; more says that there may be more to read at once.
func (s *Shard) nextPoll(began time.Time, more bool) time.Time {
	switch {
	case more:
		return time.Now()
	case !s.quiet():
		return began.Add(s.opts.PollInterval)
	}
	pause := 2 * s.opts.PollInterval
	if _, able := s.opts.Source.(source.HeadReader); !able || s.second != nil {
		// It has reads of its own, which are better spread.
		return began.Add(pause)
	}
	// Glances go together, and the process sleeps in between: so their times are multiples of the pause.
	return began.Add(pause - began.Sub(epoch)%pause)
}

// epoch is what the times of glances are counted from.
var epoch = time.Now()

// glanceWait is how long a glance waits for those of other shards, at most a tenth of the poll interval.
const glanceWait = 25 * time.Millisecond

// glance asks a quiet shard for no more than its highest id, where that is cheaper than a read. seen says that s.page holds the answer.
// It is for the time before memory for rows is reserved: it may wait for other shards, and brings none.
func (s *Shard) glance(ctx context.Context) (seen bool, err error) {
	glancer, able := s.opts.Source.(source.HeadReader)
	if !able || !s.quiet() {
		return false, nil
	}
	if s.page == nil {
		s.page = pages.Get().(*source.Page)
	}
	s.dropPrefetched()
	s.asked = time.Now()
	err = s.retrier.wait(owning, readLimit, func() error {
		seen, err = glancer.ReadHead(ctx, min(s.opts.PollInterval/10, glanceWait), s.page)
		return err
	})
	s.got = time.Now()
	if err != nil || !seen {
		s.freePage()
		return false, err
	}
	return true, s.greeted()
}

// owes reports whether a turn may have something to do though the table has nothing new: open gaps, or the
// memory for a page that was too large, which is gone now.
func (s *Shard) owes() bool {
	ledger := s.gaps.ledger
	return ledger != nil && ledger.Open() || s.oversize.big
}

// rest ends a turn that has found nothing, in s.page, behind position, and owes nothing: it takes note of the time, and no more.
func (s *Shard) rest(ctx context.Context, position uint64) error {
	defer s.freePages()
	if ready, err := s.watchIDs(ctx, position); err != nil || !ready {
		return err
	}
	s.held = time.Time{}
	s.stateGaps(s.look())
	s.status.leave(findTail, s.held)
	return nil
}
