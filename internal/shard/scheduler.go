package shard

import (
	"container/heap"
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// Scheduler runs shards. One that rests owns no goroutine: the scheduler keeps it until its next
// poll is due, somebody nominates something, or it is stopped.
//
// A shard that rests is one between two polls, nothing else: it has its progress, its open gaps and
// all that it knows of the table, and its next poll is that of a shard that runs. Invariants 1 to 6
// hold without a word about rest.
type Scheduler struct {
	// pause is the time between two polls of shards at rest, so that together they cost the source
	// no more than Options.PollsPerSecond says.
	pause time.Duration
	// shards counts all.
	shards int

	mu      sync.Mutex
	resting restQueue
	// ended says that no shard rests any more.
	ended bool
	// stirred has an element where the queue has a new head.
	stirred chan struct{}
	// active are the shards that run.
	active errgroup.Group
}

// pollsAtOnce bounds the shards that are polled together: as many heads as a source reads in one
// statement.
const pollsAtOnce = 100

// NewScheduler returns a scheduler that polls the shards that rest at most that many times a
// second, 0 for any number of times.
func NewScheduler(pollsPerSecond int) *Scheduler {
	s := &Scheduler{stirred: make(chan struct{}, 1)}
	if pollsPerSecond > 0 {
		s.pause = time.Second / time.Duration(pollsPerSecond)
	}
	return s
}

// Run tails shards until ctx ends, then publishes and commits what is in flight within the shutdown
// timeout, and returns nil. What a shard cannot wait out stops it alone and shows in its Status. An
// error means that the store is broken and the process has to be started again; it ends the other
// shards in good order. Run is called once.
func (p *Scheduler) Run(ctx context.Context, shards ...*Shard) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	start := func(s *Shard) {
		p.active.Go(func() error {
			err := p.drive(ctx, s)
			if err != nil {
				fail(err)
			}
			return err
		})
	}
	p.shards = len(shards)
	for _, s := range shards {
		s.scheduler.Store(p)
		start(s)
	}
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for free := time.Now(); ; {
		select {
		case <-ctx.Done():
			return errors.Join(p.end(ctx), p.active.Wait())
		case <-p.stirred:
		case <-timer.C:
		}
		due, polls, next := p.popDue(time.Now(), free)
		for _, s := range due {
			start(s)
		}
		if polls > 0 {
			free = time.Now().Add(time.Duration(polls) * p.pause)
		}
		pause := time.Until(next)
		if !next.IsZero() {
			pause = max(pause, time.Until(free))
		}
		timer.Reset(pause)
	}
}

// popDue takes shards out of the queue that were woken, and those whose poll is due if others may
// be polled at now; polls counts the latter. next is when another one is due, zero where one is
// left that was woken.
func (p *Scheduler) popDue(now, free time.Time) (due []*Shard, polls int, next time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.resting) > 0 && len(due) < pollsAtOnce {
		if at := p.resting[0].rest.due; !at.IsZero() {
			if now.Before(free) || now.Before(at) {
				return due, polls, at
			}
			polls++
		}
		due = append(due, heap.Pop(&p.resting).(*Shard))
	}
	if len(p.resting) == 0 {
		return due, polls, now.Add(time.Hour)
	}
	return due, polls, p.resting[0].rest.due
}

// drive runs a shard until it rests or has ended.
func (p *Scheduler) drive(ctx context.Context, s *Shard) error {
	for {
		if rests, err := s.run(ctx); err != nil || !rests || p.keep(s) {
			return err
		}
	}
}

// keep takes a shard in that rests. It reports false where that was woken since it was set going,
// or is to end.
func (p *Scheduler) keep(s *Shard) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	woken := s.rest.woken
	if s.rest.woken = false; woken || p.ended {
		return false
	}
	s.rest.due = s.live.owner.due
	heap.Push(&p.resting, s)
	// It may be polled as seldom as the bound says.
	s.status.polledEvery(max(2*s.opts.PollInterval, time.Duration(p.shards)*p.pause))
	if p.resting[0] == s {
		p.stir()
	}
	return true
}

// wake sets a shard going that rests, or has one that is about to rest go on.
func (p *Scheduler) wake(s *Shard) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !s.rest.kept {
		s.rest.woken = true
		return
	}
	s.rest.due = time.Time{}
	heap.Fix(&p.resting, s.rest.index)
	p.stir()
}

// stir has Run look at the queue.
func (p *Scheduler) stir() {
	select {
	case p.stirred <- struct{}{}:
	default:
	}
}

// end ends the shards that rest. Others rest no more.
func (p *Scheduler) end(ctx context.Context) (err error) {
	p.mu.Lock()
	resting := p.resting
	p.resting, p.ended = nil, true
	for _, s := range resting {
		s.rest.kept = false
	}
	p.mu.Unlock()
	for _, s := range resting {
		// It has nothing in flight, so it ends at once.
		err = errors.Join(err, p.drive(ctx, s))
	}
	return err
}

// rest is what the scheduler knows of a shard. Its lock guards it.
type rest struct {
	// kept says that the shard is in the queue, at index, until it is due; zero is at once.
	kept  bool
	index int
	due   time.Time
	// woken says that it is not to rest before its next poll.
	woken bool
}

// restQueue is a heap of shards that rest, by when they are due.
type restQueue []*Shard

func (q restQueue) Len() int           { return len(q) }
func (q restQueue) Less(i, j int) bool { return q[i].rest.due.Before(q[j].rest.due) }
func (q restQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].rest.index, q[j].rest.index = i, j
}

// Push implements heap.Interface.
func (q *restQueue) Push(x any) {
	s := x.(*Shard)
	s.rest.kept, s.rest.index = true, len(*q)
	*q = append(*q, s)
}

// Pop implements heap.Interface.
func (q *restQueue) Pop() any {
	last := len(*q) - 1
	s := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	s.rest.kept = false
	return s
}
