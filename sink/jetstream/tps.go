package jetstream

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"bridge/internal/backoff"
	"bridge/sink"

	"github.com/nats-io/nats.go/jetstream"
)

// errUnreached says that no server could be reached from the start.
var errUnreached = errors.New("no connection to NATS")

// TPs implements [sink.Reader]. Where Options.Stream is set it is the only one. It needs
// $JS.API.STREAM.NAMES and $JS.API.STREAM.INFO.
func (s *Sink) TPs(ctx context.Context, destinations []string) ([]sink.TP, error) {
	ctx, cancel := s.within(ctx)
	defer cancel()
	const what = "look for streams"
	defer func() { s.faults.leave(ctx, what) }()
	r := reading{sink: s}
	var pause backoff.Backoff
	for {
		tps, err := s.tps(ctx, destinations)
		if err == nil {
			return tps, nil
		}
		if over := s.over(ctx); over != nil {
			cancel() // that the sink was closed may not have reached ctx
			return nil, over
		}
		if _, err := r.outcome(err); err != nil {
			return nil, fmt.Errorf("look for the streams of %q: %w", destinations, err)
		}
		s.faults.fail(natsTP, what, err)
		if err := pause.Wait(ctx); err != nil {
			return nil, err
		}
	}
}

func (s *Sink) tps(ctx context.Context, destinations []string) (tps []sink.TP, err error) {
	session, err := s.reached(ctx)
	if err != nil {
		return nil, err
	}
	names := []string{s.options.Stream}
	if s.options.Stream == "" {
		if names, err = streamsOf(ctx, session, destinations); err != nil {
			return nil, session.explained(err)
		}
	}
	for _, name := range names {
		info, err := describe(ctx, session, name)
		if errors.Is(err, errMissing) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if s.batcher != nil && info.State.LastSeq < s.batcher.claimed.Load() {
			// What lies before the claim is to be read back.
			return nil, errOldLeader
		}
		s.mu.Lock()
		s.looked[name] = true
		s.mu.Unlock()
		tps = append(tps, describeTP(info))
	}
	return tps, nil
}

// errOldLeader says that a server that was the leader does not know of our claim.
var errOldLeader = errors.New("the stream ends before our claim, for the server that answers")

// streamsOf returns the names of the streams whose subjects overlap with destinations, in order.
func streamsOf(ctx context.Context, session *session, destinations []string) (names []string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, requestTimeout, errNoReply)
	defer cancel()
	for _, subject := range destinations {
		list := session.js.StreamNames(ctx, jetstream.WithStreamListSubject(subject))
		for name := range list.Name() {
			names = append(names, name)
		}
		if err := list.Err(); err != nil && !errors.Is(err, jetstream.ErrEndOfData) {
			return nil, fmt.Errorf("look for the stream of %s: %w", subject, err)
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// describeTP tells what a stream holds, and may have removed.
func describeTP(info *jetstream.StreamInfo) sink.TP {
	c := &info.Config
	byAge := c.MaxAge > 0 || c.MaxMsgs > 0 || c.MaxBytes > 0
	oneByOne := c.MaxMsgsPerSubject > 0 || c.Retention != jetstream.LimitsPolicy || c.AllowMsgTTL
	headless := info.State.FirstSeq > 1
	first, end := boundsOf(info)
	return sink.TP{
		Name: c.Name, Incarnation: createdAt(info), First: first, End: end, Stable: end,
		Expired: headless && byAge, Thinned: oneByOne && (headless || info.State.NumDeleted > 0),
	}
}

// reached returns the session. With Options.GiveUpAfter it is an error that there is none, at once
// if there never was one.
func (s *Sink) reached(ctx context.Context) (*session, error) {
	giveUp := s.options.GiveUpAfter
	if giveUp == 0 {
		return s.conns.get(ctx)
	}
	if !s.connected.Load() {
		if err := s.conns.state(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, errNotConnected) {
			return nil, fmt.Errorf("%w: %w", errUnreached, err)
		}
	}
	waiting, cancel := context.WithTimeout(ctx, giveUp)
	defer cancel()
	session, err := s.conns.get(waiting)
	if err == nil {
		s.connected.Store(true)
	} else if ctx.Err() == nil {
		err = fmt.Errorf("%w: %w", errUnreached, s.conns.state(ctx))
	}
	return session, err
}
