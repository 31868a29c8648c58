package jetstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"example.org/bridge/internal/backoff"
)

// natsTP stands for a TP in faults of the connection.
const natsTP = "nats"

// A connection that lasts no longer is not followed at once by the next.
const flapping = 20 * time.Millisecond

// firstConnect is how long Ready waits for the first connection.
const firstConnect = 2 * time.Second

// errNotConnected is what Ready says before the first attempt to connect has ended.
var errNotConnected = errors.New("not connected yet")

// session is one connection from its start to its end. It is never taken up again.
type session struct {
	nc *nats.Conn
	js jetstream.JetStream
	// api returns a subject of the API of JetStream.
	api func(subject string) string
	// gone is closed when the connection is lost or closed.
	gone chan struct{}

	lines *lines

	mu    sync.Mutex
	wires map[*wire]struct{}
	// cause is why the connection was dropped on this side.
	cause error
	// unread is why no consumer may be made or read, unreadMessages why no single message may be,
	// unasked why something else may not be asked of JetStream.
	unread, unreadMessages, unasked error
}

// connector keeps one session open, for ever.
type connector struct {
	options *Options
	faults  *faults
	// connected is called when there is a new session.
	connected func()

	mu      sync.Mutex
	current *session
	// changed is closed and created again when current changes.
	changed chan struct{}
	err     error
}

func newConnector(options *Options, faults *faults) *connector {
	return &connector{options: options, faults: faults, changed: make(chan struct{}), err: errNotConnected}
}

// run connects, waits for the end of the session and connects again until ctx ends.
func (c *connector) run(ctx context.Context) {
	servers := bare(c.options.URLs)
	var pause backoff.Backoff
	for ctx.Err() == nil {
		s, err := c.connect(ctx, servers)
		if err != nil {
			if ctx.Err() != nil {
				return
			}
			c.set(nil, err)
			c.faults.fail(natsTP, natsTP, err)
			if pause.Wait(ctx) != nil {
				return
			}
			continue
		}
		begun := time.Now()
		servers = merge(bare(c.options.URLs), s.nc.Servers())
		c.set(s, nil)
		c.faults.end(natsTP)
		c.connected()
		select {
		case <-s.gone:
			err := s.why()
			c.set(nil, err)
			c.faults.fail(natsTP, natsTP, err)
			if time.Since(begun) > flapping {
				pause.Reset()
			} else if pause.Wait(ctx) != nil {
				return
			}
		case <-ctx.Done():
			c.set(nil, errNotConnected)
			s.nc.Close()
			<-s.gone
		}
	}
}

// merge adds the servers that the cluster has told of to those that were configured.
func merge(configured, known []string) []string {
	for _, s := range known {
		if !slices.Contains(configured, s) {
			configured = append(configured, s)
		}
	}
	return configured
}

func (c *connector) connect(ctx context.Context, servers []string) (*session, error) {
	options, err := c.options.login()
	if err != nil {
		return nil, err
	}
	s := &session{api: c.options.api, gone: make(chan struct{}), wires: make(map[*wire]struct{})}
	s.lines = &lines{dial: c.again(s), taken: shortLine}
	options = append(options,
		nats.ClosedHandler(func(*nats.Conn) { close(s.gone) }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { s.refused(err) }),
	)
	if s.nc, err = dial(ctx, servers, options); err != nil {
		return nil, err
	}
	if s.js, err = c.options.New(s.nc); err != nil {
		s.nc.Close()
		return nil, err
	}
	return s, nil
}

func (c *connector) set(s *session, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.current, c.err = s, err
	close(c.changed)
	c.changed = make(chan struct{})
}

// get blocks until there is a session and returns it. It returns the cause of ctx when that ends
// first.
func (c *connector) get(ctx context.Context) (*session, error) {
	for {
		c.mu.Lock()
		s, changed := c.current, c.changed
		c.mu.Unlock()
		if s != nil && s.alive() {
			return s, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// state returns nil while there is a session, else why not. It gives the first attempt to connect a
// moment to end.
func (c *connector) state(ctx context.Context) error {
	timer := time.NewTimer(firstConnect)
	defer timer.Stop()
	for {
		c.mu.Lock()
		err, changed := c.err, c.changed
		c.mu.Unlock()
		if !errors.Is(err, errNotConnected) {
			return err
		}
		select {
		case <-changed:
		case <-timer.C:
			return err
		case <-ctx.Done():
			return err
		}
	}
}

func (s *session) alive() bool {
	select {
	case <-s.gone:
		return false
	default:
		return s.nc.IsConnected()
	}
}

// drop closes the connection.
func (s *session) drop(cause error) {
	s.mu.Lock()
	s.cause = cause
	s.mu.Unlock()
	s.nc.Close()
}

// why returns the reason for the end of the connection.
func (s *session) why() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause != nil {
		return s.cause
	}
	if err := s.nc.LastError(); err != nil {
		return err
	}
	return errors.New("the server has closed the connection")
}

// refused hands an error that the server reports apart from any message to all wires.
func (s *session) refused(err error) {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if deniedReading(err) {
		// It answers nothing that was published.
		s.unread = err
		return
	}
	if deniedMessages(err) {
		s.unreadMessages = err
		return
	}
	if strings.Contains(err.Error(), "$JS.") {
		s.unasked = err
		return
	}
	for w := range s.wires {
		select {
		case w.denied <- err:
		default:
		}
	}
}

// deniedMessages reports whether an error of the server says that single messages may not be read.
func deniedMessages(err error) bool {
	return strings.Contains(err.Error(), ".API.STREAM.MSG.GET") || strings.Contains(err.Error(), ".API.DIRECT.GET")
}

// deniedReading reports whether an error of the server says that consumers may not be made or read.
func deniedReading(err error) bool { return strings.Contains(err.Error(), ".API.CONSUMER") }

// explained returns why JetStream was not asked, where that explains an error, else err.
func (s *session) explained(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil || s.unasked == nil || !errors.Is(err, errNoReply) {
		return err
	}
	return fmt.Errorf("grant the user the right to publish on it: %w", s.unasked)
}

// denial returns why no consumer may be made or read, nil while that is not known.
func (s *session) denial() error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unread
}

// denialOfMessages returns why no single message may be read, nil while that is not known.
func (s *session) denialOfMessages() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unreadMessages
}

// Connect returns a connection of its own by o, for what is neither publishing nor reading. It is
// never taken up again: once it is lost it stays closed. ctx bounds the attempt.
func Connect(ctx context.Context, o Options, more ...nats.Option) (*nats.Conn, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	options, err := o.login()
	if err != nil {
		return nil, err
	}
	return dial(ctx, bare(o.URLs), append(options, more...))
}

// New returns the JetStream interface of a connection by o.
func (o *Options) New(nc *nats.Conn) (jetstream.JetStream, error) {
	if o.JetStreamDomain == "" {
		return jetstream.New(nc)
	}
	return jetstream.NewWithDomain(nc, o.JetStreamDomain)
}

// api returns a subject of the API of JetStream.
func (o *Options) api(subject string) string {
	if o.JetStreamDomain == "" {
		return "$JS.API." + subject
	}
	return "$JS." + o.JetStreamDomain + ".API." + subject
}

// renewAgain is the pause behind a claim that could not be renewed.
const renewAgain = time.Second

// kept is how much a stream keeps; 0 is any number.
type kept struct {
	messages, bytes int64
	age             time.Duration
}

// describe notes what the stream takes and keeps. It loses the claim where the stream is not the
// one that was claimed: another process may have a claim there with the same sequence.
func (b *batcher) describe(info *jetstream.StreamInfo) {
	b.limits = limits{payload: b.wire.nc.MaxPayload(), message: int64(info.Config.MaxMsgSize), condition: int64(len(b.sink.options.Claim)), line: b.limits.line, guess: true}
	b.subjects, b.asked = info.Config.Subjects, time.Now()
	b.kept = kept{messages: max(0, info.Config.MaxMsgs), bytes: max(0, info.Config.MaxBytes), age: max(0, info.Config.MaxAge)}
	// A batch alone must not push the claim out.
	b.limit = eighth(b.kept.messages, b.taken)
	b.most = min(b.most, b.limit)
	b.claim.compare(info)
}

// eighth returns an eighth of a limit, from 1 to most; most where there is no limit.
func eighth(limit int64, most int) int {
	if limit == 0 {
		return most
	}
	return int(min(max(limit/8, 1), int64(most)))
}

// batchBytes is how many bytes a batch has at most, beside its first message.
func (b *batcher) batchBytes() int { return eighth(b.kept.bytes, b.sink.options.WindowBytes) }

// renewal is how often it is looked whether the claim ages.
func (b *batcher) renewal() time.Duration {
	wait := b.sink.options.renewEvery
	if b.kept.age > 0 {
		wait = min(wait, b.kept.age/8)
	}
	return wait
}

// grown notes that a batch of so many bytes is stored up to a sequence. The claim is looked at
// where a quarter of what the stream keeps has come since.
func (b *batcher) grown(last uint64, bytes int) {
	b.fresh += int64(bytes)
	b.due = b.kept.messages > 0 && int64(last-max(b.seen, b.claim.seq)) >= b.kept.messages/4 || b.kept.bytes > 0 && b.fresh >= b.kept.bytes/4
	b.most = min(b.limit, 2*b.most)
}

// renew makes a new claim where retention may remove ours before long. What keeps it from that is
// met again by the next batch, or by the next renewal, which comes soon.
func (b *batcher) renew(ctx context.Context) {
	b.due, b.looked = false, time.Now()
	if !b.claim.held() || b.wire == nil || !b.wire.alive() {
		return
	}
	info, err := describe(ctx, b.wire.session, b.sink.options.Stream)
	if err == nil && b.claim.ages(info) {
		info, err = b.claim.acquire(ctx, b.wire.session)
	}
	if err != nil {
		b.looked = time.Now().Add(min(renewAgain, b.renewal()) - b.renewal())
		b.sink.options.Logger.Debug("the claim was not renewed", "stream", b.sink.options.Stream, "error", err)
		return
	}
	b.seen, b.fresh = info.State.LastSeq, 0
	b.describe(info)
}
