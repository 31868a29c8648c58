package world

import (
	"context"
	"strings"
	"testing"
	"time"

	"example.org/bridge/tests/testenv"
)

// Bus is a real Kafka or a real NATS JetStream as the tests see it. Exactly one of Kafka and NATS
// is set.
type Bus struct {
	Kafka *testenv.KafkaServer
	NATS  *testenv.NATSServer
	// Members are the servers of a cluster, none where the bus is one server.
	Members []Server
	// transactional is the transactional id of programs that publish each event once, empty where
	// they need not. Consumers then read committed messages. once is the stream of NATS that takes
	// all messages of such programs.
	transactional, once string
}

// Message is one message as a consumer saw it, in the order of its topic-partition.
type Message struct {
	// Partition is the topic-partition, or the stream of JetStream.
	Partition string
	Key       string
	Value     []byte
	Headers   map[string]string
	// At is when it was received, where Read returns it when the bus stored it.
	At time.Time
}

// Server is a real server that tests can harm. Its data stays.
type Server interface {
	// Kill ends it with SIGKILL, Stop in good order, Start starts it again and waits until it
	// answers.
	Kill()
	Stop()
	Start(t testing.TB)
	// Pause makes it stand still with its connections open, Resume ends that.
	Pause()
	Resume()
}

// KafkaBus returns the bus that is a Kafka.
func KafkaBus(server *testenv.KafkaServer) *Bus { return &Bus{Kafka: server} }

// NATSBus returns the bus that is a NATS.
func NATSBus(server *testenv.NATSServer) *Bus { return &Bus{NATS: server} }

// ExactlyOnce returns the bus with programs that publish each event once. name tells its users
// apart from those of the same servers.
func (b *Bus) ExactlyOnce(name string) *Bus {
	one := *b
	if b.NATS != nil {
		one.once = "once_" + strings.NewReplacer("/", "_", ".", "_").Replace(name)
	} else {
		one.transactional = "bridge." + name
	}
	return &one
}

// Once reports whether each event has to be on the bus once, whatever fails.
func (b *Bus) Once() bool { return b.transactional != "" }

// EachBus runs a test on the Kafka and on the NATS that the tests of a package share, both at the
// same time.
func EachBus(t *testing.T, test func(t *testing.T, b *Bus)) {
	t.Run("kafka", func(t *testing.T) { t.Parallel(); test(t, KafkaBus(testenv.Kafka(t))) })
	t.Run("nats", func(t *testing.T) { t.Parallel(); test(t, NATSBus(testenv.NATS(t))) })
}

// EachOwnBus is EachBus on servers that the test may kill.
func EachOwnBus(t *testing.T, test func(t *testing.T, b *Bus)) {
	t.Run("kafka", func(t *testing.T) { t.Parallel(); test(t, KafkaBus(testenv.StartKafka(t, testenv.KafkaOptions{}))) })
	t.Run("nats", func(t *testing.T) { t.Parallel(); test(t, NATSBus(testenv.StartNATS(t))) })
}

func (b *Bus) String() string {
	if b.Kafka != nil {
		return "kafka"
	}
	return "nats"
}

// Server returns the server to harm.
func (b *Bus) Server() Server {
	if b.Kafka != nil {
		return b.Kafka
	}
	return b.NATS
}

// Env returns the variables that point the program to the bus.
func (b *Bus) Env() Env {
	if b.Kafka == nil {
		return envOfNATS(b.NATS.URL(), b.once)
	}
	e := Env{"BRIDGE_SINK_URL": "kafka://" + strings.Join(b.Kafka.Brokers(), ",")}
	if b.transactional != "" {
		e["BRIDGE_DELIVERY"], e["BRIDGE_KAFKA_TRANSACTIONAL_ID"] = "exactly-once", b.transactional
	}
	return e
}

// Partitions is how many a topic has.
const Partitions = 8

// Open makes the topic or stream called name, whose messages carry the time at which the bus stored
// them, and returns what to set as DESTINATION.
func (b *Bus) Open(t testing.TB, name string) (destination string) {
	t.Helper()
	if b.Kafka != nil {
		appended := "LogAppendTime"
		b.Kafka.CreateTopic(t, name, Partitions, map[string]*string{"message.timestamp.type": &appended})
		return name
	}
	return b.openOnNATS(t, name) + ".{type}"
}

// OpenDeadLetters makes a topic or stream and returns what to set as BRIDGE_DEAD_LETTER.
func (b *Bus) OpenDeadLetters(t testing.TB, name string) string {
	t.Helper()
	b.Open(t, name)
	if b.NATS != nil {
		return b.prefix(name) + ".letters"
	}
	return name
}

// Read hands each message of a destination to each, up to the end offsets at the time of the call,
// every topic-partition in its order.
func (b *Bus) Read(t testing.TB, name string, each func(Message)) {
	t.Helper()
	b.ReadFrom(t, name, nil, each)
}

// Offsets say up to where a destination was read: the end offset of each partition, or the last
// sequence of a JetStream stream as that of partition 0. None is the beginning.
type Offsets map[int32]int64

// ReadFrom is Read of the messages behind some offsets, and returns those of the end.
func (b *Bus) ReadFrom(t testing.TB, name string, from Offsets, each func(Message)) (ends Offsets) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	var err error
	if b.Kafka != nil {
		ends = b.ends(t, name)
		err = b.readKafka(ctx, name, from, ends, each)
	} else {
		ends, err = b.readNATS(ctx, b.NATS.JetStream(t), name, from, each)
	}
	if err != nil {
		t.Fatalf("read %s: %v", name, err)
	}
	return ends
}

// ReadAll returns what Read hands out.
func (b *Bus) ReadAll(t testing.TB, name string) (all []Message) {
	t.Helper()
	b.Read(t, name, func(m Message) { all = append(all, m) })
	return all
}

// Count returns how many messages a destination holds, without reading them.
func (b *Bus) Count(t testing.TB, name string) (n int64) {
	t.Helper()
	if b.Kafka != nil {
		for _, end := range b.ends(t, name) {
			n += end
		}
		return n
	}
	return b.countOnNATS(t, name)
}

// Follow receives the messages of a destination from its beginning as they come, until the test
// ends.
func (b *Bus) Follow(t testing.TB, name string) *Tape {
	t.Helper()
	if b.Kafka != nil {
		return b.followKafka(t, name)
	}
	return b.followNATS(t, name)
}

// Publisher makes a topic or stream and returns what publishes one message there and waits for the
// acknowledgement.
func (b *Bus) Publisher(t testing.TB, name string) func(context.Context) error {
	t.Helper()
	b.Open(t, name)
	if b.Kafka != nil {
		return b.publisherOnKafka(t, name)
	}
	js := b.NATS.JetStream(t)
	return func(ctx context.Context) error {
		_, err := js.Publish(ctx, b.prefix(name)+".noise", []byte("noise"))
		return err
	}
}

// Replay publishes messages as they were received to the topic or stream name, which exists.
func (b *Bus) Replay(t testing.TB, name string, messages []Message) {
	t.Helper()
	if b.Kafka != nil {
		b.replayOnKafka(t, name, messages)
	} else {
		b.replayOnNATS(t, name, messages)
	}
}
