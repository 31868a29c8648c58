package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"example.org/bridge/client/backoff"
	"example.org/bridge/client/bus"
)

const (
	connectTimeout = 5 * time.Second
	// A peer that does not answer is noticed after pingEvery × 2.
	pingEvery    = 4 * time.Second
	writeTimeout = 5 * time.Second
	// A connection that lasts no longer is not followed at once by the next.
	flapping = 20 * time.Millisecond
	// firstConnect is how long Ready waits for the first connection.
	firstConnect = 2 * time.Second
	// safeLine is how long a line of the protocol may be for any server. Those of requests to
	// JetStream are shorter: they hold names, no subjects of messages.
	safeLine = 256
	// Everywhere stands for a TP in faults of the connection.
	Everywhere = "nats"
)

// Dial connects to one of servers, for requests other than publishing and reading. The connection
// is never taken up again: once it is lost it stays closed. ctx bounds the attempt. It reads every
// file and calls every function of o afresh.
func (o *Options) Dial(ctx context.Context, servers []string, more ...nats.Option) (*nats.Conn, error) {
	d := &dialer{ctx: ctx}
	defer d.closeRest()
	options := append([]nats.Option{
		nats.Name(o.Name),
		// A connection is never taken up again: what its buffers still hold must not follow what is
		// sent again.
		nats.NoReconnect(),
		nats.Timeout(connectTimeout), nats.PingInterval(pingEvery), nats.MaxPingsOutstanding(1), nats.FlusherTimeout(writeTimeout), nats.SetCustomDialer(d),
	}, more...)
	if o.InProcess != nil {
		options = append(options, nats.InProcessServer(o.InProcess))
	} else {
		login, err := o.login()
		if err != nil {
			return nil, err
		}
		options = append(options, login...)
	}
	urls := strings.Join(Bare(servers), ",")
	nc, err := nats.Connect(urls, options...)
	if err != nil && d.err != nil && errors.Is(err, nats.ErrNoServers) {
		err = d.err
	}
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", strings.ReplaceAll(urls, ",", ", "), err)
	}
	return nc, nil
}

// login returns what a server asks of a client: where o has none, that of the first URL with one.
func (o *Options) login() (options []nats.Option, err error) {
	if o.TLS != nil {
		config, err := o.TLS()
		if err != nil {
			return nil, err
		}
		options = append(options, nats.Secure(config))
	}
	if o.HandshakeFirst {
		options = append(options, nats.TLSHandshakeFirst())
	}
	user, secret, err := o.secret()
	switch {
	case err != nil || user+secret == "":
		return options, err
	case user != "":
		return append(options, nats.UserInfo(user, secret)), nil
	case o.Creds != nil:
		return append(options, nats.UserCredentialBytes([]byte(secret))), nil
	case o.NkeySeed == nil:
		return append(options, nats.Token(secret)), nil
	}
	key, err := nkeys.ParseDecoratedNKey([]byte(secret))
	if err != nil {
		return nil, fmt.Errorf("read the nkey seed: %w", err)
	}
	public, err := key.PublicKey()
	return append(options, nats.Nkey(public, key.Sign)), err
}

// secret returns the password of a user, or without one credentials, a seed or a token, as it is
// now; nothing without a login.
func (o *Options) secret() (user, secret string, err error) {
	switch {
	case o.Password != nil:
		return o.Password()
	case o.Creds != nil:
		secret, err = o.Creds()
		return "", secret, err
	case o.NkeySeed != nil:
		secret, err = o.NkeySeed()
		return "", secret, err
	}
	for _, s := range o.URLs {
		u, err := url.Parse(s)
		if err != nil || u.User == nil {
			continue
		}
		if password, ok := u.User.Password(); ok {
			return u.User.Username(), password, nil
		}
		return "", u.User.Username(), nil
	}
	return "", "", nil
}

// Bare returns the URLs without a login, so that no error of the library can hold one.
func Bare(urls []string) (plain []string) {
	for _, s := range urls {
		if u, err := url.Parse(s); err == nil {
			u.User = nil
			plain = append(plain, u.String())
		}
	}
	return plain
}

// dialer lets ctx end an attempt to connect, which the library knows no way to do.
type dialer struct {
	ctx  context.Context
	mu   sync.Mutex
	stop []func() bool
	err  error
}

// Dial is called by the library, for one address after the other.
func (d *dialer) Dial(network, address string) (net.Conn, error) {
	inner := net.Dialer{Timeout: connectTimeout}
	conn, err := inner.DialContext(d.ctx, network, address)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil {
		d.err = err
		return nil, err
	}
	d.stop = append(d.stop, context.AfterFunc(d.ctx, func() { _ = conn.Close() }))
	return conn, nil
}

func (d *dialer) closeRest() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, stop := range d.stop {
		stop()
	}
}

// errNotConnected is what Ready says before the first attempt to connect has ended.
var ErrNotConnected = errors.New("not connected yet")

// Connector keeps one session open, for ever.
type Connector struct {
	options   *Options
	faults    bus.Faults
	connected func()
	// tooLong is [Session.TooLong] of the next session. It belongs to Run.
	tooLong int

	mu      sync.Mutex
	current *Session
	// changed is closed and created again when current changes.
	changed chan struct{}
	err     error
}

// NewConnector returns a connector that [Connector.Run] connects, by options that were checked.
// connected is called when there is a new session.
func NewConnector(options *Options, faults bus.Faults, connected func()) *Connector {
	return &Connector{options: options, faults: faults, connected: connected, changed: make(chan struct{}), err: ErrNotConnected}
}

// Run connects, waits for the end of the session and connects again until ctx ends.
func (c *Connector) Run(ctx context.Context) {
	servers := Bare(c.options.URLs)
	var pause backoff.Backoff
	for ctx.Err() == nil {
		s, err := c.options.Connect(ctx, servers)
		if err != nil {
			if ctx.Err() != nil {
				return
			}
			c.set(nil, err)
			c.faults.Fail(Everywhere, Everywhere, err)
			if pause.Wait(ctx) != nil {
				return
			}
			continue
		}
		s.TooLong = c.tooLong
		begun := time.Now()
		// The cluster tells of further servers.
		servers = Bare(c.options.URLs)
		for _, known := range s.NC.Servers() {
			if !slices.Contains(servers, known) {
				servers = append(servers, known)
			}
		}
		c.set(s, nil)
		c.faults.OK(Everywhere)
		c.connected()
		select {
		case <-s.Gone:
			err := s.Why()
			if n := int(s.longest.Load()); n > safeLine && strings.Contains(strings.ToLower(err.Error()), "maximum control line") {
				c.tooLong = min(n, cmp.Or(c.tooLong, n))
			}
			c.set(nil, err)
			c.faults.Fail(Everywhere, Everywhere, err)
			if time.Since(begun) > flapping && !errors.Is(err, nats.ErrPermissionViolation) {
				pause.Reset()
			} else if pause.Wait(ctx) != nil {
				return
			}
		case <-ctx.Done():
			c.set(nil, ErrNotConnected)
			s.NC.Close()
			<-s.Gone
		}
	}
}

// Connect opens a session with one of servers. ctx bounds the attempt.
func (o *Options) Connect(ctx context.Context, servers []string) (*Session, error) {
	s := &Session{options: o, Gone: make(chan struct{}), listeners: make(map[*func(error)]struct{})}
	var err error
	if s.user, s.secret, err = o.secret(); err != nil {
		return nil, err
	}
	if s.NC, err = o.Dial(ctx, servers,
		nats.ClosedHandler(func(*nats.Conn) { close(s.Gone) }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { s.refused(err) }),
	); err != nil {
		return nil, err
	}
	if s.JS, err = o.New(s.NC); err != nil {
		s.NC.Close()
		return nil, err
	}
	return s, nil
}

func (c *Connector) set(s *Session, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.current, c.err = s, err
	close(c.changed)
	c.changed = make(chan struct{})
}

// Get blocks until there is a session and returns it. It returns the cause of ctx when that ends
// first.
func (c *Connector) Get(ctx context.Context) (*Session, error) {
	for {
		c.mu.Lock()
		s, changed := c.current, c.changed
		c.mu.Unlock()
		if s != nil && s.Alive() {
			return s, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// State returns nil while there is a session, else why not. It gives the first attempt to connect a
// moment to end.
func (c *Connector) State(ctx context.Context) error {
	timer := time.NewTimer(firstConnect)
	defer timer.Stop()
	for {
		c.mu.Lock()
		err, changed := c.err, c.changed
		c.mu.Unlock()
		if !errors.Is(err, ErrNotConnected) {
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

// Session is one connection from its start to its end. It is never taken up again.
type Session struct {
	NC *nats.Conn
	JS jetstream.JetStream
	// Gone is closed when the connection is lost or closed.
	Gone chan struct{}
	// TooLong is a length of lines of the protocol for which a server has closed a connection, 0
	// while none has: a server does not tell its limit (max_control_line).
	TooLong int
	options *Options
	// longest is how long the longest line is that was sent.
	longest atomic.Int64
	// user and secret are those of its login.
	user, secret string

	mu sync.Mutex
	// listeners are called with each refused publication.
	listeners map[*func(error)]struct{}
	// cause is why the connection was dropped on this side.
	cause error
	// denials are the last refusals, which no answer tells.
	denials []denial
}

type denial struct {
	at  time.Time
	err error
}

func (s *Session) Alive() bool {
	select {
	case <-s.Gone:
		return false
	default:
		return s.NC.IsConnected()
	}
}

// Sends notes that a line of at most n bytes is sent next.
func (s *Session) Sends(n int) {
	for {
		longest := s.longest.Load()
		if int64(n) <= longest || s.longest.CompareAndSwap(longest, int64(n)) {
			return
		}
	}
}

// Drop closes the connection.
func (s *Session) Drop(cause error) {
	s.mu.Lock()
	s.cause = cause
	s.mu.Unlock()
	s.NC.Close()
}

// Why returns the reason for the end of the connection.
func (s *Session) Why() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause != nil {
		return s.cause
	}
	if err := s.NC.LastError(); err != nil {
		return err
	}
	return errors.New("the server has closed the connection")
}

// refused notes an error that the server reports apart from any message. One that answers nothing
// asked of JetStream goes to all listeners.
func (s *Session) refused(err error) {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return
	}
	const most = 1000
	s.mu.Lock()
	s.denials = append(s.denials[max(0, len(s.denials)-most):], denial{time.Now(), err})
	for listener := range s.listeners {
		if !strings.Contains(err.Error(), `"$JS.`) {
			(*listener)(err)
		}
	}
	s.mu.Unlock()
	switch user, secret, unread := s.options.secret(); {
	case strings.Contains(err.Error(), "for Subscription to"):
		// It brings no answers any more, also when that is granted again.
		s.Drop(fmt.Errorf("grant the user the right to subscribe to it: %w", err))
	case unread == nil && (user != s.user || secret != s.secret):
		s.Drop(fmt.Errorf("the login is another one since: %w", err))
	}
}

// OnDenied calls listener with each refused publication until stop is called. It must not block.
func (s *Session) OnDenied(listener func(error)) (stop func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listeners[&listener] = struct{}{}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.listeners, &listener)
	}
}

// API returns a subject of the API of JetStream.
func (s *Session) API(subject string) string { return s.options.API(subject) }

// Denied returns the last refusal since a time that no answer tells: of a request to JetStream for
// one of these, each the beginning of a subject of its API, or all of one with a quotation mark
// behind it; of anything where none is given.
func (s *Session) Denied(since time.Time, whats ...string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range slices.Backward(s.denials) {
		is := func(what string) bool { return strings.Contains(d.err.Error(), `"`+s.API(what)) }
		if !d.at.Before(since) && (len(whats) == 0 || slices.ContainsFunc(whats, is)) {
			return d.err
		}
	}
	return nil
}

// Explained returns why JetStream was not asked for these, as in Denied, where that explains an
// error, else err.
func (s *Session) Explained(err error, whats ...string) error {
	denied := s.Denied(time.Now().Add(-2*RequestTimeout), whats...)
	if err == nil || denied == nil || !errors.Is(err, ErrNoReply) {
		return err
	}
	return fmt.Errorf("grant the user the right to publish on it: %w", denied)
}
