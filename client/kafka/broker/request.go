package broker

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// longestAnswer bounds what an answer may claim to be: one batch can have any size.
	longestAnswer = 1 << 30
	// topicIDVersion is the first version of Metadata that tells the ids of topics (KIP-516, Kafka
	// 2.8).
	topicIDVersion = 10
)

// ErrTooOld says that a broker does not know a request.
var ErrTooOld = errors.New("the broker is too old for this request")

// Request sends a request of kmsg over kafka-go's transport, which does not know it, not in the
// version that is needed, or not as its answer is needed. It goes to any broker, and is used once.
type Request struct {
	// Request has the newest version that is to be used.
	kmsg.Request
	clientID string
	// memory is used for the answer, and belongs to the request until that has come.
	memory []byte

	// supported: the broker knows the request; version is the newest one that kafka-go and the
	// broker know.
	supported bool
	version   int16
}

type response struct{ kmsg.Response }

// Requests to one broker, and to the coordinators of a transactional id and of a group.
type (
	ToBroker struct {
		*Request
		Find func(protocol.Cluster) (protocol.Broker, error)
	}
	ToTransaction struct {
		*Request
		ID string
	}
	ToGroup struct {
		*Request
		ID string
	}
)

var (
	_ protocol.RawExchanger         = (*Request)(nil)
	_ protocol.BrokerMessage        = ToBroker{}
	_ protocol.TransactionalMessage = ToTransaction{}
	_ protocol.GroupMessage         = ToGroup{}
)

func (r *Request) ApiKey() protocol.ApiKey { return protocol.ApiKey(r.Key()) }

func (r response) ApiKey() protocol.ApiKey { return protocol.ApiKey(r.Key()) }

func (r ToBroker) Broker(c protocol.Cluster) (protocol.Broker, error) { return r.Find(c) }

func (r ToTransaction) Transaction() string { return r.ID }

func (r ToGroup) Group() string { return r.ID }

func LeaderOf(topic string, partition int32) func(protocol.Cluster) (protocol.Broker, error) {
	return func(c protocol.Cluster) (protocol.Broker, error) {
		t, known := c.Topics[topic]
		if !known {
			return protocol.Broker{}, protocol.NewErrNoTopic(topic)
		}
		p, known := t.Partitions[partition]
		if !known {
			return protocol.Broker{}, protocol.NewErrNoPartition(topic, partition)
		}
		leader, known := c.Brokers[p.Leader]
		if !known {
			return protocol.Broker{}, protocol.NewErrNoLeader(topic, partition)
		}
		return leader, nil
	}
}

func BrokerOf(id int32) func(protocol.Cluster) (protocol.Broker, error) {
	return func(c protocol.Cluster) (protocol.Broker, error) {
		if b, known := c.Brokers[id]; known {
			return b, nil
		}
		return protocol.Broker{}, fmt.Errorf("the cluster does not tell where broker %d is", id)
	}
}

// Required implements protocol.RawExchanger. It learns the version that the broker speaks.
func (r *Request) Required(versions map[protocol.ApiKey]int16) bool {
	r.version, r.supported = versions[r.ApiKey()]
	return true
}

// RawExchange implements protocol.RawExchanger.
func (r *Request) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	newest, w := r.GetVersion(), &wire{ReadWriter: rw, clientID: r.clientID, memory: r.memory, longest: longestAnswer}
	defer func() { r.memory = w.memory }()
	if !r.supported {
		return nil, fmt.Errorf("%s: %w", kmsg.NameForKey(r.Key()), ErrTooOld)
	}
	if r.version < newest && r.version == r.ApiKey().MaxVersion() {
		// kafka-go knows no later version; the broker may.
		res, err := w.exchange(kmsg.NewPtrApiVersionsRequest())
		if err != nil {
			return nil, err
		}
		for _, k := range res.(*kmsg.ApiVersionsResponse).ApiKeys {
			if k.ApiKey == r.Key() {
				r.version = k.MaxVersion
			}
		}
	}
	r.SetVersion(min(r.version, newest))
	res, err := w.exchange(r.Request)
	if err != nil {
		return nil, err
	}
	return response{res}, nil
}

// wire exchanges requests over a connection that it has to itself.
type wire struct {
	io.ReadWriter
	clientID string
	// memory is used for each answer, longest bounds it.
	memory  []byte
	longest uint32
	// versions are the newest ones of the broker by request, of a connection that negotiates.
	versions map[int16]int16
	// head has the bytes read so far of the size and the id of an answer.
	head []byte
}

func (w *wire) exchange(req kmsg.Request) (kmsg.Response, error) {
	const correlation = 1
	sent := kmsg.NewRequestFormatter(kmsg.FormatterClientID(w.clientID)).AppendRequest(nil, req, correlation)
	if _, err := w.Write(sent); err != nil {
		return nil, err
	}
	var head [8]byte
	n, err := io.ReadFull(w, head[:])
	if w.head = head[:n]; err != nil {
		return nil, err
	}
	size, got := binary.BigEndian.Uint32(head[:4]), binary.BigEndian.Uint32(head[4:])
	if size < 4 || size > w.longest || got != correlation {
		return nil, fmt.Errorf("the broker answers request %d with %d bytes to request %d", correlation, size, got)
	}
	w.memory = slices.Grow(w.memory[:0], int(size-4))[:size-4]
	if _, err := io.ReadFull(w, w.memory); err != nil {
		return nil, err
	}
	body := tagged(w.memory)
	if req.IsFlexible() {
		kmsg.SkipTags(&body)
	}
	res := req.ResponseKind()
	if err := res.ReadFrom(body); err != nil {
		return nil, fmt.Errorf("read the answer to %s: %w", kmsg.NameForKey(req.Key()), err)
	}
	return res, nil
}

// tagged is an answer that begins with tags. What is cut off reads as nothing.
type tagged []byte

func (t *tagged) Uvarint() uint32 {
	v, n := binary.Uvarint(*t)
	t.Span(n)
	return uint32(v)
}

func (t *tagged) Span(n int) (b []byte) {
	n = min(max(n, 0), len(*t))
	b, *t = (*t)[:n], (*t)[n:]
	return b
}

func (c *Cluster) Request(r kmsg.Request) *Request {
	return &Request{Request: r, clientID: c.options.ClientID}
}

// Send sends a request of kmsg and returns its answer.
func Send[R kmsg.Response](ctx context.Context, c *Cluster, req protocol.Message) (answer R, generation int, err error) {
	res, generation, err := c.RoundTrip(ctx, req)
	if err == nil {
		answer = res.(response).Response.(R)
	}
	return answer, generation, err
}

// Metadata asks a broker for topics, in any order in the answer, and for what the login may do with
// them. It creates none. The transport would answer kafka-go's own request from its memory.
func (c *Cluster) Metadata(ctx context.Context, topics []string) (*kmsg.MetadataResponse, int, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.Version, req.IncludeTopicAuthorizedOperations = topicIDVersion, true
	// Nil would mean all topics.
	req.Topics = make([]kmsg.MetadataRequestTopic, len(topics))
	for i := range topics {
		req.Topics[i].Topic = &topics[i]
	}
	found, generation, err := Send[*kmsg.MetadataResponse](ctx, c, c.Request(req))
	if err == nil {
		err = c.learn(found, generation)
	}
	return found, generation, err
}

func NameOf(t *kmsg.MetadataResponseTopic) string {
	if t.Topic == nil {
		return ""
	}
	return *t.Topic
}

// IDOf returns the id of a topic as kafka-topics.sh shows it, empty for one that is not there, or
// has none: the broker is older than topic ids, or the cluster was never told to have them.
func IDOf(t *kmsg.MetadataResponseTopic) string {
	if t.ErrorCode != 0 || t.TopicID == [16]byte{} {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(t.TopicID[:])
}
