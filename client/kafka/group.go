package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"example.org/bridge/client"
	"example.org/bridge/client/backoff"
	"example.org/bridge/client/bus"
	"example.org/bridge/client/kafka/broker"
)

const (
	// commitEvery is how often progress is committed: after a kill so much is handed out again.
	commitEvery = time.Second
	// sessionTimeout is after how long the others take over from a process that is gone,
	// heartbeatEvery how soon a process notices that they share the partitions out again.
	sessionTimeout = 10 * time.Second
	heartbeatEvery = time.Second
	// joinPause is between two joins at least, partitionCheck between two looks for topics and
	// partitions, of which each takes lookWithin at most.
	joinPause      = time.Second
	partitionCheck = 10 * time.Second
	lookWithin     = 3 * time.Second
)

// Consume implements client.Bus: by a consumer group whose members share the partitions. It needs
// READ on the group besides what Open needs.
//
// A handler that goes on for more than 30 s after its context has ended may still run while
// another process has the partition.
func (b *Bus) Consume(ctx context.Context, s client.Subscription, each func(context.Context, string, *bus.Stored) error) (err error) {
	reader, err := b.open(s.Opening)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, reader.Close()) }()
	ranges := topics{kafkago.RangeGroupBalancer{}, reader, s.Fault, new(atomic.Pointer[map[string]int])}
	rounds := ranges
	rounds.GroupBalancer = kafkago.RoundRobinGroupBalancer{}
	group, err := kafkago.NewConsumerGroup(kafkago.ConsumerGroupConfig{
		ID: s.Group, Brokers: b.o.Brokers, Dialer: reader.Dialer(), Topics: s.Destinations, StartOffset: kafkago.FirstOffset,
		GroupBalancers: []kafkago.GroupBalancer{ranges, rounds}, HeartbeatInterval: heartbeatEvery, SessionTimeout: sessionTimeout,
		JoinGroupBackoff: joinPause,
	})
	if err != nil {
		return fmt.Errorf("client/kafka: %w", err)
	}
	// It waits for all that the group has started.
	defer func() { err = errors.Join(err, group.Close()) }()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	m := &member{s: s, topics: ranges, each: each, fail: fail}
	for {
		generation, err := group.Next(ctx)
		switch {
		case ctx.Err() != nil:
			failed, _ := errors.AsType[handlerError](context.Cause(ctx))
			return failed.error
		case err != nil:
			// The group tries again by itself.
			s.Fault.Fail("", "group "+s.Group, fmt.Errorf("consumer group %s: %w", s.Group, err))
		default:
			s.Joined()
			m.serve(ctx, generation)
		}
	}
}

// handlerError is why Consume ends.
type handlerError struct{ error }

// member is this process in the group. fail ends Consume.
type member struct {
	topics
	s    client.Subscription
	each func(context.Context, string, *bus.Stored) error
	fail context.CancelCauseFunc
}

// serve begins to consume what a generation assigns. Its functions end with the generation.
func (m *member) serve(ctx context.Context, generation *kafkago.Generation) {
	var all []*partition
	for topic, assigned := range generation.Assignments {
		for _, a := range assigned {
			p := &partition{member: m, topic: topic, id: a.ID, tp: fmt.Sprintf("%s/%d", topic, a.ID), committed: a.Offset}
			p.handled.Store(a.Offset)
			all = append(all, p)
			generation.Start(func(ended context.Context) {
				ctx, cancel := bus.Within(ctx, ended)
				defer cancel()
				p.consume(ctx)
				p.commit(generation)
				// The generation ends with the first of its functions.
				<-ctx.Done()
			})
		}
	}
	generation.Start(func(ended context.Context) {
		within, cancel := bus.Within(ctx, ended)
		defer cancel()
		m.watch(within, ctx, m.s.Destinations)
	})
	generation.Start(func(ended context.Context) {
		ctx, cancel := bus.Within(ctx, ended)
		defer cancel()
		for backoff.Pause(ctx, commitEvery) == nil {
			for _, p := range all {
				p.commit(generation)
			}
		}
	})
}

type partition struct {
	*member
	topic string
	id    int
	tp    string
	// handled is the offset of the first message that is not handled; negative: the first of all.
	handled atomic.Int64

	commits   sync.Mutex
	committed int64
}

func (p *partition) consume(ctx context.Context) {
	var pause backoff.Backoff
	for ctx.Err() == nil {
		from := p.handled.Load()
		err := p.from(ctx)
		if ctx.Err() != nil {
			return
		}
		if p.handled.Load() > from {
			pause.Reset()
		}
		if err != nil {
			p.s.Fault.Fail("", p.tp, err)
		}
		if pause.Wait(ctx) != nil {
			return
		}
	}
}

func (p *partition) from(ctx context.Context) error {
	if p.handled.Load() < 0 {
		tps, err := p.reader.TPs(ctx, []string{p.topic})
		if err != nil {
			return err
		}
		at := slices.IndexFunc(tps, func(tp bus.TP) bool { return tp.Name == p.tp })
		if at < 0 {
			return fmt.Errorf("read %s: %w", p.tp, bus.ErrGone)
		}
		p.handled.Store(int64(tps[at].First))
	}
	refused := false
	next, err := p.reader.Read(ctx, bus.Span{TP: p.tp, From: uint64(p.handled.Load()), To: bus.NoEnd}, func(m *bus.Stored) error {
		if err := p.each(ctx, p.tp, m); err != nil {
			refused = true
			return err
		}
		p.handled.Store(int64(m.Offset) + 1)
		return nil
	})
	if refused {
		if ctx.Err() == nil {
			p.fail(handlerError{err})
		}
		return err
	}
	if int64(next) > p.handled.Load() {
		p.handled.Store(int64(next))
	}
	var expired *bus.ExpiredError
	switch {
	case errors.As(err, &expired):
		p.s.Expired(p.tp, err)
		p.handled.Store(int64(expired.First))
		return nil
	case errors.Is(err, bus.ErrBehind), errors.Is(err, bus.ErrGone):
		p.s.Expired(p.tp, err)
		p.handled.Store(kafkago.FirstOffset)
	}
	return err
}

// commit commits progress. What fails is committed later, or handed out again.
func (p *partition) commit(generation *kafkago.Generation) {
	p.commits.Lock()
	defer p.commits.Unlock()
	handled := p.handled.Load()
	if handled < 0 || handled == p.committed {
		return
	}
	if err := generation.CommitOffsets(map[string]map[int]int64{p.topic: {p.id: handled}}); err != nil {
		p.s.Fault.Fail("", p.tp, fmt.Errorf("commit offset %d of %s: %w", handled, p.tp, err))
		return
	}
	p.committed = handled
}

// SASL is a login by user and password, by token, or by a mechanism of your own.
type SASL = broker.SASL

// Options say how to reach Kafka. ClientID defaults to "bridge-client".
type Options = broker.Options

// Bus is a Kafka cluster.
type Bus struct{ o Options }

var _ client.Bus = (*Bus)(nil)

// New returns a bus. It does not touch the network.
func New(o Options) (*Bus, error) {
	if len(o.Brokers) == 0 {
		return nil, errors.New("client/kafka: Options.Brokers is empty: set it to host:port of one or more brokers")
	}
	o.ClientID = cmp.Or(o.ClientID, "bridge-client")
	return &Bus{o}, nil
}

// Open implements client.Bus. Reading needs DESCRIBE and READ on the topics.
func (b *Bus) Open(o client.Opening) (client.Reader, error) { return b.open(o) }

func (b *Bus) open(o client.Opening) (*broker.Reader, error) {
	for _, topic := range o.Destinations {
		if err := bus.CheckTopic(topic); err != nil {
			return nil, fmt.Errorf("kafka: %w", err)
		}
	}
	r, err := broker.Open(b.o, o.Fault)
	if err != nil {
		return nil, err
	}
	r.Follow(o.Destinations)
	return r, nil
}

// topics shares out the partitions of a group as the library does, but also where topics are
// missing: of those the library finds no partition of any topic.
type topics struct {
	kafkago.GroupBalancer
	reader *broker.Reader
	fault  bus.Fault
	// shared counts the partitions by topic that this process has shared out, where it leads the
	// group: until they are watched.
	shared *atomic.Pointer[map[string]int]
}

// AssignGroups implements kafkago.GroupBalancer.
func (t topics) AssignGroups(members []kafkago.GroupMember, _ []kafkago.Partition) kafkago.GroupMemberAssignments {
	var names []string
	for i := range members {
		names = append(names, members[i].Topics...)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	counts, err := t.count(context.Background(), names)
	if err != nil {
		// The look that follows has them shared out again: it asks for the topics that count here.
		counts = make(map[string]int)
		for _, name := range names {
			counts[name] = 0
		}
	}
	t.shared.Store(&counts)
	var partitions []kafkago.Partition
	for topic, n := range counts {
		for id := range n {
			partitions = append(partitions, kafkago.Partition{Topic: topic, ID: id})
		}
	}
	return t.GroupBalancer.AssignGroups(members, partitions)
}

// count asks how many partitions topics have. One that is missing is a fault, and has 0.
func (t topics) count(ctx context.Context, names []string) (map[string]int, error) {
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	found, _, err := t.reader.Metadata(ctx, names)
	if err != nil {
		return nil, err
	}
	counts := make(map[string]int)
	for i := range found.Topics {
		topic := &found.Topics[i]
		name, code := broker.NameOf(topic), kafkago.Error(topic.ErrorCode)
		switch {
		case code == kafkago.UnknownTopicOrPartition:
			t.fault.Fail("", name, t.reader.Explain(name, code))
		case code != 0:
			return nil, fmt.Errorf("look for the topic %s: %w", name, t.reader.Explain(name, code))
		}
		counts[name] = len(topic.Partitions)
	}
	return counts, nil
}

// watch looks for topics until ctx ends, or partitions are to be shared out again: where this
// process leads the group and there are others than it has shared out. It takes a second at least,
// as often as the group may join again at most.
func (t topics) watch(ctx, life context.Context, names []string) {
	begun, shared := time.Now(), t.shared.Swap(nil)
	if shared != nil {
		names = slices.Sorted(maps.Keys(*shared))
	}
	for {
		counts, err := t.count(ctx, names)
		if err != nil && ctx.Err() == nil {
			t.fault.Fail("", "topics", err)
		}
		if err == nil && shared != nil && !maps.Equal(counts, *shared) || backoff.Pause(ctx, partitionCheck) != nil {
			break
		}
	}
	_ = backoff.Pause(life, joinPause-time.Since(begun)) // life ends the group, too
}
