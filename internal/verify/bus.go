package verify

import "context"

// Message is one message as the bus holds it. It is valid until the call that hands it out returns.
type Message struct {
	// Partition is an index into Bus.Partitions, At the offset or sequence there.
	Partition int
	At        uint64
	// Key is nil where the bus has no keys.
	Key   []byte
	Value []byte
	// Header has the headers of bridge, and the content type, by their names; of a message whose
	// value is a column those of its stream, too.
	Header map[string]string
	// Once says that it was published with exactly-once: in a transaction of Kafka, an atomic batch
	// of JetStream, or there on condition of a claim. A copy need not say so.
	Once bool
	// Hash is what the bus chooses the partition of a key by: its remainder by their number is the
	// partition's. Unused on a bus without keys.
	Hash uint32
}

// Partition is a sequence of messages in one order: a topic-partition of Kafka or a stream of
// JetStream.
type Partition struct {
	// Name is "topic/3" or the name of the stream.
	Name string `json:"place"`
	// Destination is the topic; empty where messages of all destinations lie in one partition.
	Destination string `json:"-"`
	// Number is the number of the topic-partition in its topic.
	Number int `json:"-"`
	// First is the first message that the partition holds, Next the one behind the last that was
	// read.
	First uint64 `json:"first"`
	Next  uint64 `json:"next"`
	// Expired says that messages before First may be gone by the rules of the bus.
	Expired bool `json:"expired"`
	// Thinned says that single messages may be gone by the rules of the bus: compaction, a limit
	// per subject.
	Thinned bool `json:"thinned"`
}

// Bus reads the destinations of the configured streams. It serves one goroutine.
type Bus interface {
	// Read calls each for every message behind those of the Read before, at first from the
	// beginning, up to the end of the bus as it is when Read begins; the messages of a partition
	// come in their order. It calls progress now and then. An error of each ends it.
	Read(ctx context.Context, each func(*Message) error, progress func(done, total uint64)) error
	// Partitions returns how far each partition has been read.
	Partitions() []Partition
	// Fetch reads one message that Read has handed out.
	Fetch(ctx context.Context, partition int, at uint64) (*Message, error)
	// Close releases the connections.
	Close() error
}
