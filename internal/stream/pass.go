package stream

import (
	"context"
	"maps"
	"slices"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/client/backoff"
)

// floor is how far a TP was known at a moment of a session: no message that was handed to the sink
// later lies below to, the end or the offset behind what was acknowledged, whichever is higher.
type floor struct {
	t        *topicPartition
	session  uint64
	number   uint32
	next, to uint64
}

// floors are those of the TPs of a stream. sent is the highest seq that was handed to the sink
// before or while they were noted.
type floors struct {
	all  []floor
	sent uint64
}

// runPass moves the offsets of a stream over what other shares publish on its TPs, which is not
// read (decision 24), until ctx ends. The error is that of the store.
//
// They move to the floors that were noted the time before. What this process has published below
// was handed to the sink before: once the store has the outcomes of all of that, it lacks nothing
// that lies there. Where another process of the share may have published, all is read (rule 8).
func (s *stream) runPass(ctx context.Context) error {
	opts, noted := &s.c.opts, floors{}
	for looked := time.Now(); backoff.Pause(ctx, opts.Tick) == nil; {
		again := time.Since(looked) >= opts.AnchorsEvery/2
		due := func(t *topicPartition) bool { return t.compared.Load() == nil || again && (s.held.Load() || s.left(t)) }
		if !passes(s) || !s.isReady() || s.failure() != nil || !slices.ContainsFunc(s.partitions(), due) {
			continue
		}
		now, err := s.noteFloors(ctx)
		if err == nil {
			err = s.passTo(ctx, noted)
		}
		if noted = now; err != nil {
			s.held.Store(true)
		}
		if err := s.c.inBackground(ctx, s, err); err != nil {
			return err
		}
		looked = time.Now()
	}
	return nil
}

// passes reports whether a stream has nothing to learn from what other shares publish, and from
// late messages: a view needs the last message of each entity.
func passes(s *stream) bool {
	return s.Release && s.Mine != nil && s.c.opts.Alone != nil && !s.isRead.Load()
}

// noteFloors looks the TPs up and returns their floors. Where a TP has lost messages, and has
// others at their offsets, it is in another session, or its anchors differ (rule 20).
func (s *stream) noteFloors(ctx context.Context) (noted floors, err error) {
	sessions := make(map[*topicPartition]uint64)
	for _, t := range s.partitions() {
		sessions[t] = t.sessions.Load()
	}
	if _, err := s.c.registrar.lookup(ctx, s, true); err != nil {
		return floors{}, err
	}
	for t, session := range sessions {
		if one, found := floorOf(s, t); found {
			one.session = session
			noted.all = append(noted.all, one)
		}
	}
	// Last: what has a higher seq is handed over behind all floors.
	s.c.committer.mu.Lock()
	defer s.c.committer.mu.Unlock()
	noted.sent = s.c.committer.sent
	return noted, nil
}

// passTo moves the offsets to floors that were noted before the last look at the TPs. Where it
// cannot, it holds them: one batch that stays in flight, or a bus that does not tell who has begun,
// must not end rule 8.
func (s *stream) passTo(ctx context.Context, noted floors) error {
	if len(noted.all) == 0 {
		return nil
	}
	// Behind the floors: who has published below has entered by now. An error shows at the next
	// copy of the progress.
	asking, cancel := context.WithTimeout(ctx, s.c.opts.AnchorsEvery)
	alone, err := s.c.opts.Alone(asking)
	cancel()
	held := err != nil || isOpen(s, noted.sent)
	s.held.Store(held)
	if err == nil && !alone {
		s.isRead.Store(true)
	}
	if held || !alone {
		return nil
	}
	var passed []Span
	for _, f := range noted.all {
		if f.t.sessions.Load() != f.session {
			// It may happen again and again: what is left is read meanwhile.
			s.held.Store(true)
			continue
		}
		now, found := floorOf(s, f.t)
		if found && now.number == f.number && now.next < f.to && !s.isReread(now.number, now.next) {
			passed = append(passed, Span{TP: f.number, Range: Range{From: now.next, To: f.to}})
		}
	}
	if len(passed) == 0 {
		return nil
	}
	return s.c.committer.apply(ctx, &store.Batch{}, Cover{read: passed})
}

// isPassed reports whether what is left of a TP is passed over and not read. It is read while the
// offsets are held, behind an unknown outcome, and where the process has found the TP while it ran.
func isPassed(s *stream, t *topicPartition) bool {
	if !passes(s) || s.held.Load() || isOpen(s, 0) {
		return false
	}
	now, found := floorOf(s, t)
	return found && !s.isReread(now.number, now.next)
}

func floorOf(s *stream, tp *topicPartition) (f floor, found bool) {
	c := s.c.committer
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.tps.coverage(s.Name, tp.name)
	if t == nil {
		return floor{}, false
	}
	f = floor{t: tp, number: t.Number, next: t.Next, to: t.end}
	if t.High.Hash != 0 {
		f.to = max(f.to, t.High.Offset+1)
	}
	return f, true
}

// isOpen reports whether the store lacks the outcome of a batch of a stream: of one that is in
// flight and begins at or below sent, or of any that the bus was not read behind.
func isOpen(s *stream, sent uint64) bool {
	c := s.c.committer
	c.mu.Lock()
	defer c.mu.Unlock()
	for first, b := range c.flight {
		if b.stream == s.Name && first <= sent {
			return true
		}
	}
	return slices.Contains(slices.Collect(maps.Values(c.doubts)), s.Name)
}

// doubtsOf returns the batches of a stream of unknown outcome, resolved forgets them: the bus was
// read behind them.
func (c *Committer) doubtsOf(stream string) (batches []uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for first, of := range c.doubts {
		if of == stream {
			batches = append(batches, first)
		}
	}
	return batches
}

func (c *Committer) resolved(batches []uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, first := range batches {
		delete(c.doubts, first)
	}
}
