package jetstream

import (
	"context"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

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
