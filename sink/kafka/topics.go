package kafka

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/describeconfigs"

	"example.org/bridge/client/backoff"
	"example.org/bridge/client/kafka/broker"
	"example.org/bridge/sink"
)

// topicAge is how long the number of a topic's partitions and its id are believed.
const topicAge = 5 * time.Minute

// balancer picks partitions as Java does for keys: murmur2, modulo. Java spreads messages without a
// key; here they hash like an empty key, so that they keep an order.
var balancer = kafkago.Murmur2Balancer{Consistent: true}

// topic is what is known of one topic. Guarded by Sink.mu.
type topic struct {
	route   route
	checked time.Time
	// believed is for how long from checked on: topicAge, less where others have written to the
	// topic or it was created again. 0: the number of its partitions is wrong.
	believed time.Duration
}

// route leads from keys to the workers of a topic. It is never changed once it is made.
type route struct {
	// workers has one entry a partition.
	workers []*worker
	// partitions is 0, 1, … for the balancer.
	partitions []int
	// id tells one making of the topic from another, empty where the cluster does not tell.
	id string
}

// worker returns the worker for m: that of its TP, else of its key.
func (r route) worker(m *sink.Message) *worker {
	if m.TP != "" {
		if i := slices.IndexFunc(r.workers, func(w *worker) bool { return w.tp == m.TP }); i >= 0 {
			return r.workers[i]
		}
	}
	return r.workers[balancer.Balance(kafkago.Message{Key: m.Key}, r.partitions...)]
}

// resolve returns the routes of topics by name, waiting for what is missing.
func (s *Sink) resolve(ctx context.Context, names []string) (map[string]route, error) {
	routes, unknown, old := s.lookup(names)
	if len(unknown)+len(old) == 0 {
		return routes, nil
	}
	var pause backoff.Backoff
	who := fmt.Sprintf("call %d ", s.calls.Add(1))
	defer func() { s.faults.endAll(who, ctx.Err() != nil) }()
	for {
		s.cluster.Follow(unknown)
		err := s.describe(ctx, who, append(old, unknown...))
		if routes, unknown, old = s.lookup(names); len(unknown) == 0 {
			// Whether what is merely old was seen again does not matter.
			return routes, nil
		}
		if err == nil {
			err = fmt.Errorf("no broker tells of topics %q", unknown)
			s.faults.Fail(who, broker.Everywhere, err)
		}
		if err := pause.Wait(ctx); err != nil {
			return nil, err
		}
	}
}

// lookup returns the routes of topics, those that must be asked for, and those that should be asked
// for again.
func (s *Sink) lookup(names []string) (routes map[string]route, unknown, old []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	routes = make(map[string]route, len(names))
	for _, name := range names {
		t := s.topics[name]
		if t == nil || t.believed == 0 {
			unknown = append(unknown, name)
			continue
		}
		if routes[name] = t.route; time.Since(t.checked) > t.believed {
			old = append(old, name)
		}
	}
	return routes, unknown, old
}

// describe asks the cluster for topics and notes what it finds and, for the call who, what is
// amiss. It returns the faults joined.
func (s *Sink) describe(ctx context.Context, who string, names []string) error {
	found, generation, err := s.cluster.Metadata(ctx, names)
	if err != nil {
		// That the sink is closed is no outage.
		if ctx.Err() == nil && s.life.Err() == nil {
			s.faults.Fail(who, broker.Everywhere, s.cluster.Explain("", err))
			s.cluster.Renew(generation)
		}
		return err
	}
	s.faults.OK(who)
	var faults []error
	for i := range found.Topics {
		t := &found.Topics[i]
		name := broker.NameOf(t)
		err := broker.Answer(t.ErrorCode, "")
		if err == nil && len(t.Partitions) == 0 {
			err = fmt.Errorf("topic %s has no partitions", name)
		}
		if err != nil {
			err = s.cluster.Explain(name, err)
			s.faults.Fail(who+name, name, err)
			faults = append(faults, err)
			continue
		}
		s.faults.OK(who + name)
		if !s.learn(name, len(t.Partitions), broker.IDOf(t)) {
			continue
		}
		for _, p := range t.Partitions {
			s.options.Session(broker.TPName(name, p.Partition))
		}
	}
	return errors.Join(faults...)
}

// learn notes how many partitions a topic has, and its id. It reports whether the topic was created
// again: just after that brokers may differ about its id, so it is in doubt.
func (s *Sink) learn(name string, partitions int, id string) (remade bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.topics[name]
	if t == nil {
		t = new(topic)
		s.topics[name] = t
	}
	if id != "" {
		remade = t.route.id != "" && t.route.id != id
		t.route.id = id
	}
	t.checked, t.believed = time.Now(), topicAge
	if remade {
		t.believed = broker.LayoutAge
	}
	former := len(t.route.workers)
	if former == partitions {
		return remade
	}
	if former > 0 {
		s.options.Logger.Warn("the number of partitions has changed: keys move, and what was published before and after has no order among it",
			"topic", name, "from", former, "to", partitions)
	}
	t.route = route{make([]*worker, partitions), make([]int, partitions), t.route.id}
	for i := range partitions {
		t.route.workers[i], t.route.partitions[i] = s.worker(name, int32(i)), i
	}
	return remade
}

// worker returns the one worker to a partition. It outlives changes of the topic: its sequence goes
// on.
func (s *Sink) worker(topic string, partition int32) *worker {
	tp := broker.TPName(topic, partition)
	w := s.workers[tp]
	if w == nil {
		w = newWorker(s, topic, partition)
		s.workers[tp] = w
	}
	return w
}

// believe has a topic asked for again at most so long behind the last time; 0: before its next use.
func (s *Sink) believe(name string, d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.topics[name]; t != nil {
		t.believed = min(t.believed, d)
	}
}

var _ sink.Compactor = (*Sink)(nil)

// tombstonesStay is the default of delete.retention.ms.
const tombstonesStay = 24 * time.Hour

const (
	cleanupPolicy   = "cleanup.policy"
	compact         = "compact"
	deleteRetention = "delete.retention.ms"
	resourceTopic   = 2
)

// hidingErrors are those with which a broker keeps the configuration of a topic to itself: it would
// say the same again.
var hidingErrors = []error{
	kafkago.TopicAuthorizationFailed, kafkago.ClusterAuthorizationFailed, kafkago.SecurityDisabled,
	kafkago.InvalidRequest, kafkago.UnsupportedVersion,
}

// Compaction implements [sink.Compactor] by the configuration of a topic, which shows to a login
// with DESCRIBE_CONFIGS. A topic that is missing is waited for.
func (s *Sink) Compaction(ctx context.Context, topic string) (found sink.Compaction, err error) {
	ctx, cancel := s.within(ctx)
	defer cancel()
	var hidden error
	err = s.Retry(ctx, "configuration of "+topic, topic, func() (generation int, err error) {
		found, generation, err = s.compaction(ctx, topic)
		if errors.Is(err, sink.ErrHidden) {
			hidden, err = err, nil
		}
		return generation, err
	})
	if err != nil {
		return sink.Compaction{}, err
	}
	return found, hidden
}

func (s *Sink) compaction(ctx context.Context, topic string) (found sink.Compaction, generation int, err error) {
	found.Tombstones = tombstonesStay
	all, generation, err := s.sharedConfigs(ctx, topic)
	if err != nil {
		return found, generation, err
	}
	config, listed := all[topic]
	policy, shown := config.values[cleanupPolicy]
	switch {
	case !listed:
		return found, generation, fmt.Errorf("the broker does not tell the configuration of topic %s", topic)
	case slices.ContainsFunc(hidingErrors, func(err error) bool { return errors.Is(config.err, err) }):
		return found, generation, fmt.Errorf("%w: grant DESCRIBE_CONFIGS on topic %s to the user of bridge: %w", sink.ErrHidden, topic, config.err)
	case config.err != nil:
		return found, generation, config.err
	}
	if ms, err := strconv.ParseInt(config.values[deleteRetention], 10, 64); err == nil {
		found.Tombstones = time.Duration(min(ms, int64(math.MaxInt64/time.Millisecond))) * time.Millisecond
	}
	if !shown {
		return found, generation, fmt.Errorf("%w: the broker does not tell the cleanup.policy of topic %s", sink.ErrHidden, topic)
	}
	found.On = strings.Contains(policy, compact)
	return found, generation, nil
}

// asking is a request for the configuration of topics, one for all who wait for it. It is that of
// Sink.configuring once it has begun.
type asking struct {
	topics     []string
	all        map[string]topicConfig
	generation int
	err        error
	done       bool
}

// sharedConfigs asks for a topic together with those who wait meanwhile: a start asks for each of
// thousands, and one broker that takes requests and answers none would hold up each of them.
func (s *Sink) sharedConfigs(ctx context.Context, topic string) (map[string]topicConfig, int, error) {
	s.mu.Lock()
	if s.asking == nil {
		s.asking = new(asking)
	}
	a := s.asking
	a.topics = append(a.topics, topic)
	s.mu.Unlock()
	release, err := backoff.Acquire(ctx, s.configuring)
	if err != nil {
		return nil, 0, err
	}
	defer release()
	if !a.done {
		s.mu.Lock()
		if s.asking == a {
			s.asking = nil
		}
		s.mu.Unlock()
		slices.Sort(a.topics)
		a.topics = slices.Compact(a.topics)
		a.all, a.generation, a.err = s.configs(ctx, a.topics, cleanupPolicy, deleteRetention)
		// Behind a caller that has left, the next one asks.
		a.done = ctx.Err() == nil
	}
	return a.all, a.generation, a.err
}

type topicConfig struct {
	values map[string]string
	err    error
}

func (s *Sink) configs(ctx context.Context, topics []string, settings ...string) (map[string]topicConfig, int, error) {
	request := &describeconfigs.Request{}
	for _, topic := range topics {
		request.Resources = append(request.Resources, describeconfigs.RequestResource{ResourceType: resourceTopic, ResourceName: topic, ConfigNames: settings})
	}
	answered, generation, err := s.cluster.RoundTrip(ctx, request)
	if err != nil {
		return nil, generation, err
	}
	all := make(map[string]topicConfig, len(topics))
	for _, resource := range answered.(*describeconfigs.Response).Resources {
		config := topicConfig{make(map[string]string), broker.Answer(resource.ErrorCode, resource.ErrorMessage)}
		for _, entry := range resource.ConfigEntries {
			config.values[entry.ConfigName] = entry.ConfigValue
		}
		all[resource.ResourceName] = config
	}
	return all, generation, nil
}
