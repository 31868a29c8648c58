package server

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Options say how to reach NATS, and what to read there. Only URLs or InProcess is required.
type Options struct {
	// URLs are servers of one cluster: nats://host:4222, tls://host:4222. A URL may hold
	// user:password or a token.
	URLs []string
	// InProcess makes connections to a server inside this process; URLs are then [InProcessURLs].
	InProcess nats.InProcessConnProvider
	// Name is the name of the connection.
	Name string
	// Stream is the JetStream stream to read. Empty: those whose subjects overlap with what
	// [Reader.TPs] is asked for.
	Stream string
	// Readable are the subjects that [Reader.Read] reads; wildcards are fine. Empty: all.
	Readable []string
	// Password returns a user and a password, or a token without a user. It is called at each
	// connect and replaces what the URLs hold.
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
	// GiveUpAfter bounds how long TPs and Read wait for servers that do not answer, or for messages
	// before an end that was given; that no server could ever be reached is then an error at once.
	// Zero means for ever.
	GiveUpAfter time.Duration
}

// InProcessURLs stand in errors for a server inside this process.
var InProcessURLs = []string{"nats://in-process"}

// Check sets the URLs of a server inside this process and returns all that is wrong with o. An
// error names no secret.
func (o *Options) Check() (errs []error) {
	if o.InProcess != nil {
		o.URLs = InProcessURLs
	}
	wrong := func(is bool, err error) {
		if is {
			errs = append(errs, err)
		}
	}
	wrong(len(o.URLs) == 0, errors.New("no URL of a NATS server"))
	for i, s := range o.URLs {
		u, err := url.Parse(s)
		if err != nil || u.Host == "" {
			errs = append(errs, fmt.Errorf("URL %d of the NATS servers is not of the form nats://host:4222", i+1))
			continue
		}
		wrong(!slices.Contains([]string{"nats", "tls", "ws", "wss"}, u.Scheme),
			fmt.Errorf("URL %d of the NATS servers has the scheme %q, want nats or tls", i+1, u.Scheme))
	}
	logins := slices.DeleteFunc([]bool{o.Password != nil, o.Creds != nil, o.NkeySeed != nil}, func(set bool) bool { return !set })
	wrong(len(logins) > 1, errors.New("password, credentials file and nkey seed exclude one another"))
	return errs
}

// New returns the JetStream interface of a connection by o.
func (o *Options) New(nc *nats.Conn, more ...jetstream.JetStreamOpt) (jetstream.JetStream, error) {
	if o.JetStreamDomain == "" {
		return jetstream.New(nc, more...)
	}
	return jetstream.NewWithDomain(nc, o.JetStreamDomain, more...)
}

// API returns a subject of the API of JetStream.
func (o *Options) API(subject string) string {
	if o.JetStreamDomain == "" {
		return "$JS.API." + subject
	}
	return "$JS." + o.JetStreamDomain + ".API." + subject
}

// Error codes of JetStream that end when somebody increases a limit.
const (
	codeAccountFull  = 10002
	codeServersFull  = 10023
	codeMaxConsumers = 10026
	codeMaxStreams   = 10027
	codeStorageFull  = 10047
)

// Advised adds to a refusal of JetStream what to do about it, where that is known.
func Advised(err error) error {
	refused, ok := errors.AsType[*jetstream.APIError](err)
	if !ok {
		return err
	}
	return AdvisedCode(int(refused.ErrorCode), err)
}

// AdvisedCode is Advised for an error with a code.
func AdvisedCode(code int, err error) error {
	switch code {
	case codeAccountFull, codeServersFull, codeStorageFull:
		return fmt.Errorf("%w: the storage of the account or of the servers is used up: increase its limit, or remove messages", err)
	case codeMaxConsumers:
		return fmt.Errorf("%w: bridge reads by consumers: increase max_consumers of the stream or of the account, or remove consumers", err)
	case codeMaxStreams:
		return fmt.Errorf("%w: increase the number of streams of the account, or remove streams", err)
	}
	return err
}
