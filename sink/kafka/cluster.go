package kafka

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/twmb/franz-go/pkg/kmsg"

	"example.org/bridge/sink"
)

const (
	// answerWithin bounds one request from the first byte to the answer, connecting included.
	answerWithin = 15 * time.Second
	// produceTimeout is how long the leader waits for its replicas; the answer must come before the
	// client gives up.
	produceTimeout = 10 * time.Second
	// connectWithin bounds connecting, TLS and the first answers included, but for a login: what is
	// wrong with an address is known within 5 s.
	connectWithin = 4 * time.Second
	// layoutAge is how old the transport lets its view of the cluster become at most.
	layoutAge = 5 * time.Second
	// renewEvery keeps workers that fail one after another from dropping the connections of all
	// others again and again.
	renewEvery = 100 * time.Millisecond
)

var errNoAnswer = fmt.Errorf("no answer within %v", answerWithin)

// cluster sends requests to brokers. It wraps a kafka-go transport, which keeps connections and
// knows the leaders, and replaces it when that knowledge is found to be old: kafka-go refreshes it
// by time only (segmentio/kafka-go#1221).
type cluster struct {
	options *Options
	addr    net.Addr
	// life ends with the sink.
	life context.Context

	mu         sync.Mutex
	transport  *kafkago.Transport
	generation int
	renewed    time.Time
	// renewAt is when the first of the sessions is about to end, zero where none does.
	renewAt time.Time
	// refusal is how the last refused login was answered, at refusedAt.
	refusal   error
	refusedAt time.Time

	topics []string
	conns  map[*conn]struct{}
}

func newCluster(life context.Context, opts *Options) *cluster {
	c := &cluster{
		options: opts, addr: kafkago.TCP(opts.Brokers...), life: life,
		// Not nil, which would mean all topics of the cluster.
		topics: []string{}, conns: make(map[*conn]struct{}),
	}
	c.transport = c.newTransport()
	return c
}

// newTransport allocates a transport that knows the leaders of c.topics.
func (c *cluster) newTransport() *kafkago.Transport {
	return &kafkago.Transport{
		Dial:           c.dial,
		DialTimeout:    answerWithin,
		MetadataTTL:    layoutAge,
		MetadataTopics: slices.Clone(c.topics),
		ClientID:       c.options.ClientID,
		Context:        c.life,
	}
}

// roundTrip sends a request to the broker it belongs to. It also returns the generation of the view
// of the cluster that it went by. A cancelled request may still be read from memory by the
// transport, and may still reach the broker.
func (c *cluster) roundTrip(ctx context.Context, req protocol.Message) (protocol.Message, int, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, answerWithin, errNoAnswer)
	defer cancel()
	transport, generation := c.current()
	res, err := transport.RoundTrip(ctx, c.addr, req)
	return res, generation, c.understood(ctx, err)
}

// understood returns the error of a request with what is known of its cause.
func (c *cluster) understood(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil && c.options.SASL != nil {
		err = c.options.SASL.explain(err)
	}
	return err
}

// current returns the transport. Before a session ends it is a new one: a request that meets the
// end is a fault, and may leave the outcome of a transaction unknown.
func (c *cluster) current() (*kafkago.Transport, int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.renewAt.IsZero() && time.Now().After(c.renewAt) {
		c.replace()
	}
	return c.transport, c.generation
}

// lasts has the connections replaced when four fifths of a session are over.
func (c *cluster) lasts(lifetime time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := time.Now().Add(max(lifetime*4/5, shortestSession)); c.renewAt.IsZero() || at.Before(c.renewAt) {
		c.renewAt = at
	}
}

// renew drops the view of the cluster, and all connections once they are idle, unless somebody did
// so since generation.
func (c *cluster) renew(generation int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if generation == c.generation && time.Since(c.renewed) >= renewEvery {
		c.replace()
	}
}

// follow has the view of the cluster include topics.
func (c *cluster) follow(topics []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := len(c.topics)
	for _, topic := range topics {
		if i, found := slices.BinarySearch(c.topics, topic); !found {
			c.topics = slices.Insert(c.topics, i, topic)
		}
	}
	if len(c.topics) > known {
		c.replace()
	}
}

func (c *cluster) replace() {
	old := c.transport
	c.transport = c.newTransport()
	c.generation++
	c.renewed, c.renewAt = time.Now(), time.Time{}
	old.CloseIdleConnections()
}

// close drops all connections, also those in use.
func (c *cluster) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.transport.CloseIdleConnections()
	for conn := range c.conns {
		// A connection that breaks while being closed is as good as closed.
		_ = conn.Conn.Close()
	}
}

// Dialer returns what connects kafka-go's own clients, by TLS and SASL of the options. Close drops
// these connections, too.
func (s *Sink) Dialer() *kafkago.Dialer {
	return &kafkago.Dialer{ClientID: s.options.ClientID, Timeout: answerWithin, DialFunc: s.cluster.dial}
}

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

// Send sends a request to the coordinator of a group, in its version at most, and returns the
// answer within 15 s. Behind an error the next request looks for the brokers again.
func (r *Requester) Send(ctx context.Context, group string, req kmsg.Request) (kmsg.Response, error) {
	res, generation, err := send[kmsg.Response](ctx, r.cluster, toGroup{r.cluster.request(req), group})
	if err != nil {
		r.cluster.renew(generation)
	}
	return res, err
}

// Close drops all connections.
func (r *Requester) Close() error {
	r.end(sink.ErrClosed)
	r.cluster.close()
	return nil
}
