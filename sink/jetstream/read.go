package jetstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"example.org/bridge/client/backoff"
	"example.org/bridge/sink"
)

const (
	// goneFor is how long a stream must be missing, or end too early, until that is believed: a new
	// leader may know less for a moment.
	goneFor   = 3 * time.Second
	gonePause = 300 * time.Millisecond
	// firstEvery is how often a stream is asked what it still holds while messages are skipped.
	firstEvery = time.Second
)

var _ sink.Reader = (*Sink)(nil)

// Errors of reading that are no faults.
var (
	errMissing = errors.New("the stream does not exist")
	errShort   = errors.New("the stream ends before the offset to read from")
	errSilent  = errors.New("nothing more came")
)

// Read implements [sink.Reader]: it passes over messages of subjects that Options.Readable does not
// name. It needs $JS.API.STREAM.INFO, $JS.API.CONSUMER and, where the last messages of a stream are
// not read themselves, $JS.API.STREAM.MSG.GET. A single message is asked for directly.
func (s *Sink) Read(ctx context.Context, span sink.Span, each func(*sink.Stored) error) (next uint64, err error) {
	ctx, cancel := s.within(ctx)
	defer cancel()
	r := &reading{sink: s, span: span, next: max(span.From, 1), incarnation: span.Incarnation}
	r.each = func(m *sink.Stored) error {
		r.next = m.Offset + 1
		r.moved, r.waiting = true, time.Time{}
		if r.refused = each(m); r.refused == nil {
			r.refused = context.Cause(ctx)
		}
		return r.refused
	}
	if span.Done(r.next) {
		return max(span.From, min(r.next, span.To)), context.Cause(ctx)
	}
	err = r.retry(ctx, span.TP, "read "+span.TP, func() error { return r.once(ctx) })
	if err != nil && r.refused == nil && r.sink.over(ctx) == nil {
		err = fmt.Errorf("read the stream %s from %d: %w", span.TP, r.next, err)
	}
	return r.next, err
}

// reading is one Read: what is left of span begins at next.
type reading struct {
	sink        *Sink
	span        sink.Span
	next        uint64
	incarnation string
	each        func(*sink.Stored) error
	// refused is the error of each.
	refused error
	// moved says that a message came since the last fault; failing, missing and short are when the
	// present faults began.
	moved                   bool
	failing, missing, short time.Time
	// waiting is since when the stream ends before the span.
	waiting time.Time
	fault   error
	// skipped is the first offset that was passed over since the stream was asked for its first
	// one, 0 without one.
	skipped uint64
	asked   time.Time
	message sink.Stored
	arena   []byte
}

// retry does something until it succeeds, for as long as that may help.
func (r *reading) retry(ctx context.Context, tp, what string, once func() error) error {
	faults := r.sink.faults
	defer func() { faults.gone(what, r.sink.over(ctx) != nil) }()
	var pause backoff.Backoff
	for {
		err := once()
		if err == nil || r.refused != nil {
			return err
		}
		if over := r.sink.over(ctx); over != nil {
			return over
		}
		if r.moved {
			r.moved, r.failing = false, time.Time{}
			pause.Reset()
		}
		wait, err := r.outcome(err)
		if err != nil {
			return err
		}
		if wait == 0 {
			faults.fail(tp, what, r.fault)
			wait = pause.Next()
		}
		if err := backoff.Pause(ctx, wait); err != nil {
			return err
		}
	}
}

// outcome returns the error to end with, or nil and how long to wait, 0 where err is a fault to be
// reported.
func (r *reading) outcome(err error) (time.Duration, error) {
	now := time.Now()
	since := func(begun *time.Time) time.Duration {
		if begun.IsZero() {
			*begun = now
		}
		return now.Sub(*begun)
	}
	giveUp := r.sink.options.GiveUpAfter
	switch {
	case errors.Is(err, sink.ErrGone), errors.Is(err, sink.ErrExpired), errors.Is(err, sink.ErrUnreadable), errors.Is(err, errUnreached):
		return 0, err
	case errors.Is(err, errMissing):
		if since(&r.missing) >= goneFor {
			return 0, fmt.Errorf("%w: %w", sink.ErrGone, err)
		}
		return gonePause, nil
	case errors.Is(err, errShort):
		if since(&r.short) >= goneFor {
			return 0, fmt.Errorf("%w: %w", sink.ErrBehind, err)
		}
		return gonePause, nil
	case giveUp > 0 && since(&r.failing) > giveUp:
		return 0, err
	}
	r.missing, r.short, r.fault = time.Time{}, time.Time{}, err
	return 0, nil
}

// once reads over one connection, and makes sure that it was one stream that did not lose what was
// skipped.
func (r *reading) once(ctx context.Context) error {
	session, err := r.sink.reached(ctx)
	if err != nil {
		return err
	}
	_, err = r.describe(ctx, session)
	switch {
	case err != nil:
	case r.span.To == r.next+1:
		err = r.single(ctx, session)
	default:
		for err == nil && !r.span.Done(r.next) {
			err = r.consume(ctx, session)
		}
		if err == nil {
			_, err = r.describe(ctx, session)
		}
	}
	if err == nil || r.refused != nil {
		return err
	}
	denied, grant := session.deniedBy(readConsumers), "CONSUMER.>"
	if denied == nil {
		denied, grant = session.deniedBy(getMessages, getDirect), "STREAM.MSG.GET."+r.span.TP
	}
	if denied != nil {
		return fmt.Errorf("%w: allow the user of bridge to publish on %s: %w", sink.ErrUnreadable, session.api(grant), denied)
	}
	return err
}

// describe asks the leader for the stream and compares it with what is to be read.
func (r *reading) describe(ctx context.Context, session *session) (*jetstream.StreamInfo, error) {
	info, err := describe(ctx, session, r.span.TP)
	if err != nil {
		return nil, err
	}
	r.missing = time.Time{}
	created := createdAt(info)
	if r.incarnation == "" {
		r.incarnation = created
	}
	first, end := boundsOf(info)
	switch {
	case created != r.incarnation:
		return nil, fmt.Errorf("it was created again at %s: %w", created, sink.ErrGone)
	case info.Config.Retention != jetstream.LimitsPolicy:
		return nil, fmt.Errorf("%w: the retention of the stream %s is %v, which removes what is consumed: use limits", sink.ErrUnreadable,
			r.span.TP, info.Config.Retention)
	case first > r.next && !r.span.Done(r.next):
		return nil, &sink.ExpiredError{TP: r.span.TP, From: r.next, First: first}
	case r.skipped > 0 && first > r.skipped:
		return nil, &sink.ExpiredError{TP: r.span.TP, From: r.skipped, First: first}
	case end < r.next:
		return nil, fmt.Errorf("%w: it ends before %d", errShort, end)
	}
	r.short, r.skipped, r.asked = time.Time{}, 0, time.Now()
	return info, nil
}

func createdAt(info *jetstream.StreamInfo) string { return info.Created.UTC().Format(time.RFC3339Nano) }

func refOf(info *jetstream.StreamInfo) sink.TPRef {
	return sink.TPRef{Name: info.Config.Name, Incarnation: createdAt(info)}
}

// boundsOf returns the first sequence that is left and the next one.
func boundsOf(info *jetstream.StreamInfo) (first, end uint64) {
	end = info.State.LastSeq + 1
	return min(max(info.State.FirstSeq, 1), end), end
}

// describe asks the leader for a stream.
func describe(ctx context.Context, session *session, name string) (*jetstream.StreamInfo, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, requestTimeout, errNoReply)
	defer cancel()
	stream, err := session.js.Stream(ctx, name)
	switch {
	case ctx.Err() != nil:
		return nil, session.explained(context.Cause(ctx))
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return nil, errMissing
	case err != nil:
		return nil, fmt.Errorf("ask for the stream %s: %w", name, err)
	}
	return stream.CachedInfo(), nil
}

// single reads the one message that is left to read.
func (r *reading) single(ctx context.Context, session *session) error {
	m, err := getMessage(ctx, session, r.span.TP, messageQuery{Seq: r.next})
	if err != nil {
		return err
	}
	if m == nil {
		r.next++
		return nil
	}
	return r.hand(m.Seq, m.Subject, m.header, m.Data, m.Time.UnixMilli())
}

// errUnreached says that no server could be reached from the start.
var errUnreached = errors.New("no connection to NATS")

// TPs implements [sink.Reader]. Where Options.Stream is set it is the only one. It needs
// $JS.API.STREAM.NAMES and $JS.API.STREAM.INFO.
func (s *Sink) TPs(ctx context.Context, destinations []string) (tps []sink.TP, err error) {
	ctx, cancel := s.within(ctx)
	defer cancel()
	r := reading{sink: s}
	err = r.retry(ctx, natsTP, "look for streams", func() (err error) {
		tps, err = s.tps(ctx, destinations)
		return err
	})
	if err != nil && s.over(ctx) == nil {
		err = fmt.Errorf("look for the streams of %q: %w", destinations, err)
	}
	return tps, err
}

func (s *Sink) tps(ctx context.Context, destinations []string) (tps []sink.TP, err error) {
	session, err := s.reached(ctx)
	if err != nil {
		return nil, err
	}
	names := []string{s.options.Stream}
	if s.options.Stream == "" {
		if names, err = StreamsOf(ctx, session.js, destinations); err != nil {
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

// StreamsOf returns the names of the streams whose subjects overlap with destinations, in order.
func StreamsOf(ctx context.Context, js jetstream.JetStream, destinations []string) (names []string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, requestTimeout, errNoReply)
	defer cancel()
	for _, subject := range destinations {
		list := js.StreamNames(ctx, jetstream.WithStreamListSubject(subject))
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
