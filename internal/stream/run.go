package stream

import (
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"example.org/bridge/client/backoff"
	"example.org/bridge/sink"
)

// Resolve reads what the bus holds of a stream at this moment and was not read, behind a publish of
// unknown outcome (rule 9): Committer.Unknown or a failed Committer.Acknowledged comes before. When
// it returns nil the store has the outcome, and the shard may make its next batch.
func (c *CatchUp) Resolve(ctx context.Context, name string) error {
	if err := c.Wait(ctx, name); err != nil {
		return err
	}
	s, doubts := c.streams[name], c.committer.doubtsOf(name)
	err := c.fence(ctx)
	if err == nil {
		err = s.rounds(ctx, false)
	}
	if s.continuesUnread(err) {
		// Rule 24: such a stream goes on, and may repeat. What can be read later is.
		s.isRead.Store(true)
		err = nil
	}
	if err == nil {
		c.committer.resolved(doubts)
		return nil
	}
	if ctx.Err() != nil {
		return err
	}
	if fatal := c.ended(ctx, s, err); fatal != nil {
		return fatal
	}
	return s.failure()
}

// Rereading reports whether a TP of a stream is not read yet to where it ended when it was
// registered again (rule 21). Until then a reconcile finds entities disputed of which the bus has
// the last message. Nobody waits for a TP that is there no more.
func (c *CatchUp) Rereading(name string) bool {
	s := c.streams[name]
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.rereads) > 0 && c.committer.isBehind(s.rereads, func(tp string) bool {
		return slices.ContainsFunc(s.tps, func(t *topicPartition) bool { return t.name == tp })
	})
}

// Run reads in the background what is left (rules 4, 5, 7, 8 and 20), from the end of Start until
// ctx ends; then it returns nil. It may begin while Start runs, and serves the streams that are
// ready. An error is that of the store.
func (c *CatchUp) Run(ctx context.Context) error {
	g, running := errgroup.WithContext(ctx)
	for _, s := range c.order {
		g.Go(func() error { return s.watch(running) })
		if passes(s) {
			g.Go(func() error { return s.runPass(running) })
		}
	}
	g.Go(func() error {
		for backoff.Pause(running, c.opts.Tick) == nil {
			if c.superseded() != nil {
				// Rule 8: the process stays alive.
				<-running.Done()
				break
			}
			for _, s := range c.order {
				if err := s.forgetDecided(running); err != nil {
					return err
				}
			}
			c.readHoles(running, g)
		}
		return nil
	})
	err := g.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// watch looks up the ends of the idle TPs of a stream, and new ones, about once a minute (rule 5),
// and at each tick while the stream has none: the sink may make it only now. What is below the ends
// and not covered is read by readHoles. A lookup waits for a bus that does not answer, so each
// stream has its own.
func (s *stream) watch(ctx context.Context) error {
	for looked := time.Now(); backoff.Pause(ctx, min(s.c.opts.Tick, s.c.opts.IdleEvery)) == nil; {
		idle := time.Since(looked) >= s.c.opts.IdleEvery
		if idle {
			looked = time.Now()
		}
		if known, _ := s.c.committer.registered(s.Name); !s.isReady() || s.failure() != nil || !idle && known {
			continue
		}
		_, err := s.c.registrar.lookup(ctx, s, false)
		if err := s.c.inBackground(ctx, s, err); err != nil {
			return err
		}
	}
	return nil
}

// inBackground returns the errors that end Run. A TP that moved is looked up again later, a part of
// the store that was not read is read again, and a release stream that cannot be read goes on.
func (c *CatchUp) inBackground(ctx context.Context, s *stream, err error) error {
	if err == nil || errors.Is(err, errMoved) || errors.Is(err, ErrUnread) || ctx.Err() != nil || s.continuesUnread(err) {
		return nil
	}
	return c.ended(ctx, s, err)
}

func (s *stream) forgetDecided(ctx context.Context) error {
	if !s.isReady() || s.failure() != nil {
		return nil
	}
	disk := &s.c.committer.disk
	err := disk.note(s, partLate, disk.retry(ctx, func() error { return s.Feed.ForgetDecided(ctx) }))
	return s.c.inBackground(ctx, s, err)
}

// readHoles begins to read the TPs of which something is left, each at a bounded rate.
func (c *CatchUp) readHoles(ctx context.Context, g *errgroup.Group) {
	for _, s := range c.order {
		if !s.isReady() || s.failure() != nil || time.Since(time.Unix(0, s.waitsFrom.Load())) < outagePause {
			continue
		}
		for _, t := range s.partitions() {
			if !s.left(t) || !t.busy.CompareAndSwap(false, true) {
				continue
			}
			g.Go(func() error {
				defer t.busy.Store(false)
				return c.inBackground(ctx, s, s.readHole(ctx, t))
			})
		}
	}
}

// left reports whether a TP is to be read for a stream, or compared with its anchors.
func (s *stream) left(t *topicPartition) bool {
	covered := s.c.committer.snapshot(s.Name, t.name)
	if covered == nil {
		return false
	}
	_, found := covered.hole(0)
	return found || t.compared.Load() == nil
}

const (
	// holeRate bounds how many messages a second are read of a TP.
	holeRate = 20_000
	// readCost is what each reading costs of that, in messages: it is a request or two.
	readCost = 50
)

// readHole reads what is left of a TP, in the order of offsets, until nothing is left, a message of
// ours is in flight, or the rest is passed over.
func (s *stream) readHole(ctx context.Context, t *topicPartition) error {
	budget, begun := holeRate, time.Now()
	for !isPassed(s, t) {
		if t.isDue(s.c.opts.AnchorsEvery) {
			// Rule 20: before a hole is read.
			if err := s.c.registrar.compareAgain(ctx, s, t); err != nil {
				return err
			}
		}
		budget -= readCost
		left, err := s.readOnce(ctx, t, sink.NoEnd, &budget)
		switch {
		case errors.Is(err, errInFlight):
			return nil
		case errors.Is(err, errMoved):
			_, err := s.c.registrar.lookup(ctx, s, true)
			return err
		case err != nil && !errors.Is(err, errEnough), !left && err == nil:
			return err
		}
		if budget > 0 {
			continue
		}
		if backoff.Pause(ctx, time.Second-time.Since(begun)) != nil {
			return nil
		}
		budget, begun = holeRate, time.Now()
	}
	return nil
}
