package jetstream

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"example.org/bridge/client/jetstream/server"
	"example.org/bridge/internal/natskv"
	"example.org/bridge/internal/option"
	"example.org/bridge/sink"
)

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
	if o.Bucket != "" {
		o.Stream, o.Subjects = natskv.Stream(o.Bucket), []string{natskv.Subjects(o.Bucket)}
	}
	if o.InProcess != nil {
		o.URLs = server.InProcessURLs
	}
	if err := o.check(); err != nil {
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

// check returns all that is wrong with o.
func (o Options) check() error {
	errs := o.server().Check()
	wrong := func(is bool, err error) {
		if is {
			errs = append(errs, err)
		}
	}
	wrong(o.CreateStream && (o.Stream == "" || len(o.Subjects) == 0), errors.New("a stream can only be created with a name and subjects"))
	if o.Claim != "" {
		wrong(o.Stream == "", errors.New("exactly-once on JetStream needs the name of the stream that takes all messages"))
		wrong(covered(o.Published, o.Claim),
			option.Errorf("the claim subject %s is one that events have: set %s to another one", o.Claim, option.NATSClaimSubject))
		wrong(!validSubject(o.Claim), fmt.Errorf("invalid NATS subject %q for claims: use tokens without blanks and wildcards", o.Claim))
	}
	return errors.Join(errs...)
}

// server returns the options of the connection and of reading.
func (o *Options) server() *server.Options {
	return &server.Options{
		URLs: o.URLs, InProcess: o.InProcess, Name: o.Name, Stream: o.Stream, Readable: o.Readable, Password: o.Password, Creds: o.Creds, NkeySeed: o.NkeySeed,
		TLS: o.TLS, HandshakeFirst: o.HandshakeFirst, JetStreamDomain: o.JetStreamDomain, GiveUpAfter: o.GiveUpAfter,
	}
}

// New returns the JetStream interface of a connection by o.
func (o *Options) New(nc *nats.Conn) (jetstream.JetStream, error) { return o.server().New(nc) }
