package stream

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/client/backoff"
	"example.org/bridge/sink"
)

// followEvery is the time between two rounds before Options.Turn.
const followEvery = 5 * time.Second

// Start reads what the bus holds and the store lacks, for all streams side by side: to the ends
// that were seen first, then to the new ends, until one round is short. The first stream that has
// come so far has the epoch synced, with the registrations; each stream is ready by itself (rules
// 1, 10 to 16). What was read stays when it is cancelled or killed.
//
// It returns when every stream is ready or has stopped. The error is the cause of ctx or that of
// the store, or ErrStartAgain; what stops a stream is returned by Wait.
func (c *CatchUp) Start(ctx context.Context) error {
	if c.opts.Over != nil {
		return nil
	}
	g, ctx := errgroup.WithContext(ctx)
	var logging sync.WaitGroup
	logged, end := context.WithCancel(ctx)
	logging.Go(func() { logProgress(logged, c) })
	for _, s := range c.order {
		if s.Stopped == nil {
			g.Go(func() error { return c.ended(ctx, s, s.catchUp(ctx)) })
		}
	}
	err := g.Wait()
	end()
	logging.Wait()
	if err == nil {
		logEnd(c)
	}
	return err
}

// ended returns the errors that end all streams; the others end theirs.
func (c *CatchUp) ended(ctx context.Context, s *stream, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, errStore), errors.Is(err, ErrStartAgain):
		return err
	case errors.Is(err, ErrSuperseded):
		c.supersede(err)
	default:
		c.stop(s, err)
	}
	return nil
}

func (c *CatchUp) stop(s *stream, err error) {
	if !s.stop(err) {
		return
	}
	c.opts.Log.Error("the stream stops", "stream", s.Name, "error", err)
	if s.isReady() {
		c.opts.Stopped(s.Name, err)
	}
}

func (s *stream) catchUp(ctx context.Context) error {
	s.mu.Lock()
	s.began = time.Now()
	s.mu.Unlock()
	confirm := func(turn bool) error {
		return s.c.committer.disk.untilRead(ctx, s, wholeStream, func() error { return s.c.opts.Confirm(ctx, s.Name, turn) })
	}
	if err := confirm(false); err != nil {
		return err
	}
	if err := s.restore(ctx); err != nil {
		return err
	}
	if err := s.readAll(ctx); err != nil {
		return err
	}
	follows := s.c.opts.Turn != nil && !s.Ours
	if follows {
		if err := s.follow(ctx); err != nil {
			return err
		}
		if err := confirm(true); err != nil {
			return err
		}
	}
	if s.c.opts.Fence != nil {
		// What former processes have published is on the bus by then.
		if err := s.c.fence(ctx); err != nil {
			return err
		}
		if err := s.rounds(ctx, false); err != nil {
			return err
		}
	}
	if follows {
		// Another process has worked meanwhile.
		if err := s.restore(ctx); err != nil {
			return err
		}
	}
	if err := s.checkHash(); err != nil {
		return err
	}
	if err := s.endReading(ctx); err != nil {
		return err
	}
	return s.c.committer.disk.untilRead(ctx, s, wholeStream, func() error { return s.becomeReady(ctx) })
}

// readAll reads all TPs of a stream to their ends, until a round is short: so little comes between
// the ends and the first publish. From the second round on its reading counts alone: another round
// would find as much behind a look at many TPs, which takes as long each time.
func (s *stream) readAll(ctx context.Context) error {
	for all := true; ; all = false {
		began := time.Now()
		if err := s.rounds(ctx, all); err != nil {
			if !s.continuesUnread(err) {
				return err
			}
			// Rule 24: a release stream goes on by its store, and may repeat rows after a kill.
			s.isRead.Store(true)
			s.c.opts.Log.Warn("the topics of a release stream cannot be read: rows may be published again", "stream", s.Name, "error", err)
			return nil
		}
		if !all {
			s.mu.Lock()
			began = s.found
			s.mu.Unlock()
		}
		if time.Since(began) <= s.c.opts.ShortRound {
			return nil
		}
	}
}

// continuesUnread reports whether a stream goes on though its TPs cannot be read (rule 24): where
// rows may be published again, and a release stream. The store of a process that has waited does
// not know what another one has published.
func (s *stream) continuesUnread(err error) bool {
	return s.Release && s.c.opts.Fence == nil && s.c.opts.Turn == nil && errors.Is(err, sink.ErrUnreadable)
}

func (c *CatchUp) fence(ctx context.Context) error {
	if c.opts.Fence == nil {
		return nil
	}
	err := c.opts.Fence(ctx)
	if errors.Is(err, sink.ErrFenced) {
		return fmt.Errorf("%w: %w", ErrSuperseded, err)
	}
	if err == nil {
		c.fenced.Store(true)
	}
	return err
}

// endReading ends the reading of Start. Where messages have expired unread that may have been the
// last ones of any entity, all TPs are registered again, where they were read to: that disputes all
// entries, and a reconcile follows (rule 22). Else offsets pass messages with another hash, behind
// which one with ours was found.
func (s *stream) endReading(ctx context.Context) error {
	s.mu.Lock()
	unknown, waits := s.unknown, s.waits
	s.unknown, s.waits = false, false
	s.mu.Unlock()
	if !unknown && !waits {
		return nil
	}
	var again []store.Registration
	var passed []Span
	for _, t := range s.partitions() {
		// Nobody reads the TP meanwhile.
		release, err := backoff.Acquire(ctx, t.reading)
		if err != nil {
			return err
		}
		if covered := s.c.committer.snapshot(s.Name, t.name); covered != nil {
			cursor := t.cursors[covered.Number]
			passed = append(passed, holesBelow(covered, cursor)...)
			if was, now := covered.Registration, covered.Registration; unknown {
				was.Retired = true
				now.Number, now.Next = s.c.committer.next(), max(now.Next, cursor)
				again = append(again, was, now)
			}
		}
		release()
	}
	if unknown {
		return s.reconcile(ctx, &store.Batch{Registrations: again}, Cover{})
	}
	return s.c.committer.apply(ctx, &store.Batch{}, Cover{read: passed})
}

func holesBelow(t *covered, cursor uint64) (holes []Span) {
	from := t.Next
	for _, s := range append(t.spans, Range{From: cursor}) {
		if to := min(s.From, cursor); from < to {
			hole := Span{TP: t.Number, Range: Range{From: from, To: to}}
			if t.High.Offset >= from && t.High.Offset < to {
				hole.Last = t.High
			}
			holes = append(holes, hole)
		}
		from = max(from, s.To)
	}
	return holes
}

// becomeReady makes a stream ready. The first one has the epoch synced, above all that was met.
func (s *stream) becomeReady(ctx context.Context) error {
	release, err := backoff.Acquire(ctx, s.c.becoming)
	if err != nil {
		return err
	}
	defer release()
	if err := s.c.superseded(); err != nil {
		return err
	}
	if s.c.Epoch() == nil {
		// Rule 1. A stream that still catches up may meet a higher one, of a clock that went back:
		// then rule 8 holds, and the next start has that one in the store.
		met, _ := s.c.committer.highest()
		epoch := NewEpoch(max(s.c.known, s.c.copied.Load(), met), time.Now()).of(s.c.opts.Share)
		if epoch.Number() > sink.MaxEpoch {
			return fmt.Errorf("the epoch %d was met, and none is left above it: only bridge may write to its topics; give the streams another destination", met)
		}
		if err := s.c.sync(ctx, &store.Batch{Epoch: epoch.Number()}); err != nil {
			return err
		}
		if err := s.c.opts.Permit(ctx, epoch.Number()); err != nil {
			return fmt.Errorf("%w: %w", ErrStartAgain, err)
		}
		s.c.epoch.Store(epoch)
	} else if err := s.c.sync(ctx, &store.Batch{}); err != nil {
		return err
	}
	if err := s.Feed.Ready(ctx); errors.Is(err, ErrUnread) {
		return err
	} else if err != nil {
		return fmt.Errorf("%w: %w", errStore, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = time.Now()
	close(s.ready)
	return nil
}

func (c *CatchUp) sync(ctx context.Context, b *store.Batch) error {
	_, last := c.committer.highest()
	if empty(b) && last <= c.synced {
		return nil
	}
	if err := c.committer.Sync(ctx, b); err != nil {
		return err
	}
	c.synced = last
	return nil
}

// ErrStartAgain is returned where the bus has lost messages that this process has read while it
// waited: the next start reads what is left (rule 21).
var ErrStartAgain = errors.New("this process has to be started again")

// follow reads on for a stream, which another process publishes, until it is the turn of this
// process, and then to the end: so little is left to read when another process has ended.
func (s *stream) follow(ctx context.Context) error {
	if err := s.Feed.Follow(ctx); err != nil {
		return err
	}
	defer s.setFollowed(time.Time{})
	ticker := time.NewTicker(followEvery)
	defer ticker.Stop()
	for {
		s.setFollowed(time.Now())
		var err error
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.c.opts.Turn:
			// What was read, and for how long, counts from now on.
			s.passed.Store(0)
			s.mu.Lock()
			s.began = time.Now()
			s.mu.Unlock()
			if err := s.readAll(ctx); err != nil {
				return startAgain(err)
			}
			// A message of a process before the last one may have come when that one had decided
			// its entity, and before this one met the epoch by which it is late (rule 7).
			return s.reconcile(ctx, &store.Batch{}, Cover{})
		case <-ticker.C:
			err = s.rounds(ctx, false)
		}
		if err != nil && !s.continuesUnread(err) {
			return startAgain(err)
		}
	}
}

// startAgain wraps errors that a new start of the process resolves: nothing was published yet.
func startAgain(err error) error {
	if errors.Is(err, sink.ErrBehind) {
		return fmt.Errorf("%w: %w", ErrStartAgain, err)
	}
	return err
}

func (s *stream) setFollowed(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.followed = at
}

func (c *CatchUp) isTurn() bool {
	if c.opts.Turn == nil {
		return true
	}
	select {
	case <-c.opts.Turn:
		return true
	default:
		return false
	}
}
