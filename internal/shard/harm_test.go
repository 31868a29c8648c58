package shard_test

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/sink"
	sinkmemory "example.org/bridge/sink/sinktest/memory"
	"example.org/bridge/source"
)

// reaper kills a process at one of its steps: from then on nothing that it does has an effect. The
// steps are
//   - behind the first look at the bus, and behind each reading of several of its messages: a
//     single one is mostly an anchor;
//   - behind each read of a table that brought rows or looked for keys, before they are decided;
//   - before each message of a publish, and after the last one before the acknowledgement;
//   - before and after each change of the store, by an acknowledgement or by catch-up.
type reaper struct {
	mu   sync.Mutex
	left int
	// steps is how many were taken.
	steps  int
	looked bool
	dead   chan struct{}
	// at is the step at which something happens while the process goes on, happen is that.
	at     int
	happen func()
	// still, when not nil, has the process stand still at a step of publishing: no lock is held
	// there.
	still *standstill
	// cut are messages that were on their way when the process died.
	cut []sink.Message
}

// reap returns a reaper that lets n steps pass.
func reap(n int) *reaper { return &reaper{left: n, dead: make(chan struct{})} }

// watch returns a reaper that kills nothing, and has something happen at a step.
func watch(at int, happen func()) *reaper {
	r := reap(math.MaxInt)
	r.at, r.happen = at, happen
	return r
}

// step notes a step. It reports whether the process lives still, and whether it dies of this step.
func (r *reaper) step() (lives, dies bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.left < 0 {
		return false, false
	}
	if r.happen != nil && r.steps == r.at {
		r.happen()
		r.happen = nil
	}
	if r.left--; r.left < 0 {
		close(r.dead)
		return false, true
	}
	r.steps++
	return true, false
}

// alive takes a step and reports whether the process survives it.
func (r *reaper) alive() bool {
	lives, _ := r.step()
	return lives
}

// firstRead notes a step at the first read of the bus.
func (r *reaper) firstRead() bool {
	r.mu.Lock()
	first := !r.looked
	r.looked = true
	r.mu.Unlock()
	return !first || r.alive()
}

// leave keeps messages that the bus has not stored.
func (r *reaper) leave(messages []sink.Message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range messages {
		// The batch is used again.
		m.Key, m.Value = bytes.Clone(m.Key), bytes.Clone(m.Value)
		r.cut = append(r.cut, m)
	}
}

func (r *reaper) taken() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.steps
}

type reapedStore struct {
	store.Store
	*reaper
}

func (s reapedStore) Apply(ctx context.Context, b *store.Batch) error {
	if !s.alive() {
		return errDead
	}
	if err := s.Store.Apply(ctx, b); err != nil {
		return err
	}
	if !s.alive() {
		return errDead
	}
	return nil
}

type reapedSink struct {
	sink.Sink
	*reaper
}

func (s reapedSink) Publish(ctx context.Context, batch []sink.Message) (sink.Outcome, error) {
	whole := sink.Outcome{Status: make([]sink.Status, len(batch)), At: make([]sink.At, len(batch))}
	for i := range batch {
		if lives, dies := s.step(); !lives {
			if dies || i > 0 {
				s.leave(batch[i:])
			}
			return s.unanswered(ctx, len(batch))
		}
		out, err := s.Sink.Publish(ctx, batch[i:i+1])
		if err != nil {
			return whole, err
		}
		whole.Status[i] = out.Status[0]
		whole.Duplicates += out.Duplicates
		if at := out.At[0]; at.Known {
			at.TP = tpOf(&whole, out.TPs[at.TP])
			whole.At[i] = at
		}
	}
	if !s.alive() {
		return s.unanswered(ctx, len(batch))
	}
	return whole, nil
}

// unanswered is a publish whose acknowledgement never comes.
func (reapedSink) unanswered(ctx context.Context, n int) (sink.Outcome, error) {
	<-ctx.Done()
	return sink.Outcome{Status: make([]sink.Status, n)}, context.Cause(ctx)
}

// waitDeath waits for the death, or until no step was taken for the time idle, and reports whether
// the shard died.
func (r *reaper) waitDeath(idle time.Duration) (died bool) {
	for {
		before := r.taken()
		select {
		case <-r.dead:
			return true
		case <-time.After(idle):
			if r.taken() == before {
				return false
			}
		}
	}
}

// reapedSource is a table for a process that a reaper kills. A step is behind a read that brought
// rows or looked for keys: before the rows are decided.
type reapedSource struct {
	source.Shard
	*reaper
}

func (s reapedSource) Read(ctx context.Context, q source.Query, p *source.Page) error {
	if err := s.Shard.Read(ctx, q, p); err != nil {
		return err
	}
	if (len(p.Rows) > 0 || q.Keys != nil) && !s.alive() {
		return errDead
	}
	return nil
}

type reapedReader struct {
	sink.Reader
	*reaper
}

func (s reapedReader) TPs(ctx context.Context, destinations []string) ([]sink.TP, error) {
	tps, err := s.Reader.TPs(ctx, destinations)
	if err == nil && !s.firstRead() {
		err = errDead
	}
	return tps, err
}

func (s reapedReader) Read(ctx context.Context, span sink.Span, each func(*sink.Stored) error) (next uint64, err error) {
	n := 0
	next, err = s.Reader.Read(ctx, span, func(m *sink.Stored) error {
		n++
		return each(m)
	})
	if n > 1 && err == nil && !s.alive() {
		err = errDead
	}
	return next, err
}

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
