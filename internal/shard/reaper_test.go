package shard_test

import (
	"bytes"
	"context"
	"math"
	"sync"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/sink"
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

// reapedStore is a store for a process that a reaper kills.
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

// reapedSink is a bus for a process that a reaper kills.
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

// reapedReader reads the bus for a process that a reaper kills.
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
