package jetstream

import (
	"context"
	"errors"
	"time"

	"bridge/internal/backoff"
	"bridge/sink"
)

// Verify compares streams with marks as [sink.Sink] says. A stream that is missing is waited for, unless this sink would
// create it. What it finds is also held against the streams at every reconnect.
func (s *Sink) Verify(ctx context.Context, marks []sink.Mark) error {
	for _, m := range marks {
		l, err := s.lane(m.Place)
		if err != nil {
			return err
		}
		if err := s.verify(ctx, m, &l.anchor); err != nil {
			return err
		}
		l.anchor.pin(m)
	}
	return nil
}

// verify compares one stream with its mark, as often as it takes to get an answer.
func (s *Sink) verify(ctx context.Context, m sink.Mark, a *anchor) error {
	what := "verify " + m.Place
	defer s.faults.leave(ctx, what)
	pause := backoff.Backoff{First: 50 * time.Millisecond, Max: 2 * time.Second}
	w := a.watch(m)
	defer a.unwatch(w)
	var until time.Time
	shorter := false
	for {
		sure, err := s.compare(ctx, m)
		switch {
		case err == nil && shorter:
			return a.judge(w)
		case err == nil:
			return nil
		}
		if err := s.over(ctx); err != nil {
			return err
		}
		if !errors.Is(err, sink.ErrBehind) {
			until = time.Time{}
			s.faults.fail(m.Place, what, err)
			if err := s.pause(ctx, pause.Next()); err != nil {
				return err
			}
			continue
		}
		shorter = true
		if until.IsZero() {
			until = time.Now().Add(behindFor)
		}
		if sure || time.Now().After(until) {
			return err
		}
		if err := s.pause(ctx, behindFor/10); err != nil {
			return err
		}
	}
}

// compare asks for the stream once.
func (s *Sink) compare(ctx context.Context, m sink.Mark) (sure bool, err error) {
	session, err := s.session(ctx)
	if err != nil {
		return false, err
	}
	stream, err := lookUp(ctx, session.js, &s.options, m.Place, m)
	if err != nil {
		return false, err
	}
	info := stream.CachedInfo()
	return behind(m, createdAt(info), info.State.LastSeq)
}

// session returns the connection, or waits for one until ctx or the sink ends.
func (s *Sink) session(ctx context.Context) (*session, error) {
	ctx, cancel := s.within(ctx)
	defer cancel()
	return s.conns.get(ctx)
}

// pause waits until ctx or the sink ends.
func (s *Sink) pause(ctx context.Context, d time.Duration) error {
	ctx, cancel := s.within(ctx)
	defer cancel()
	return backoff.Pause(ctx, d)
}

// within returns a context that ends with ctx and, with the cause sink.ErrClosed, with the sink.
func (s *Sink) within(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.life, func() { cancel(sink.ErrClosed) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// over returns why nothing more is to be tried, nil when it is.
func (s *Sink) over(ctx context.Context) error {
	if s.life.Err() != nil {
		return sink.ErrClosed
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}
