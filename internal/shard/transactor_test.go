package shard_test

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"

	"example.org/bridge/sink"
	sinkmemory "example.org/bridge/sink/sinktest/memory"
)

// delivery is BRIDGE_DELIVERY.
type delivery int

const (
	atLeastOnce delivery = iota
	exactlyOnce
)

// coordinator ends the transactions of the processes of a life, as that of a transactional id of
// Kafka does.
type coordinator struct {
	bus *sinkmemory.Sink

	mu sync.Mutex
	// owner has taken over last.
	owner *transactor
	// ending is a transaction whose commit was on its way when its process died. lands says that
	// such a request arrives, before the next process takes over.
	ending []sink.Message
	lands  bool
	// expires has the next transaction be aborted by its time limit, unanswered the answer to the
	// next commit be lost.
	expires, unanswered bool
	// foreign is until when somebody else has a transaction open on the topics.
	foreign time.Time
}

// close ends what dead processes have left: readers wait for that.
func (c *coordinator) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endLeft()
}

// calm ends the mishaps that have not been met.
func (c *coordinator) calm() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expires, c.unanswered, c.foreign = false, false, time.Time{}
}

func (c *coordinator) endLeft() {
	if c.lands && len(c.ending) > 0 {
		if _, err := c.bus.Publish(context.Background(), c.ending); err != nil {
			panic(err)
		}
	}
	c.ending = nil
}

// transactor is the bus for a process that publishes exactly once. Of a transaction that is not
// committed the bus shows nothing. With a reaper the steps of the process are
//   - before and after it takes over, or goes on behind a doubt;
//   - before partitions are added, before each message, and before the commit;
//   - after the commit, before its answer.
type transactor struct {
	*sinkmemory.Sink
	*reaper
	transactions *coordinator
	// claimed says that the process has taken over.
	claimed bool
}

var _ sink.Transactional = (*transactor)(nil)

// lives takes a step.
func (s *transactor) lives() bool {
	if s.reaper == nil {
		return true
	}
	s.stands()
	return s.alive()
}

// stands has the process stand still where it is to.
func (s *transactor) stands() {
	if s.still != nil {
		s.still.pass(s.taken())
	}
}

// gone is a call of a dead process.
func (s *transactor) gone(ctx context.Context) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// Fence implements sink.Transactional.
func (s *transactor) Fence(ctx context.Context) error {
	if !s.lives() {
		return s.gone(ctx)
	}
	c := s.transactions
	c.mu.Lock()
	if !s.claimed {
		c.endLeft()
		s.claimed, c.owner = true, s
	}
	superseded := c.owner != s
	c.mu.Unlock()
	switch {
	case superseded:
		return sink.ErrFenced
	case !s.lives():
		return s.gone(ctx)
	}
	return nil
}

// Publish implements sink.Transactional.
func (s *transactor) Publish(ctx context.Context, batch []sink.Message) (sink.Outcome, error) {
	out := sink.Outcome{Status: make([]sink.Status, len(batch))}
	if out.Rejected = refusedOf(batch, out.Status); len(out.Rejected) > 0 {
		return out, nil
	}
	for range len(batch) + 1 {
		if !s.lives() {
			return out, s.gone(ctx)
		}
	}
	if s.reaper != nil {
		s.stands()
		if lives, dies := s.step(); !lives {
			if dies {
				s.transactions.leave(s, batch)
			}
			return out, s.gone(ctx)
		}
	}
	committed, err := s.transactions.commit(ctx, s, batch)
	switch {
	case !s.lives():
		return out, s.gone(ctx)
	case err != nil:
		return out, err
	}
	return committed, nil
}

// refusedOf returns the messages of a batch that the bus refuses.
func refusedOf(batch []sink.Message, status []sink.Status) (refused []sink.Rejection) {
	for i := range batch {
		if len(batch[i].Value) > lifeMaxBytes {
			status[i] = sink.Rejected
			refused = append(refused, sink.Rejection{Index: i, Reason: "too large"})
		}
	}
	return refused
}

// leave keeps a commit that is on its way when its process dies.
func (c *coordinator) leave(s *transactor, batch []sink.Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.owner != s {
		return
	}
	for _, m := range batch {
		// The batch is used again.
		m.Key, m.Value = bytes.Clone(m.Key), bytes.Clone(m.Value)
		c.ending = append(c.ending, m)
	}
}

// commit stores a batch, unless another process has taken over, or the transaction has taken too
// long.
func (c *coordinator) commit(ctx context.Context, s *transactor, batch []sink.Message) (sink.Outcome, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	expires, unanswered := c.expires, c.unanswered
	c.expires, c.unanswered = false, false
	if c.owner != s || expires {
		return sink.Outcome{}, fmt.Errorf("another epoch: %w", sink.ErrUnknownOutcome)
	}
	out, err := c.bus.Publish(ctx, batch)
	if err == nil && unanswered {
		err = fmt.Errorf("no answer: %w", sink.ErrUnknownOutcome)
	}
	return out, err
}

// reader returns what reads the bus of a life. A process that does not take over waits until the
// transactions of dead ones have ended.
func (l *life) reader() sink.Reader {
	if l.delivery == atLeastOnce {
		l.transactions.close()
	}
	return committedReader{l.bus, l.transactions}
}

// committedReader reads what is committed, and waits for the end of somebody else's transaction.
type committedReader struct {
	sink.Reader
	transactions *coordinator
}

func (r committedReader) Read(ctx context.Context, span sink.Span, each func(*sink.Stored) error) (uint64, error) {
	r.transactions.mu.Lock()
	left := time.Until(r.transactions.foreign)
	r.transactions.mu.Unlock()
	// The race detector of Go 1.26 crashes where two timers of a bubble are due when they are made.
	if left > 0 {
		select {
		case <-time.After(left):
		case <-ctx.Done():
			return span.From, context.Cause(ctx)
		}
	}
	return r.Reader.Read(ctx, span, each)
}

// standstill has a process stand still at a step, as SIGSTOP does, until resume is closed.
type standstill struct {
	at              int
	reached, resume chan struct{}
	once            sync.Once
}

// reach waits until the process stands still. It reports whether it does: not where it took no step
// for a while.
func (s *standstill) reach(r *reaper) bool {
	for {
		before := r.taken()
		select {
		case <-s.reached:
			return true
		case <-time.After(idle):
			if r.taken() == before {
				return false
			}
		}
	}
}

func (s *standstill) pass(taken int) {
	if taken < s.at {
		return
	}
	s.once.Do(func() { close(s.reached) })
	<-s.resume
}
