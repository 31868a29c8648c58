package shard_test

import (
	"context"
	"sync"
	"time"

	"bridge/checkpoint/store"
	"bridge/sink"
	"bridge/source"
)

// reaper kills a shard at one of its steps: from then on nothing that it does has an effect. The
// steps are before and after a save, before each message of a publish, and after the last message
// before the acknowledgement.
type reaper struct {
	mu    sync.Mutex
	left  int
	steps int
	dead  chan struct{}
}

// reap returns a reaper that lets n steps pass.
func reap(n int) *reaper { return &reaper{left: n, dead: make(chan struct{})} }

// alive takes a step and reports whether the shard survives it.
func (r *reaper) alive() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.left < 0 {
		return false
	}
	if r.left--; r.left < 0 {
		close(r.dead)
		return false
	}
	r.steps++
	return true
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
		if !s.alive() {
			return s.unanswered(ctx, len(batch))
		}
		out, err := s.Sink.Publish(ctx, batch[i:i+1])
		if err != nil {
			return whole, err
		}
		whole.Status[i] = out.Status[0]
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

// dedupSink is a bus that drops repeats of what it has stored, as JetStream does.
type dedupSink struct {
	sink.Sink
	mu     sync.Mutex
	stored map[string]sink.At
	tps    []sink.TPRef
}

func (s *dedupSink) Publish(ctx context.Context, batch []sink.Message) (sink.Outcome, error) {
	whole := sink.Outcome{Status: make([]sink.Status, len(batch)), At: make([]sink.At, len(batch))}
	for i := range batch {
		s.mu.Lock()
		at, known := s.stored[batch[i].Dedup()]
		s.mu.Unlock()
		if known {
			at.Duplicate = true
			whole.Status[i], whole.At[i] = sink.Acked, at
			continue
		}
		out, err := s.Sink.Publish(ctx, batch[i:i+1])
		if err != nil {
			return whole, err
		}
		s.mu.Lock()
		whole.Status[i], whole.At[i], s.tps = out.Status[0], out.At[0], out.TPs
		s.stored[batch[i].Dedup()] = out.At[0]
		s.mu.Unlock()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	whole.TPs = s.tps
	return whole, nil
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
