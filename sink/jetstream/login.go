package jetstream

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"example.org/bridge/internal/natskv"
	"example.org/bridge/internal/option"
	"example.org/bridge/sink"
)

const (
	connectTimeout = 5 * time.Second
	// A peer that does not answer is noticed after pingEvery × 2.
	pingEvery    = 4 * time.Second
	writeTimeout = 5 * time.Second
)

// login collects what is needed for one connection: it reads every file and calls every function of
// o afresh.
func (o *Options) login() ([]nats.Option, error) {
	options := []nats.Option{
		nats.Name(o.Name),
		// A connection is never taken up again: what its buffers still hold must not follow what is
		// sent again.
		nats.NoReconnect(),
		nats.Timeout(connectTimeout), nats.PingInterval(pingEvery), nats.MaxPingsOutstanding(1), nats.FlusherTimeout(writeTimeout),
	}
	if o.InProcess != nil {
		return append(options, nats.InProcessServer(o.InProcess)), nil
	}
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
	user, err := o.user()
	if err != nil {
		return nil, err
	}
	return append(options, user...), nil
}

func (o *Options) user() ([]nats.Option, error) {
	switch {
	case o.Password != nil:
		user, password, err := o.Password()
		if err != nil {
			return nil, err
		}
		return []nats.Option{nats.UserInfo(user, password)}, nil
	case o.Creds != nil:
		creds, err := o.Creds()
		if err != nil {
			return nil, err
		}
		return []nats.Option{nats.UserCredentialBytes([]byte(creds))}, nil
	case o.NkeySeed != nil:
		seed, err := o.NkeySeed()
		if err != nil {
			return nil, err
		}
		return nkeyUser(seed)
	}
	return o.userInURL(), nil
}

// nkeyUser signs the server's challenges with the key of a seed.
func nkeyUser(seed string) ([]nats.Option, error) {
	key, err := nkeys.ParseDecoratedNKey([]byte(seed))
	if err != nil {
		return nil, fmt.Errorf("read the nkey seed: %w", err)
	}
	public, err := key.PublicKey()
	if err != nil {
		return nil, fmt.Errorf("read the nkey seed: %w", err)
	}
	return []nats.Option{nats.Nkey(public, key.Sign)}, nil
}

// userInURL takes the login from the first URL that has one.
func (o *Options) userInURL() []nats.Option {
	for _, s := range o.URLs {
		u, err := url.Parse(s)
		if err != nil || u.User == nil {
			continue
		}
		if password, ok := u.User.Password(); ok {
			return []nats.Option{nats.UserInfo(u.User.Username(), password)}
		}
		return []nats.Option{nats.Token(u.User.Username())}
	}
	return nil
}

// bare returns the URLs without a login, so that no error of the library can hold one.
func bare(urls []string) []string {
	var plain []string
	for _, s := range urls {
		if u, err := url.Parse(s); err == nil {
			u.User = nil
			plain = append(plain, u.String())
		}
	}
	return plain
}

// dial connects to one of servers.
func dial(ctx context.Context, servers []string, options []nats.Option) (*nats.Conn, error) {
	d := &dialer{ctx: ctx}
	defer d.closeRest()
	nc, err := nats.Connect(strings.Join(servers, ","), append(slices.Clone(options), nats.SetCustomDialer(d))...)
	if err != nil && d.err != nil && errors.Is(err, nats.ErrNoServers) {
		err = d.err
	}
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", strings.Join(servers, ", "), err)
	}
	return nc, nil
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

// Options configure a sink. Only URLs or InProcess is required.
type Options struct {
	// URLs are servers of one cluster: nats://host:4222, tls://host:4222. A URL may hold
	// user:password or a token.
	URLs []string
	// InProcess makes connections to a server inside this process; URLs are then not used.
	// Optional.
	InProcess nats.InProcessConnProvider
	// Name is that of the connection. Defaults to "bridge".
	Name string
	// Stream is the JetStream stream that takes every message. Empty: each message goes to the
	// stream that takes its destination as a subject.
	Stream string
	// CreateStream has Stream created with Subjects and Keeps when it is missing. An existing
	// stream is used as it is.
	CreateStream bool
	// Keeps says how a stream that is created keeps messages. Inspect compares it with one that is
	// there.
	Keeps Keeping
	// Bucket has Stream and Subjects be those of a KV bucket, of which Keeps.Replicas counts.
	Bucket string
	// Subjects are those of a stream that is created; wildcards are fine.
	Subjects []string
	// Published are the subjects that messages will have, as exactly as that is known; wildcards
	// are fine. Inspect looks for the streams that take them. Defaults to Subjects.
	Published []string
	// Readable are the subjects that Read reads: those of Published, and others that were
	// published to once. Defaults to Published.
	Readable []string

	// Origin is what the messages are of. Inspect looks for events of other domains that may have
	// the same ids. Optional.
	Origin Origin

	// Claim is a subject of Stream for the claims of processes that publish there. With it the sink
	// is a [sink.Transactional]: it publishes in atomic batches, which need nats-server 2.15 and a
	// stream with allow_atomic, and the process that has claimed the stream last is the one that
	// publishes. It needs Stream. A stream that is created takes Claim, too. Optional.
	Claim string

	// Password returns a user and a password. It is called at each connect and replaces
	// what the URLs hold.
	Password func() (user, password string, err error)
	// Creds returns credentials (JWT and seed, as in a .creds file), NkeySeed the seed of an nkey
	// user. They are called at each connect.
	Creds, NkeySeed func() (string, error)
	// TLS returns the configuration of encrypted connections. It is called at each connect, so that
	// renewed certificates are taken up. Nil leaves it to the URL's scheme and to the server
	// whether the connection is encrypted.
	TLS func() (*tls.Config, error)
	// HandshakeFirst says that connections begin with TLS, for servers with handshake_first.
	HandshakeFirst bool
	// JetStreamDomain is the domain of JetStream that has the streams. Defaults to that of the
	// servers.
	JetStreamDomain string

	// Window bounds the messages on the way to one stream without an acknowledgement. Defaults to
	// 1000.
	Window int
	// WindowBytes bounds their size; a single message may be larger. Defaults to 8 MiB.
	WindowBytes int

	// GiveUpAfter bounds how long TPs and Read wait for servers that do not answer, or for messages
	// before an end that was given; that no server could ever be reached is then an error at once.
	// Zero means for ever.
	GiveUpAfter time.Duration

	// Logger defaults to one that discards.
	Logger *slog.Logger
	// Fault is called for every transient fault; its TP is "nats" or the stream. Optional.
	Fault sink.Fault
	// Session is called with a stream when sending to it begins over a new connection, goes on
	// after a fault, or finds that it was created again: another server, or one that was restarted,
	// may have other messages. It must not block. Optional.
	Session func(stream string)

	// renewEvery is how often it is looked whether retention may soon remove the claim: for tests.
	renewEvery time.Duration
}

// Origin is what messages are of: a domain, and some streams of bridge.
type Origin struct {
	Domain  string
	Streams []string
}

// withDefaults checks o and fills in what is not set. An error names no secret.
func (o Options) withDefaults() (Options, error) {
	if o.InProcess != nil {
		// The library wants one all the same; it stands in errors and findings.
		o.URLs = []string{"nats://in-process"}
	}
	if o.Bucket != "" {
		o.Stream, o.Subjects = natskv.Stream(o.Bucket), []string{natskv.Subjects(o.Bucket)}
	}
	if err := errors.Join(o.checkURLs(), o.checkLogin(), o.checkStream()); err != nil {
		return o, err
	}
	o.Name = cmp.Or(o.Name, "bridge")
	o.Window = cmp.Or(max(o.Window, 0), 1000)
	o.WindowBytes = cmp.Or(max(o.WindowBytes, 0), 8<<20)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.renewEvery = cmp.Or(o.renewEvery, renewEvery)
	if o.Published == nil {
		o.Published = o.Subjects
	}
	if o.Claim != "" && !covered(o.Subjects, o.Claim) {
		o.Subjects = append(slices.Clone(o.Subjects), o.Claim)
	}
	if o.Readable == nil {
		o.Readable = o.Published
	}
	if o.Fault == nil {
		o.Fault = func(string, error) {}
	}
	if o.Session == nil {
		o.Session = func(string) {}
	}
	return o, nil
}

func (o Options) checkURLs() error {
	if len(o.URLs) == 0 && o.InProcess == nil {
		return errors.New("no URL of a NATS server")
	}
	for i, s := range o.URLs {
		u, err := url.Parse(s)
		if err != nil || u.Host == "" {
			return fmt.Errorf("URL %d of the NATS servers is not of the form nats://host:4222", i+1)
		}
		switch u.Scheme {
		case "nats", "tls", "ws", "wss":
		default:
			return fmt.Errorf("URL %d of the NATS servers has the scheme %q, want nats or tls", i+1, u.Scheme)
		}
	}
	return nil
}

func (o Options) checkLogin() error {
	n := 0
	for _, set := range []bool{o.Password != nil, o.Creds != nil, o.NkeySeed != nil} {
		if set {
			n++
		}
	}
	if n > 1 {
		return errors.New("password, credentials file and nkey seed exclude one another")
	}
	return nil
}

func (o Options) checkStream() error {
	if o.CreateStream && (o.Stream == "" || len(o.Subjects) == 0) {
		return errors.New("a stream can only be created with a name and subjects")
	}
	switch {
	case o.Claim == "":
	case o.Stream == "":
		return errors.New("exactly-once on JetStream needs the name of the stream that takes all messages")
	case covered(o.Published, o.Claim):
		return option.Errorf("the claim subject %s is one that events have: set %s to another one", o.Claim, option.NATSClaimSubject)
	case !validSubject(o.Claim):
		return fmt.Errorf("invalid NATS subject %q for claims: use tokens without blanks and wildcards", o.Claim)
	}
	return nil
}
