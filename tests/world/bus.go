package world

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"example.org/bridge/tests/testenv"
)

// Bus is a real Kafka or a real NATS JetStream as the tests see it: read and harmed by clients that
// the program does not use.
type Bus struct {
	broker
	// Exactly one of Kafka and NATS is set.
	Kafka *testenv.KafkaServer
	NATS  *testenv.NATSServer
	// Members are the servers of a cluster, none where the bus is one server.
	Members []Server
	// once is of programs that publish each event once, empty where they need not: on Kafka their
	// transactional id, where consumers read committed messages, on NATS the stream of all their
	// messages.
	once string
}

type broker interface {
	// Env returns the variables that point the program to the bus.
	Env() Env
	// Server returns the server to harm.
	Server() Server
	// Open makes the topic or stream called name, whose messages carry the time at which the bus
	// stored them, and returns what to set as DESTINATION.
	Open(t testing.TB, name string) (destination string)
	// Count returns how many messages a destination holds, without reading them.
	Count(t testing.TB, name string) int64
	ends(t testing.TB, name string) Offsets
	// consume hands out the messages of a destination behind some offsets up to ends, without ends
	// until ctx does, every topic-partition in its order.
	consume(ctx context.Context, t testing.TB, name string, from, ends Offsets, each func(Message)) error
	// Publisher returns what publishes messages as they were received to a topic or stream, and
	// waits for the acknowledgements.
	Publisher(t testing.TB, name string) func(context.Context, ...Message) error
	// Expire removes from a topic or stream all but the newest messages, as a retention does: so
	// many stay in each partition, or in the stream.
	Expire(t testing.TB, name string, keep int64)
	// Limit bounds the messages that a topic or stream takes, in bytes; 0 is the bus's default.
	Limit(t testing.TB, name string, bytes int)
	// MoveLeaders has the leaders of all partitions of a destination on a cluster step down, and
	// returns how many have.
	MoveLeaders(t testing.TB, name string) (moved int)
	remove(t testing.TB, name string)
	whole(t testing.TB, name string) bool
	String() string
}

// Message is one message as a consumer saw it, in the order of its topic-partition.
type Message struct {
	// Partition is the topic-partition, or the stream of JetStream.
	Partition string
	Key       string
	Value     []byte
	Headers   map[string]string
	// Stored is when the bus stored it, At when it was received; where Read returns it, the same.
	Stored, At time.Time
	// Offset is its offset, or its sequence in the stream of JetStream.
	Offset int64
}

// Server is a real server that tests can harm. Its data stays.
type Server interface {
	// Kill ends it with SIGKILL, Stop in good order, Start starts it again and waits until it
	// answers.
	Kill()
	Stop()
	Start(t testing.TB)
	// Pause makes it stand still with its connections open, Resume ends that. Heal undoes whatever
	// was done.
	Pause()
	Resume()
	Heal(t testing.TB)
	// Snapshot returns a copy of all that it holds, Restore has it hold that and nothing else.
	Snapshot(t testing.TB) string
	Restore(t testing.TB, snapshot string)
}

func KafkaBus(server *testenv.KafkaServer) *Bus { return (&Bus{Kafka: server}).bound() }

func NATSBus(server *testenv.NATSServer) *Bus { return (&Bus{NATS: server}).bound() }

func (b *Bus) bound() *Bus {
	b.broker = onNATS{b}
	if b.Kafka != nil {
		b.broker = onKafka{b}
	}
	return b
}

// ExactlyOnce returns the bus with programs that publish each event once. name tells its users
// apart from those of the same servers.
func (b *Bus) ExactlyOnce(name string) *Bus {
	one := *b
	if one.once = "bridge." + name; b.NATS != nil {
		one.once = "once_" + strings.NewReplacer("/", "_", ".", "_").Replace(name)
	}
	return one.bound()
}

// Once reports whether each event has to be on the bus once, whatever fails.
func (b *Bus) Once() bool { return b.once != "" }

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

// Clustered returns a bus of the same kind that is three servers.
func (b *Bus) Clustered(t testing.TB) *Bus {
	t.Helper()
	clustered := *b
	if b.Kafka != nil {
		cluster, members := testenv.StartKafkaCluster(t)
		clustered.Kafka, clustered.Members = cluster, serversOf(members)
	} else {
		cluster, members := testenv.StartNATSCluster(t)
		clustered.NATS, clustered.Members = cluster, serversOf(members)
	}
	return clustered.bound()
}

func serversOf[S Server](members []S) (servers []Server) {
	for _, member := range members {
		servers = append(servers, member)
	}
	return servers
}

// Whole waits until each server of a cluster has all of a destination.
func (b *Bus) Whole(t testing.TB, name string) {
	t.Helper()
	Eventually(t, 2*time.Minute, "each server has all of "+name, func() bool { return b.whole(t, name) })
}

// OpenDeadLetters makes a topic or stream and returns what to set as BRIDGE_DEAD_LETTER.
func (b *Bus) OpenDeadLetters(t testing.TB, name string) string {
	t.Helper()
	return strings.Replace(b.Open(t, name), "{type}", "letters", 1)
}

// Remake deletes the topic or stream of a destination and makes it again, empty.
func (b *Bus) Remake(t testing.TB, name string) {
	t.Helper()
	b.remove(t, name)
	b.Open(t, name)
}

// Progress makes where processes keep progress on the bus, and returns what points them to it.
func (b *Bus) Progress(t testing.TB) Env {
	t.Helper()
	topic := strings.ReplaceAll(testenv.NewStreamName(), ".", "_") + "_progress"
	if b.Kafka != nil {
		CreateCompacted(t, b.Kafka, topic)
	}
	return Env{"BRIDGE_CHECKPOINT_TOPIC": topic}
}

func CreateCompacted(t testing.TB, kafka *testenv.KafkaServer, topic string) {
	t.Helper()
	policy := "compact"
	kafka.CreateTopic(t, topic, 1, map[string]*string{"cleanup.policy": &policy})
}

// Partitions is how many a topic has.
const Partitions = 8

// Offsets say up to where a destination was read: the end offset of each partition, or the last
// sequence of a JetStream stream as that of partition 0. None is the beginning.
type Offsets map[int32]int64

// Read hands each message of a destination to each, up to the end offsets at the time of the call,
// every topic-partition in its order.
func (b *Bus) Read(t testing.TB, name string, each func(Message)) {
	t.Helper()
	b.ReadFrom(t, name, nil, each)
}

// ReadFrom is Read of the messages behind some offsets, and returns those of the end.
func (b *Bus) ReadFrom(t testing.TB, name string, from Offsets, each func(Message)) (ends Offsets) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	ends = b.ends(t, name)
	if err := b.consume(ctx, t, name, from, ends, each); err != nil {
		t.Fatalf("read %s: %v", name, err)
	}
	return ends
}

func (b *Bus) ReadAll(t testing.TB, name string) (all []Message) {
	t.Helper()
	b.Read(t, name, func(m Message) { all = append(all, m) })
	return all
}

// Follow receives the messages of a destination from its beginning as they come, until the test
// ends.
func (b *Bus) Follow(t testing.TB, name string) *Tape {
	t.Helper()
	p := new(Tape)
	b.Receive(t, name, p.Add)
	return p
}

// Receive hands each message of a destination to each, from its beginning and as they come, until
// stop is called or the test ends.
func (b *Bus) Receive(t testing.TB, name string, each func(Message)) (stop func()) {
	t.Helper()
	return beside(t, func(ctx context.Context) {
		if err := b.consume(ctx, t, name, nil, nil, each); err != nil && ctx.Err() == nil {
			t.Errorf("the consumer of %s ended: %v", name, err)
		}
	})
}

// Tape is what a consumer receives while it happens, each message with the time.
type Tape struct {
	mu       sync.Mutex
	messages []Message
}

func (p *Tape) Add(m Message) {
	m.At = time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.messages = append(p.messages, m)
}

func (p *Tape) All() []Message { return p.From(0) }

// From returns the messages so far but for the first n.
func (p *Tape) From(n int) []Message {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.messages[n:])
}

func (p *Tape) Count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.messages)
}

// Document returns the Eiffel document that a message holds, in whichever format: the value itself,
// the data of a CloudEvent, or what value and headers say together.
func Document(m Message) ([]byte, error) {
	switch {
	case m.Headers["content-type"] == "application/cloudevents+json":
		return cloudEvent(m)
	case m.Headers["eiffel-time"] != "":
		return bareRow(m)
	default:
		return m.Value, nil
	}
}

// TypeOf returns meta.type of a message: a document says it itself. It is empty where nothing says
// it.
func TypeOf(m Message) string {
	if kind, there := m.Headers["eiffel-type"]; there {
		return kind
	}
	var of struct{ Meta struct{ Type string } }
	if document, err := Document(m); err != nil || json.Unmarshal(document, &of) != nil {
		return ""
	}
	return of.Meta.Type
}

// cloudEvent returns the data of a CloudEvent, whose attributes must say what the data says.
func cloudEvent(m Message) ([]byte, error) {
	var e struct {
		SpecVersion, ID, Source, Type, Subject, DataContentType string
		Data                                                    json.RawMessage
	}
	if err := json.Unmarshal(m.Value, &e); err != nil {
		return nil, err
	}
	var of struct {
		Meta struct {
			ID, Type string
			Source   struct{ DomainID string }
		}
	}
	if err := json.Unmarshal(e.Data, &of); err != nil {
		return nil, err
	}
	// The tests' names need no escape.
	source := "bridge://" + of.Meta.Source.DomainID + "/" + m.Headers["bridge-stream"]
	if e.SpecVersion != "1.0" || e.ID != of.Meta.ID || e.Type != of.Meta.Type || e.Source != source || e.DataContentType != "application/json" {
		return nil, fmt.Errorf("its attributes are %q, %q, %q, %q, %q", e.SpecVersion, e.ID, e.Type, e.Source, e.DataContentType)
	}
	if m.Key != "" && e.Subject != m.Key {
		return nil, fmt.Errorf("its subject is %q, its key %q", e.Subject, m.Key)
	}
	return e.Data, nil
}

func bareRow(m Message) ([]byte, error) {
	var columns map[string]json.RawMessage
	if err := json.Unmarshal(m.Value, &columns); err != nil {
		return nil, err
	}
	data := make(map[string]any, len(columns)+2)
	for name, value := range columns {
		data[name] = value
	}
	row, err := strconv.ParseUint(m.Headers["bridge-row-id"], 10, 64)
	if err != nil {
		return nil, err
	}
	at, err := strconv.ParseInt(m.Headers["eiffel-time"], 10, 64)
	if err != nil {
		return nil, err
	}
	data["row"] = map[string]any{"table": m.Headers["bridge-shard"], "id": row}
	if reason := m.Headers["bridge-reason"]; reason != "" {
		data["reason"] = reason
	}
	links := []map[string]string{}
	if previous := m.Headers["eiffel-previous"]; previous != "" {
		links = append(links, map[string]string{"type": "PREVIOUS_VERSION", "target": previous})
	}
	return json.Marshal(map[string]any{
		"meta": map[string]any{
			"id": m.Headers["eiffel-id"], "type": m.Headers["eiffel-type"], "version": m.Headers["eiffel-version"], "time": at,
			"source": map[string]any{"domainId": m.Headers["bridge-domain"]},
		},
		"data": data, "links": links,
	})
}
