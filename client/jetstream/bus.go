package jetstream

import (
	"cmp"
	"crypto/tls"
	"errors"

	"github.com/nats-io/nats.go"

	"example.org/bridge/client"
	"example.org/bridge/client/jetstream/server"
)

// Options say how to reach NATS.
type Options struct {
	// URLs are servers of one cluster: nats://host:4222, tls://host:4222. A URL may hold
	// user:password or a token. Required, but with InProcess.
	URLs []string
	// InProcess makes connections to a server inside this process. Optional.
	InProcess nats.InProcessConnProvider
	// Name is that of the connections. Defaults to "bridge-client".
	Name string
	// Stream is the JetStream stream to read. Empty: all whose subjects overlap with those of
	// client.Options.
	Stream string
	// Password returns a user and a password, Creds credentials as in a .creds file, NkeySeed the
	// seed of an nkey user. At most one is set; it is called at each connect.
	Password        func() (user, password string, err error)
	Creds, NkeySeed func() (string, error)
	// TLS returns the configuration of encrypted connections. Nil leaves it to the URL's scheme
	// and to the server.
	TLS func() (*tls.Config, error)
}

// Bus is a NATS server or cluster with JetStream.
type Bus struct{ o Options }

var _ client.Bus = (*Bus)(nil)

// New returns a bus. It does not touch the network.
func New(o Options) (*Bus, error) {
	if len(o.URLs) == 0 && o.InProcess == nil {
		return nil, errors.New("client/jetstream: Options.URLs is empty: set it to nats://host:4222")
	}
	o.Name = cmp.Or(o.Name, "bridge-client")
	return &Bus{o}, nil
}

// Open implements client.Bus.
func (b *Bus) Open(o client.Opening) (client.Reader, error) {
	return server.Open(*b.options(o.Destinations), o.Fault)
}

func (b *Bus) options(subjects []string) *server.Options {
	return &server.Options{
		URLs: b.o.URLs, InProcess: b.o.InProcess, Name: b.o.Name, Stream: b.o.Stream, Readable: subjects,
		Password: b.o.Password, Creds: b.o.Creds, NkeySeed: b.o.NkeySeed, TLS: b.o.TLS,
	}
}
