package jetstream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"bridge/internal/backoff"
	"bridge/sink"
)

// Verify compares streams with offsets as [sink.Sink] says. A stream that is missing is waited for,
// unless this sink would create it. What it finds is also held against the streams at every
// reconnect.
func (s *Sink) Verify(ctx context.Context, offsets []sink.Offset) error {
	for _, m := range offsets {
		l, err := s.worker(m.TP)
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

// verify compares one stream with its offset, as often as it takes to get an answer.
func (s *Sink) verify(ctx context.Context, m sink.Offset, a *anchor) error {
	what := "verify " + m.TP
	defer s.faults.leave(ctx, what)
	var pause backoff.Backoff
	w := a.watch(m)
	defer a.unwatch(w)
	var until time.Time
	shorter := false
	for {
		sure, err := s.compare(ctx, m)
		switch {
		case err == nil && shorter:
			return a.check(w)
		case err == nil:
			return nil
		}
		if err := s.over(ctx); err != nil {
			return err
		}
		if !errors.Is(err, sink.ErrBehind) {
			until = time.Time{}
			s.faults.fail(m.TP, what, err)
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
func (s *Sink) compare(ctx context.Context, m sink.Offset) (sure bool, err error) {
	session, err := s.session(ctx)
	if err != nil {
		return false, err
	}
	stream, err := lookup(ctx, session.js, &s.options, m.TP, m)
	if err != nil {
		return false, err
	}
	info := stream.CachedInfo()
	if sure, err = behind(m, createdAt(info), info.State.LastSeq); err != nil {
		return sure, err
	}
	return sure, otherMessage(ctx, session, stream, m)
}

// otherMessage returns an error that wraps sink.ErrBehind when the stream holds another message at
// an offset, as one that was restored from a copy and has grown since. One that is gone, and one
// that may not be read, proves nothing.
func otherMessage(ctx context.Context, session *session, stream jetstream.Stream, m sink.Offset) error {
	if m.ID == "" {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, requestTimeout, errNoReply)
	defer cancel()
	found, err := stream.GetMsg(ctx, m.Last)
	switch {
	case err == nil && found.Header.Get(headerMsgID) == m.ID, errors.Is(err, jetstream.ErrMsgNotFound):
		return nil
	case err == nil:
		return fmt.Errorf("%w: sequence %d of the stream %s was acknowledged as the event %s, and is the event %q now",
			sink.ErrBehind, m.Last, m.TP, m.ID, found.Header.Get(headerMsgID))
	case session.denialOfMessages() != nil, errors.Is(err, nats.ErrNoResponders):
		// An account may import no more than the rest of the API, which has answered before.
		return nil
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	}
	return fmt.Errorf("read message %d of the stream %s: %w", m.Last, m.TP, err)
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
