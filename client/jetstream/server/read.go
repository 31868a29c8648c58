package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"example.org/bridge/client/backoff"
	"example.org/bridge/client/bus"
)

const (
	// GoneFor is how long a stream must be missing, or end too early, until that is believed: a new
	// leader may know less for a moment.
	GoneFor   = 3 * time.Second
	gonePause = 300 * time.Millisecond
	// mostFilters is how many subjects a consumer has: a server compares each with all others, for
	// seconds where they are thousands.
	mostFilters = 100
	// firstEvery is how often a stream is asked what it still holds while messages are skipped.
	firstEvery = time.Second
)

// RequestTimeout bounds a request. A leader that steps down may take one with it: it is asked again
// soon.
const RequestTimeout = 3 * time.Second

// ErrNoReply ends a request to JetStream.
var ErrNoReply = fmt.Errorf("JetStream does not answer within %s", RequestTimeout)

// Errors of reading that are no faults.
var (
	errMissing = errors.New("the stream does not exist")
	errShort   = errors.New("the stream ends before the offset to read from")
	errSilent  = errors.New("nothing more came")
)

// Reader reads streams back. It is safe for concurrent use.
type Reader struct {
	conns *Connector
	// life ends the reader.
	life context.Context
	// found is called for each stream that TPs finds; its error is a fault.
	found func(*jetstream.StreamInfo) error
	// filters are the subjects of messages that the server is to give, covers tells which of
	// [Options.Readable] covers one.
	filters   []string
	covers    func(subject string) string
	connected *atomic.Bool
	close     func()
}

var _ bus.Reader = (*Reader)(nil)

// NewReader returns a reader over the sessions of c that lasts until life ends. found is called for
// each stream that TPs finds; with an error it is asked for again.
func (c *Connector) NewReader(life context.Context, found func(*jetstream.StreamInfo) error) *Reader {
	r := &Reader{conns: c, life: life, found: found, filters: c.options.Readable, covers: bus.Coverer(c.options.Readable),
		connected: new(atomic.Bool), close: func() {}}
	if len(r.filters) > mostFilters {
		r.filters = []string{common(r.filters)}
	}
	return r
}

// Only returns a reader over the same connection that reads this subject in place of
// [Options.Readable]; wildcards are fine.
func (r *Reader) Only(subject string) bus.Reader {
	only := *r
	only.filters, only.covers = []string{subject}, bus.Coverer([]string{subject})
	return &only
}

// common returns the pattern of what all subjects begin with.
func common(subjects []string) string {
	begin := strings.Split(subjects[0], ".")
	n := len(begin) - 1
	for _, subject := range subjects {
		tokens, same := strings.Split(subject, "."), 0
		for same < min(n, len(tokens)-1) && tokens[same] == begin[same] {
			same++
		}
		n = same
	}
	return strings.Join(append(begin[:n:n], ">"), ".")
}

// Open returns a reader with a connection of its own, at once, whether or not a server can be
// reached.
func Open(o Options, faults bus.Faults) (*Reader, error) {
	if err := errors.Join(o.Check()...); err != nil {
		return nil, err
	}
	life, end := context.WithCancel(context.Background())
	var running sync.WaitGroup
	r := NewConnector(&o, faults, func() {}).NewReader(life, func(*jetstream.StreamInfo) error { return nil })
	running.Go(func() { r.conns.Run(life) })
	r.close = func() { end(); running.Wait() }
	return r, nil
}

// Close ends the connection of a reader of [Open], and the calls under way.
func (r *Reader) Close() error {
	r.close()
	return nil
}

// Over returns why nothing more is to be tried, nil when it is. That the reader was closed may not
// have reached ctx yet.
func (r *Reader) Over(ctx context.Context) error {
	if r.life.Err() != nil {
		return bus.ErrClosed
	}
	return context.Cause(ctx)
}

// Read implements [bus.Reader]: it passes over messages of subjects that [Options.Readable] does
// not name. It needs $JS.API.STREAM.INFO, $JS.API.CONSUMER and, where the last messages of a
// stream are not read themselves, $JS.API.STREAM.MSG.GET. A single message is asked for directly.
func (r *Reader) Read(ctx context.Context, span bus.Span, each func(*bus.Stored) error) (next uint64, err error) {
	ctx, cancel := bus.Within(ctx, r.life)
	defer cancel()
	one := &reading{reader: r, span: span, next: max(span.From, 1), incarnation: span.Incarnation}
	one.each = func(m *bus.Stored) error {
		one.next = m.Offset + 1
		one.moved, one.waiting = true, time.Time{}
		if one.refused = each(m); one.refused == nil {
			one.refused = context.Cause(ctx)
		}
		return one.refused
	}
	if span.Done(one.next) {
		return max(span.From, min(one.next, span.To)), context.Cause(ctx)
	}
	err = one.retry(ctx, span.TP, "read "+span.TP, func() error { return one.once(ctx) })
	if err != nil && one.refused == nil && r.Over(ctx) == nil {
		err = fmt.Errorf("read the stream %s from %d: %w", span.TP, one.next, err)
	}
	return one.next, err
}

// reading is one Read: the rest of span begins at next.
type reading struct {
	reader      *Reader
	span        bus.Span
	next        uint64
	incarnation string
	each        func(*bus.Stored) error
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
	message bus.Stored
	arena   []byte
}

func (r *reading) retry(ctx context.Context, tp, what string, once func() error) error {
	faults := r.reader.conns.faults
	defer func() {
		if r.reader.Over(ctx) != nil {
			faults.Drop(what)
		} else {
			faults.OK(what)
		}
	}()
	var pause backoff.Backoff
	for {
		err := once()
		if err == nil || r.refused != nil {
			return err
		}
		if over := r.reader.Over(ctx); over != nil {
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
			faults.Fail(what, tp, r.fault)
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
	giveUp := r.reader.conns.options.GiveUpAfter
	switch {
	case errors.Is(err, bus.ErrGone), errors.Is(err, bus.ErrExpired), errors.Is(err, bus.ErrUnreadable), errors.Is(err, errUnreached):
		return 0, err
	case errors.Is(err, errMissing):
		if since(&r.missing) >= GoneFor {
			return 0, fmt.Errorf("%w: %w", bus.ErrGone, err)
		}
		return gonePause, nil
	case errors.Is(err, errShort):
		if since(&r.short) >= GoneFor {
			return 0, fmt.Errorf("%w: %w", bus.ErrBehind, err)
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
	began := time.Now()
	session, err := r.reader.reached(ctx)
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
	denied, grant := session.Denied(began, "CONSUMER.CREATE."+r.span.TP+".", "CONSUMER.MSG.NEXT."+r.span.TP+"."), "CONSUMER.>"
	if denied == nil {
		grant = "STREAM.MSG.GET." + r.span.TP
		denied = session.Denied(began, grant+`"`)
	}
	if denied != nil {
		return fmt.Errorf("%w: allow the user of this connection to publish on %s: %w", bus.ErrUnreadable, session.API(grant), denied)
	}
	return err
}

// describe asks the leader for the stream and compares it with what is to be read.
func (r *reading) describe(ctx context.Context, session *Session) (*jetstream.StreamInfo, error) {
	info, err := Describe(ctx, session, r.span.TP)
	if err != nil {
		return nil, err
	}
	r.missing = time.Time{}
	created := CreatedAt(info)
	if r.incarnation == "" {
		r.incarnation = created
	}
	first, end := boundsOf(info)
	switch {
	case created != r.incarnation:
		return nil, fmt.Errorf("it was created again at %s: %w", created, bus.ErrGone)
	case info.Config.Retention != jetstream.LimitsPolicy:
		return nil, fmt.Errorf("%w: the retention of the stream %s is %v, which removes what is consumed: use limits", bus.ErrUnreadable,
			r.span.TP, info.Config.Retention)
	case first > r.next && !r.span.Done(r.next):
		return nil, &bus.ExpiredError{TP: r.span.TP, From: r.next, First: first}
	case r.skipped > 0 && first > r.skipped:
		return nil, &bus.ExpiredError{TP: r.span.TP, From: r.skipped, First: first}
	case end < r.next:
		return nil, fmt.Errorf("%w: it ends before %d", errShort, end)
	}
	r.short, r.skipped, r.asked = time.Time{}, 0, time.Now()
	return info, nil
}

// CreatedAt tells one making of a stream from another.
func CreatedAt(info *jetstream.StreamInfo) string { return info.Created.UTC().Format(time.RFC3339Nano) }

func boundsOf(info *jetstream.StreamInfo) (first, end uint64) {
	end = info.State.LastSeq + 1
	return min(max(info.State.FirstSeq, 1), end), end
}

// OfLeader returns an error where what was told of a stream is not what its leader knows: without
// one a replica tells, and may have less than was acknowledged.
func OfLeader(info *jetstream.StreamInfo) error {
	if c := info.Cluster; c != nil && c.Leader == "" {
		return fmt.Errorf("the stream %s has no leader: more than half of the servers with a replica of it have to be there", info.Config.Name)
	}
	return nil
}

// Describe asks the leader for a stream.
func Describe(ctx context.Context, session *Session, name string) (*jetstream.StreamInfo, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, RequestTimeout, ErrNoReply)
	defer cancel()
	stream, err := session.JS.Stream(ctx, name)
	switch {
	case ctx.Err() != nil:
		return nil, session.Explained(context.Cause(ctx), "STREAM.INFO."+name)
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return nil, errMissing
	case err != nil:
		return nil, fmt.Errorf("ask for the stream %s: %w", name, err)
	}
	return stream.CachedInfo(), OfLeader(stream.CachedInfo())
}

func (r *reading) single(ctx context.Context, session *Session) error {
	m, err := GetMessage(ctx, session, r.span.TP, Query{Seq: r.next})
	if err != nil {
		return err
	}
	if m == nil {
		r.next++
		return nil
	}
	return r.hand(m.Seq, m.Subject, m.Headers, m.Data, m.Time.UnixMilli())
}

// errUnreached says that no server could be reached from the start.
var errUnreached = errors.New("no connection to NATS")

// TPs implements [bus.Reader]. Where Options.Stream is set it is the only one. It needs
// $JS.API.STREAM.NAMES and $JS.API.STREAM.INFO.
func (r *Reader) TPs(ctx context.Context, destinations []string) (tps []bus.TP, err error) {
	ctx, cancel := bus.Within(ctx, r.life)
	defer cancel()
	one := reading{reader: r}
	err = one.retry(ctx, Everywhere, "look for streams", func() (err error) {
		tps, err = r.tps(ctx, destinations)
		return err
	})
	if err != nil && r.Over(ctx) == nil {
		err = fmt.Errorf("look for the streams of %q: %w", destinations, err)
	}
	return tps, err
}

func (r *Reader) tps(ctx context.Context, destinations []string) (tps []bus.TP, err error) {
	session, err := r.reached(ctx)
	if err != nil {
		return nil, err
	}
	if name := r.conns.options.Stream; name != "" {
		tps, _, err = r.describeAll(ctx, session, tps, []string{name})
		return tps, err
	}
	var covers []func(string) string
	for _, subject := range destinations {
		// Streams do not share subjects. Of thousands most are those of one stream.
		if slices.ContainsFunc(covers, func(by func(string) string) bool { return by(subject) != "" }) {
			continue
		}
		names, err := StreamsOf(ctx, session.JS, []string{subject})
		if err != nil {
			return nil, session.Explained(err, "STREAM.NAMES")
		}
		var subjects []string
		if tps, subjects, err = r.describeAll(ctx, session, tps, names); err != nil {
			return nil, err
		}
		covers = append(covers, bus.Coverer(subjects))
	}
	slices.SortFunc(tps, func(a, b bus.TP) int { return strings.Compare(a.Name, b.Name) })
	return tps, nil
}

// describeAll adds streams to tps that are not among them, and returns their subjects.
func (r *Reader) describeAll(ctx context.Context, session *Session, tps []bus.TP, names []string) (_ []bus.TP, subjects []string, err error) {
	for _, name := range names {
		if slices.ContainsFunc(tps, func(tp bus.TP) bool { return tp.Name == name }) {
			continue
		}
		info, err := Describe(ctx, session, name)
		if errors.Is(err, errMissing) {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		if err := r.found(info); err != nil {
			return nil, nil, err
		}
		subjects = append(subjects, info.Config.Subjects...)
		// What it holds, and may have removed.
		c, headless := &info.Config, info.State.FirstSeq > 1
		byAge := c.MaxAge > 0 || c.MaxMsgs > 0 || c.MaxBytes > 0
		oneByOne := c.MaxMsgsPerSubject > 0 || c.Retention != jetstream.LimitsPolicy || c.AllowMsgTTL
		first, end := boundsOf(info)
		tps = append(tps, bus.TP{
			Name: c.Name, Incarnation: CreatedAt(info), First: first, End: end, Stable: end,
			Expired: headless && byAge, Thinned: oneByOne && (headless || info.State.NumDeleted > 0),
		})
	}
	return tps, subjects, nil
}

// StreamsOf returns the names of the streams whose subjects overlap with destinations, in order.
func StreamsOf(ctx context.Context, js jetstream.JetStream, destinations []string) (names []string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, RequestTimeout, ErrNoReply)
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

// With Options.GiveUpAfter it is an error that there is no session, at once if there never was.
func (r *Reader) reached(ctx context.Context) (*Session, error) {
	giveUp := r.conns.options.GiveUpAfter
	if giveUp == 0 {
		return r.conns.Get(ctx)
	}
	if !r.connected.Load() {
		if err := r.conns.State(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, ErrNotConnected) {
			return nil, fmt.Errorf("%w: %w", errUnreached, err)
		}
	}
	waiting, cancel := context.WithTimeout(ctx, giveUp)
	defer cancel()
	session, err := r.conns.Get(waiting)
	if err == nil {
		r.connected.Store(true)
	} else if ctx.Err() == nil {
		err = fmt.Errorf("%w: %w", errUnreached, r.conns.State(ctx))
	}
	return session, err
}
