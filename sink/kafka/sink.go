package kafka

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"example.org/bridge/client/bus"
	"example.org/bridge/client/kafka/broker"
	"example.org/bridge/internal/option"
	"example.org/bridge/internal/outage"
	"example.org/bridge/sink"
)

const readyWithin = 3 * time.Second

// Sink publishes to a Kafka cluster.
type Sink struct {
	*broker.Reader

	options   Options
	cluster   *broker.Cluster
	producers *producers
	codec     codec
	outages   *outage.Log
	faults    *faults
	// transactions is nil without them.
	transactions *transactions

	// life ends with Close.
	life  context.Context
	close context.CancelCauseFunc

	// calls numbers the calls that wait for topics, configuring is held by the one that asks for
	// their configuration.
	calls       atomic.Uint64
	configuring chan struct{}

	// mu is locked by workers that hold their own mutex.
	mu      sync.Mutex
	topics  map[string]*topic
	workers map[string]*worker
	closed  bool
	// asking is the next request for the configuration of topics.
	asking *asking
	// drains counts the goroutines of the workers; none begins once closed is set.
	drains sync.WaitGroup
}

var (
	_ sink.Transactional = (*Sink)(nil)
	_ sink.Reader        = (*Sink)(nil)
)

// Open returns a sink. It does not touch the network: a cluster that cannot be reached is waited
// for by Publish.
func Open(opts Options) (*Sink, error) {
	if err := opts.fill(); err != nil {
		return nil, err
	}
	codec, err := newCodec(opts.Compression)
	if err != nil {
		return nil, err
	}
	s := &Sink{options: opts, codec: codec, configuring: make(chan struct{}, 1), outages: outage.New(opts.Logger), topics: make(map[string]*topic), workers: make(map[string]*worker)}
	s.life, s.close = context.WithCancelCause(context.Background())
	s.cluster = broker.NewCluster(s.life, &s.options.Connection)
	s.producers = &producers{cluster: s.cluster}
	s.faults = &faults{log: s.outages, hook: opts.Fault, scopeOf: make(map[string]string), waiting: make(map[string]int)}
	s.Reader = s.cluster.NewReader(s.faults)
	if opts.TransactionalID != "" {
		s.codec.id |= transactionalIs
		s.transactions = newTransactions(s, &opts)
	}
	s.cluster.Follow(opts.Topics)
	return s, nil
}

// Publish implements [sink.Sink]. The messages of one topic and key go to one partition in their
// order; those of a partition that follow a rejected one are left pending. With
// [Options.TransactionalID] a batch is published as [sink.Transactional] says.
func (s *Sink) Publish(ctx context.Context, batch []sink.Message) (sink.Outcome, error) {
	ctx, cancel := s.within(ctx)
	defer cancel()
	if s.transactions != nil {
		return s.transactions.publish(ctx, batch)
	}
	c := newCall(batch)
	rejected, pending := s.screen(c)
	for len(pending) > 0 {
		if err := context.Cause(ctx); err != nil {
			return c.outcome(rejected), err
		}
		runs, err := s.assign(ctx, c, pending)
		if err != nil {
			return c.outcome(rejected), err
		}
		c.portions = append(c.portions, runs...)
		c.done = make(chan struct{})
		c.open.Store(int64(len(runs)))
		for _, r := range runs {
			r.worker.enqueue(r)
		}
		select {
		case <-c.done:
		case <-ctx.Done():
			c.leave()
			return c.outcome(rejected), context.Cause(ctx)
		}
		pending = nil
		for _, r := range c.portions {
			if r.moved {
				pending = append(pending, r.index[r.next:]...)
				r.moved = false
			}
		}
		slices.Sort(pending)
	}
	return c.outcome(rejected), nil
}

// Fence implements [sink.Transactional]. Without [Options.TransactionalID] it does nothing.
func (s *Sink) Fence(ctx context.Context) error {
	ctx, cancel := s.within(ctx)
	defer cancel()
	if s.transactions == nil {
		return context.Cause(ctx)
	}
	return s.transactions.fence(ctx)
}

func (s *Sink) within(ctx context.Context) (context.Context, context.CancelFunc) {
	life := s.life
	if s.transactions != nil {
		life = s.transactions.life
	}
	return bus.Within(ctx, life)
}

// screen rejects messages for topics that cannot exist and returns the indices of all others.
func (s *Sink) screen(c *call) (rejected []sink.Rejection, pending []int) {
	pending = make([]int, 0, len(c.batch))
	var name string
	var fault error
	for i := range c.batch {
		if d := c.batch[i].Destination; i == 0 || d != name {
			name, fault = d, bus.CheckTopic(d)
		}
		if fault != nil {
			c.status[i] = sink.Rejected
			rejected = append(rejected, sink.Rejection{Index: i, Reason: fault.Error()})
			continue
		}
		pending = append(pending, i)
	}
	return rejected, pending
}

// assign groups messages by the workers that they go to, waiting for topics that do not exist.
func (s *Sink) assign(ctx context.Context, c *call, pending []int) ([]*portion, error) {
	names := make(map[string]struct{}, 1)
	for _, i := range pending {
		names[c.batch[i].Destination] = struct{}{}
	}
	routes, err := s.resolve(ctx, slices.Collect(maps.Keys(names)))
	if err != nil {
		return nil, err
	}
	byWorker := make(map[*worker]*portion)
	var runs []*portion
	for _, i := range pending {
		m := &c.batch[i]
		route := routes[m.Destination]
		worker := route.worker(m)
		r := byWorker[worker]
		if r == nil {
			r = &portion{call: c, worker: worker, incarnation: route.id}
			ref, tp := sink.TPRef{Name: worker.tp, Incarnation: route.id}, -1
			if len(c.portions) > 0 {
				// Only messages that moved may meet one again.
				tp = slices.Index(c.tps, ref)
			}
			if tp < 0 {
				tp, c.tps = len(c.tps), append(c.tps, ref)
			}
			r.tp = int32(tp)
			byWorker[worker] = r
			runs = append(runs, r)
			m.First = true
		}
		r.index = append(r.index, i)
	}
	return runs, nil
}

// begin counts a goroutine of a worker; false if the sink is closed.
func (s *Sink) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.drains.Add(1)
	}
	return !s.closed
}

// Ready implements [sink.Sink]. It asks a broker for the topics, so that an outage begins, and
// ends, though nobody publishes: it names the topics that are missing or may not be seen.
func (s *Sink) Ready(ctx context.Context) error {
	asking, cancel := context.WithTimeoutCause(ctx, readyWithin, option.Errorf(
		"no broker answers within %v (%s): see that Kafka listens there, that firewalls let this host in, and %s", readyWithin, s.cluster.Addr, option.SinkURL))
	defer cancel()
	s.mu.Lock()
	used := slices.AppendSeq(slices.Clone(s.options.Topics), maps.Keys(s.topics))
	s.mu.Unlock()
	slices.Sort(used)
	const who = "ready "
	err := s.describe(asking, who, slices.Compact(used))
	switch {
	case s.life.Err() != nil:
		return sink.ErrClosed
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil && asking.Err() != nil:
		s.faults.Fail(who, broker.Everywhere, err)
	}
	return s.outages.Err()
}

// Outages returns what is waited out at this moment, also by Read.
func (s *Sink) Outages() []outage.Outage { return s.outages.Outages() }

// Close implements [sink.Sink]. What is in flight may still arrive, but for a transaction: that is
// aborted, where the brokers answer within 2 s.
func (s *Sink) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	if s.transactions != nil {
		s.transactions.close()
	}
	s.close(sink.ErrClosed)
	s.cluster.Close()
	s.drains.Wait()
	s.outages.Close()
	return nil
}

// Requester sends requests to the brokers of a configuration, over connections of its own. It is
// for what is no publishing, and safe for concurrent use.
type Requester struct{ *broker.Reader }

// NewRequester returns a Requester for Brokers, ClientID, TLS and SASL of o. It connects at the
// first request.
func NewRequester(o Options) (*Requester, error) {
	if err := o.fill(); err != nil {
		return nil, err
	}
	r, err := broker.Open(o.Connection, bus.Fault(nil))
	return &Requester{r}, err
}

// Send sends a request to the coordinator of a group, in its version at most, and returns the
// answer within 15 s. Behind an error the next request looks for the brokers again.
func (r *Requester) Send(ctx context.Context, group string, req kmsg.Request) (kmsg.Response, error) {
	res, generation, err := broker.Send[kmsg.Response](ctx, r.Cluster, broker.ToGroup{Request: r.Request(req), ID: group})
	if err != nil {
		r.Renew(generation)
	}
	return res, err
}

// faults turns the faults of many workers into few: what concerns the cluster or a topic begins
// with the first worker that meets it and ends with the last.
type faults struct {
	log  *outage.Log
	hook sink.Fault

	mu sync.Mutex
	// scopeOf has who is held up by what, waiting counts them.
	scopeOf map[string]string
	waiting map[string]int
}

// Fail implements [bus.Faults]: who is held up by a fault of scope, and by no other any more.
func (f *faults) Fail(who, scope string, err error) {
	f.hook.Fail(who, scope, err)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.scopeOf[who] != scope {
		f.end(who, f.log.OK)
		f.scopeOf[who] = scope
		f.waiting[scope]++
	}
	f.log.Fail(scope, err)
}

// OK implements [bus.Faults].
func (f *faults) OK(who string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.end(who, f.log.OK)
}

// Drop implements [bus.Faults].
func (f *faults) Drop(who string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.end(who, f.log.Forget)
}

// endAll is ok, or with gaveUp drop, for all whose names begin with prefix.
func (f *faults) endAll(prefix string, gaveUp bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	how := f.log.OK
	if gaveUp {
		how = f.log.Forget
	}
	for who := range f.scopeOf {
		if strings.HasPrefix(who, prefix) {
			f.end(who, how)
		}
	}
}

func (f *faults) end(who string, how func(tp string)) {
	scope, held := f.scopeOf[who]
	if !held {
		return
	}
	delete(f.scopeOf, who)
	if f.waiting[scope]--; f.waiting[scope] == 0 {
		delete(f.waiting, scope)
		how(scope)
	}
}
