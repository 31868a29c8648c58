package acceptance

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"bridge/internal/testenv"
)

// lane is a bus and a database of its own, on which trials run one after the other.
type lane struct {
	name string
	// kafka or nats is set, bus is either of them.
	kafka *testenv.KafkaServer
	nats  *testenv.NATSServer
	bus   bus
	db    *testenv.MariaDBServer
	// busProxy and dbProxy are ways to the servers that networkFaults do their harm to.
	busProxy, dbProxy *testenv.Proxy
	// leaders are the brokers of a cluster of Kafka that moves leaders, replicas is how many a stream of a cluster of NATS has; neither
	// where the bus is one server.
	leaders  *kfake.Cluster
	replicas int
}

func newLane(t *testing.T, name string) *lane {
	t.Helper()
	l := &lane{name: name, db: testenv.StartMariaDB(t)}
	l.dbProxy = testenv.StartProxy(t, l.db.Addr)
	if name == "kafka" {
		l.kafka = testenv.StartKafka(t, testenv.KafkaOptions{Proxied: true, SASL: true})
		l.bus, l.busProxy = kafkaBus{l.kafka}, l.kafka.Proxy()
	} else {
		l.nats = testenv.StartNATS(t)
		l.bus, l.busProxy = natsBus{l.nats}, testenv.StartProxy(t, l.nats.Addr())
	}
	return l
}

// heal undoes what a trial that ended early has left.
func (l *lane) heal(t testing.TB) {
	t.Helper()
	l.dbProxy.Heal()
	l.busProxy.Heal()
	l.db.Heal(t)
	if l.kafka != nil {
		l.kafka.Heal(t)
	} else {
		l.nats.Heal(t)
	}
}

// clustered returns a lane with the same database and a bus of three servers.
func (l *lane) clustered(t testing.TB) *lane {
	t.Helper()
	other := *l
	if l.kafka != nil {
		other.kafka, other.leaders = testenv.FakeKafka(t, 3)
		other.bus = kafkaBus{other.kafka}
		return &other
	}
	other.nats, other.replicas = testenv.InProcessNATSCluster(t)[0], 3
	other.bus = natsBus{other.nats}
	return &other
}

// moveLeaders has the leaders of all parts of a destination step down, and returns how many have.
func (l *lane) moveLeaders(t testing.TB, name string) (moved int) {
	t.Helper()
	if l.leaders != nil {
		before := l.leadersOf(name)
		l.leaders.ShufflePartitionLeaders()
		for partition, leader := range l.leadersOf(name) {
			if leader != before[partition] {
				moved++
			}
		}
		return moved
	}
	// A request that meets no leader asks nobody to step down.
	answer, err := l.nats.Connect(t).Request("$JS.API.STREAM.LEADER.STEPDOWN."+name, nil, time.Second)
	if err != nil {
		return 0
	}
	var stepped struct{ Success bool }
	if err := json.Unmarshal(answer.Data, &stepped); err != nil {
		t.Fatalf("step down: %v: %s", err, answer.Data)
	}
	if stepped.Success {
		moved++
	}
	return moved
}

// leadersOf returns the leaders of the partitions of a topic.
func (l *lane) leadersOf(topic string) (leaders [partitions]int32) {
	for partition := range leaders {
		leaders[partition] = l.leaders.LeaderFor(topic, int32(partition))
	}
	return leaders
}

// partitions is how many a topic of a trial has.
const partitions = 8

// open makes the place for a destination, whose messages carry the time at which the bus stored them, and returns what to set as
// DESTINATION.
func (l *lane) open(t testing.TB, name string) (destination string) {
	t.Helper()
	if l.kafka == nil {
		destination = l.bus.open(t, name)
		if l.replicas > 1 {
			l.configure(t, name, func(c *jetstream.StreamConfig, _ jetstream.StreamState) { c.Replicas = l.replicas })
		}
		return destination
	}
	appended := "LogAppendTime"
	l.kafka.CreateTopic(t, name, partitions, map[string]*string{"message.timestamp.type": &appended})
	return name
}

// remake deletes the place of a destination and makes it again, empty.
func (l *lane) remake(t testing.TB, name string) {
	t.Helper()
	if l.kafka != nil {
		l.kafka.DeleteTopic(t, name)
	} else if err := l.nats.JetStream(t).DeleteStream(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	l.open(t, name)
}

// admit bounds the messages that the place of a destination lets in, in bytes; 0 is the bus's default.
func (l *lane) admit(t testing.TB, name string, bytes int) {
	t.Helper()
	if l.kafka != nil {
		var limit *string
		if bytes > 0 {
			text := strconv.Itoa(bytes)
			limit = &text
		}
		l.kafka.ConfigureTopic(t, name, map[string]*string{"max.message.bytes": limit})
		return
	}
	if bytes == 0 {
		bytes = -1
	}
	l.configure(t, name, func(c *jetstream.StreamConfig, _ jetstream.StreamState) { c.MaxMsgSize = int32(bytes) })
}

// snapshot returns a copy of all that the bus holds, restore puts it in its place.
func (l *lane) snapshot(t testing.TB) string {
	t.Helper()
	if l.kafka != nil {
		return l.kafka.Snapshot(t)
	}
	return l.nats.Snapshot(t)
}

func (l *lane) restore(t testing.TB, snapshot string) {
	t.Helper()
	if l.kafka != nil {
		l.kafka.Restore(t, snapshot)
	} else {
		l.nats.Restore(t, snapshot)
	}
}

// configure changes a stream of JetStream, given how it stands.
func (l *lane) configure(t testing.TB, name string, change func(*jetstream.StreamConfig, jetstream.StreamState)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	js := l.nats.JetStream(t)
	stream, err := js.Stream(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	config := stream.CachedInfo().Config
	change(&config, stream.CachedInfo().State)
	if _, err := js.UpdateStream(ctx, config); err != nil {
		t.Fatal(err)
	}
}

// harvest hands each message of a destination to take, each place in its order, with the time at which the bus stored it.
func (l *lane) harvest(t testing.TB, name string, take func(received)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	var err error
	if l.kafka != nil {
		err = harvestKafka(ctx, strings.Join(l.kafka.Brokers(), ","), name, l.bus.count(t, name), take)
	} else {
		err = harvestNATS(ctx, l.nats.JetStream(t), name, take)
	}
	if err != nil {
		t.Fatalf("read %s: %v", name, err)
	}
}

// harvestKafka reads until it has had all offsets up to end, the sum over the partitions.
func harvestKafka(ctx context.Context, brokers, topic string, end int64, take func(received)) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(brokers, ",")...), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(100*time.Millisecond))
	if err != nil {
		return err
	}
	defer client.Close()
	next := make(map[int32]int64)
	for sum := int64(0); sum < end; {
		fetches := client.PollFetches(ctx)
		for _, e := range fetches.Errors() {
			return e.Err
		}
		fetches.EachRecord(func(r *kgo.Record) {
			next[r.Partition] = r.Offset + 1
			// The broker's clock has milliseconds: the message came before the end of this one.
			m := received{
				place: fmt.Sprint(r.Partition), key: string(r.Key), value: r.Value, headers: make(map[string]string),
				at: r.Timestamp.Add(time.Millisecond),
			}
			for _, h := range r.Headers {
				m.headers[h.Key] = string(h.Value)
			}
			take(m)
		})
		sum = 0
		for _, offset := range next {
			sum += offset
		}
	}
	return nil
}

func harvestNATS(ctx context.Context, js jetstream.JetStream, name string, take func(received)) error {
	stream, err := js.Stream(ctx, name)
	if err != nil {
		return err
	}
	info, err := stream.Info(ctx)
	if err != nil || info.State.Msgs == 0 {
		return err
	}
	consumer, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverAllPolicy})
	if err != nil {
		return err
	}
	messages, err := consumer.Messages()
	if err != nil {
		return err
	}
	defer messages.Stop()
	for {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return err
		}
		meta, err := m.Metadata()
		if err != nil {
			return err
		}
		r := received{place: name, value: m.Data(), headers: make(map[string]string), at: meta.Timestamp}
		for k, v := range m.Headers() {
			r.headers[k] = v[0]
		}
		take(r)
		if meta.Sequence.Stream >= info.State.LastSeq {
			return nil
		}
	}
}
