package jetstream

import (
	"context"

	"github.com/nats-io/nats.go"
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
