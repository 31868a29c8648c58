package kafka

import (
	"context"

	"github.com/segmentio/kafka-go/protocol"

	"bridge/sink"
)

// Requester sends requests to the brokers of a configuration, over connections of its own. It is
// for what is no publishing and no reading, and safe for concurrent use.
type Requester struct {
	cluster *cluster
	end     context.CancelCauseFunc
}

// NewRequester returns a Requester for Brokers, ClientID, TLS and SASL of o. It connects at the
// first request.
func NewRequester(o Options) (*Requester, error) {
	if err := o.fill(); err != nil {
		return nil, err
	}
	life, end := context.WithCancelCause(context.Background())
	return &Requester{cluster: newCluster(life, &o), end: end}, nil
}

// RoundTrip sends a request to the broker that it belongs to, and returns the answer within 15 s.
// Behind an error the next request looks for the brokers again.
func (r *Requester) RoundTrip(ctx context.Context, req protocol.Message) (protocol.Message, error) {
	res, generation, err := r.cluster.roundTrip(ctx, req)
	if err != nil {
		r.cluster.renew(generation)
	}
	return res, err
}

// Addr returns the brokers as they were configured.
func (r *Requester) Addr() string { return r.cluster.addr.String() }

// Close drops all connections.
func (r *Requester) Close() error {
	r.end(sink.ErrClosed)
	r.cluster.close()
	return nil
}
