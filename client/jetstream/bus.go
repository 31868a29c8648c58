package jetstream

import (
	"cmp"
	"errors"

	"example.org/bridge/client"
	"example.org/bridge/client/jetstream/server"
)

// Options say how to reach NATS. URLs or InProcess is required. Name defaults to "bridge-client".
// Readable is not used: subjects are those of client.Options.
type Options = server.Options

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
	o := b.o
	o.Readable = subjects
	return &o
}
