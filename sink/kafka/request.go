package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"example.org/bridge/client/kafka/broker"
	"example.org/bridge/sink"
)

// Requester sends requests to the brokers of a configuration, over connections of its own. It is
// for what is no publishing and no reading, and safe for concurrent use.
type Requester struct {
	cluster *broker.Cluster
	end     context.CancelCauseFunc
}

// NewRequester returns a Requester for Brokers, ClientID, TLS and SASL of o. It connects at the
// first request.
func NewRequester(o Options) (*Requester, error) {
	if err := o.fill(); err != nil {
		return nil, err
	}
	life, end := context.WithCancelCause(context.Background())
	return &Requester{cluster: broker.NewCluster(life, &o.Connection), end: end}, nil
}

// Send sends a request to the coordinator of a group, in its version at most, and returns the
// answer within 15 s. Behind an error the next request looks for the brokers again.
func (r *Requester) Send(ctx context.Context, group string, req kmsg.Request) (kmsg.Response, error) {
	res, generation, err := broker.Send[kmsg.Response](ctx, r.cluster, broker.ToGroup{Request: r.cluster.Request(req), ID: group})
	if err != nil {
		r.cluster.Renew(generation)
	}
	return res, err
}

// Close drops all connections.
func (r *Requester) Close() error {
	r.end(sink.ErrClosed)
	r.cluster.Close()
	return nil
}
