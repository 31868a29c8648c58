package shard

import (
	"container/heap"
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// Scheduler runs shards. An idle one owns no goroutine: the scheduler keeps it until its next poll
// is due, somebody nominates something, or it is stopped.
//
// An idle shard is one between two polls, nothing else: it has its progress, its open gaps and all
// that it knows of the table, and its next poll is that of a shard that runs. Invariants 1 to 6
// hold without a word about idle shards.
type Scheduler struct {
	// pause is the time between two polls of idle shards, so that together they cost the source no
	// more than the polls a second that NewScheduler was given.
	pause time.Duration
	// shards counts all.
	shards int

	mu   sync.Mutex
	idle idleQueue
	// ended says that no shard becomes idle any more.
	ended bool
	// changed has an element where the queue has a new head.
	changed chan struct{}
	// active are the shards that run.
	active errgroup.Group
}

// pollsAtOnce bounds the shards that are polled together: as many heads as a source reads in one
// statement.
const pollsAtOnce = 100

// NewScheduler returns a scheduler that polls idle shards at most that many times a second, 0 for
// any number of times.
func NewScheduler(pollsPerSecond int) *Scheduler {
	s := &Scheduler{changed: make(chan struct{}, 1)}
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
		case <-p.changed:
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
	for len(p.idle) > 0 && len(due) < pollsAtOnce {
		if at := p.idle[0].scheduled.due; !at.IsZero() {
			if now.Before(free) || now.Before(at) {
				return due, polls, at
			}
			polls++
		}
		due = append(due, heap.Pop(&p.idle).(*Shard))
	}
	if len(p.idle) == 0 {
		return due, polls, now.Add(time.Hour)
	}
	return due, polls, p.idle[0].scheduled.due
}

// drive runs a shard until it is idle or has ended.
func (p *Scheduler) drive(ctx context.Context, s *Shard) error {
	for {
		if idle, err := s.run(ctx); err != nil || !idle || p.keep(s) {
			return err
		}
	}
}

// keep takes in a shard that is idle. It reports false where that was woken since it was set going,
// or is to end.
func (p *Scheduler) keep(s *Shard) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	woken := s.scheduled.woken
	if s.scheduled.woken = false; woken || p.ended {
		return false
	}
	s.scheduled.due = s.live.due
	heap.Push(&p.idle, s)
	// It may be polled as seldom as the bound says.
	s.status.polledEvery(max(2*s.opts.PollInterval, time.Duration(p.shards)*p.pause))
	if p.idle[0] == s {
		signal(p.changed)
	}
	return true
}

// wake sets an idle shard going, or has one that is about to be idle go on.
func (p *Scheduler) wake(s *Shard) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !s.scheduled.kept {
		s.scheduled.woken = true
		return
	}
	s.scheduled.due = time.Time{}
	heap.Fix(&p.idle, s.scheduled.index)
	signal(p.changed)
}

// signal has c, which has room for one, have an element.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// end ends the idle shards. Others become idle no more.
func (p *Scheduler) end(ctx context.Context) (err error) {
	p.mu.Lock()
	idle := p.idle
	p.idle, p.ended = nil, true
	for _, s := range idle {
		s.scheduled.kept = false
	}
	p.mu.Unlock()
	for _, s := range idle {
		// It has nothing in flight, so it ends at once.
		err = errors.Join(err, p.drive(ctx, s))
	}
	return err
}

// scheduled is what the scheduler keeps of a shard. Its lock guards it.
type scheduled struct {
	// kept says that the shard is in the queue, at index, until it is due; zero is at once.
	kept  bool
	index int
	due   time.Time
	// woken says that it is not to be idle before its next poll.
	woken bool
}

// idleQueue is a heap of idle shards, by when they are due.
type idleQueue []*Shard

func (q idleQueue) Len() int           { return len(q) }
func (q idleQueue) Less(i, j int) bool { return q[i].scheduled.due.Before(q[j].scheduled.due) }
func (q idleQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].scheduled.index, q[j].scheduled.index = i, j
}

// Push implements heap.Interface.
func (q *idleQueue) Push(x any) {
	s := x.(*Shard)
	s.scheduled.kept, s.scheduled.index = true, len(*q)
	*q = append(*q, s)
}

// Pop implements heap.Interface.
func (q *idleQueue) Pop() any {
	last := len(*q) - 1
	s := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	s.scheduled.kept = false
	return s
}

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
