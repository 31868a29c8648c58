package jetstream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"example.org/bridge/client/backoff"
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
	// natsTP stands for a TP in faults of the connection.
	natsTP = "nats"
)

// Connect returns a connection of its own by o, for what is neither publishing nor reading. It is
// never taken up again: once it is lost it stays closed. ctx bounds the attempt.
func Connect(ctx context.Context, o Options, more ...nats.Option) (*nats.Conn, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	return o.dial(ctx, o.URLs, more...)
}

// dial connects to one of servers. It reads every file and calls every function of o afresh.
func (o *Options) dial(ctx context.Context, servers []string, more ...nats.Option) (*nats.Conn, error) {
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
	urls := strings.Join(bare(servers), ",")
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
	switch {
	case o.Password != nil:
		user, password, err := o.Password()
		return append(options, nats.UserInfo(user, password)), err
	case o.Creds != nil:
		creds, err := o.Creds()
		return append(options, nats.UserCredentialBytes([]byte(creds))), err
	case o.NkeySeed != nil:
		seed, err := o.NkeySeed()
		if err != nil {
			return nil, err
		}
		key, err := nkeys.ParseDecoratedNKey([]byte(seed))
		if err != nil {
			return nil, fmt.Errorf("read the nkey seed: %w", err)
		}
		public, err := key.PublicKey()
		return append(options, nats.Nkey(public, key.Sign)), err
	}
	for _, s := range o.URLs {
		u, err := url.Parse(s)
		if err != nil || u.User == nil {
			continue
		}
		if password, ok := u.User.Password(); ok {
			return append(options, nats.UserInfo(u.User.Username(), password)), nil
		}
		return append(options, nats.Token(u.User.Username())), nil
	}
	return options, nil
}

// bare returns the URLs without a login, so that no error of the library can hold one.
func bare(urls []string) (plain []string) {
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

// closeRest lets go of the connections when the attempt is over.
func (d *dialer) closeRest() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, stop := range d.stop {
		stop()
	}
}

// errNotConnected is what Ready says before the first attempt to connect has ended.
var errNotConnected = errors.New("not connected yet")

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

func newConnector(options *Options, faults *faults, connected func()) *connector {
	return &connector{options: options, faults: faults, connected: connected, changed: make(chan struct{}), err: errNotConnected}
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
		// The cluster tells of further servers.
		servers = bare(c.options.URLs)
		for _, known := range s.nc.Servers() {
			if !slices.Contains(servers, known) {
				servers = append(servers, known)
			}
		}
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

func (c *connector) connect(ctx context.Context, servers []string) (*session, error) {
	s := &session{api: c.options.api, gone: make(chan struct{}), wires: make(map[*wire]struct{}), denials: make(map[string]error)}
	s.lines = &lines{taken: shortLine, dial: func(ctx context.Context) (*nats.Conn, error) {
		if !s.alive() {
			return nil, s.why()
		}
		if c.options.InProcess != nil {
			return c.options.dial(ctx, c.options.URLs)
		}
		return c.options.dial(ctx, []string{s.nc.ConnectedUrl()})
	}}
	var err error
	if s.nc, err = c.options.dial(ctx, servers,
		nats.ClosedHandler(func(*nats.Conn) { close(s.gone) }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { s.refused(err) }),
	); err != nil {
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

// session is one connection from its start to its end. It is never taken up again.
type session struct {
	nc *nats.Conn
	js jetstream.JetStream
	// api returns a subject of the API of JetStream.
	api func(subject string) string
	// gone is closed when the connection is lost or closed.
	gone  chan struct{}
	lines *lines

	mu    sync.Mutex
	wires map[*wire]struct{}
	// cause is why the connection was dropped on this side.
	cause error
	// denials are the last refusals of requests to JetStream, which no answer tells, by what was
	// asked for.
	denials map[string]error
}

// What may be denied: to read single messages, to make or read consumers, and anything else.
const (
	getMessages   = ".API.STREAM.MSG.GET"
	getDirect     = ".API.DIRECT.GET"
	readConsumers = ".API.CONSUMER"
	askJetStream  = "$JS."
)

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

// refused notes an error that the server reports apart from any message. One that answers nothing
// asked of JetStream goes to all wires.
func (s *session) refused(err error) {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, what := range []string{readConsumers, getMessages, getDirect, askJetStream} {
		if strings.Contains(err.Error(), what) {
			s.denials[what] = err
			return
		}
	}
	for w := range s.wires {
		select {
		case w.denied <- err:
		default:
		}
	}
}

// deniedBy returns why something may not be asked of JetStream, nil while that is not known.
func (s *session) deniedBy(whats ...string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, what := range whats {
		if err := s.denials[what]; err != nil {
			return err
		}
	}
	return nil
}

// explained returns why JetStream was not asked, where that explains an error, else err.
func (s *session) explained(err error) error {
	denied := s.deniedBy(askJetStream)
	if err == nil || denied == nil || !errors.Is(err, errNoReply) {
		return err
	}
	return fmt.Errorf("grant the user the right to publish on it: %w", denied)
}

// wire is what a publisher uses of a session: an inbox for the answers to what it publishes.
type wire struct {
	*session
	inbox string
	sub   *nats.Subscription
	// acks has room for every answer that can be under way.
	acks chan *nats.Msg
	// denied holds the last refusal that belongs to no answer.
	denied chan error
}

// open subscribes an inbox. room is the number of messages that may wait for an answer.
func (s *session) open(room int) (*wire, error) {
	w := &wire{session: s, inbox: s.nc.NewInbox() + ".", acks: make(chan *nats.Msg, 4*room), denied: make(chan error, 1)}
	var err error
	if w.sub, err = s.nc.ChanSubscribe(w.inbox+"*", w.acks); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wires[w] = struct{}{}
	return w, nil
}

func (w *wire) close() {
	w.mu.Lock()
	delete(w.wires, w)
	w.mu.Unlock()
	// A connection that is gone has taken the subscription with it.
	_ = w.sub.Unsubscribe()
}

// reply is the subject for the answer to the message with this token.
func (w *wire) reply(token uint64) string {
	return string(strconv.AppendUint(append(make([]byte, 0, 48), w.inbox...), token, 10))
}

// token returns the number in the subject of an answer.
func (w *wire) token(subject string) (uint64, bool) {
	if len(subject) <= len(w.inbox) {
		return 0, false
	}
	n, err := strconv.ParseUint(subject[len(w.inbox):], 10, 64)
	return n, err == nil
}
