package kafka

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/segmentio/kafka-go/protocol"
)

const (
	// fetchBytes bounds an answer that holds more than one batch, fetchWait how long the leader
	// waits for something to answer with.
	fetchBytes = 4 << 20
	fetchWait  = 500 * time.Millisecond
	// longestFetch bounds what an answer may claim to be: one batch can have any size.
	longestFetch = 1 << 30
	// oldestFetch is the first version of Fetch that tells of transactions (Kafka 0.11),
	// newestFetch the last one without topic ids and tags that is encoded here.
	oldestFetch = 4
	newestFetch = 11
	// readCommitted has the leader hide what is not decided yet, and name what was aborted.
	readCommitted = 1
)

// fetchRequest asks the leader of a partition for the batches from an offset on, as they lie in its
// log: kafka-go's own request hides control batches, and decodes into single allocations.
type fetchRequest struct {
	topic     string
	partition int32
	offset    int64
	clientID  string
	// memory is used for the answer. It belongs to the request until that has succeeded.
	memory  []byte
	version int16
}

// fetchAnswer is what a leader answers. Its slices are in memory.
type fetchAnswer struct {
	highWatermark, lastStable, logStart int64
	aborted                             []abortedTransaction
	batches                             []byte
	memory                              []byte
}

// abortedTransaction says that what a producer wrote from an offset on, up to its next abort
// marker, does not count.
type abortedTransaction struct{ producer, first int64 }

var (
	_ protocol.BrokerMessage = (*fetchRequest)(nil)
	_ protocol.RawExchanger  = (*fetchRequest)(nil)
)

func (*fetchRequest) ApiKey() protocol.ApiKey { return protocol.Fetch }
func (*fetchAnswer) ApiKey() protocol.ApiKey  { return protocol.Fetch }

// Broker implements protocol.BrokerMessage: it returns the leader.
func (r *fetchRequest) Broker(cluster protocol.Cluster) (protocol.Broker, error) {
	topic, known := cluster.Topics[r.topic]
	if !known {
		return protocol.Broker{}, protocol.NewErrNoTopic(r.topic)
	}
	partition, known := topic.Partitions[r.partition]
	if !known {
		return protocol.Broker{}, protocol.NewErrNoPartition(r.topic, r.partition)
	}
	leader, known := cluster.Brokers[partition.Leader]
	if !known {
		return protocol.Broker{}, protocol.NewErrNoLeader(r.topic, r.partition)
	}
	return leader, nil
}

// Required implements protocol.RawExchanger. It learns the version that the broker speaks.
func (r *fetchRequest) Required(versions map[protocol.ApiKey]int16) bool {
	r.version = min(versions[protocol.Fetch], newestFetch)
	return true
}

// RawExchange implements protocol.RawExchanger.
func (r *fetchRequest) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	if r.version < oldestFetch {
		return nil, fmt.Errorf("the broker speaks version %d of Fetch, wanted is %d (Kafka 0.11)", r.version, oldestFetch)
	}
	body, err := exchangeInto(rw, r.encode(), firstExchange, room{r.memory, longestFetch})
	if err != nil {
		return nil, err
	}
	return r.decode(body)
}

// encode returns the request behind room for its size.
func (r *fetchRequest) encode() []byte {
	order := binary.BigEndian
	b := appendRequestHeader(nil, protocol.Fetch, r.version, firstExchange, r.clientID)
	b = order.AppendUint32(b, 1<<32-1) // no replica
	b = order.AppendUint32(b, uint32(fetchWait.Milliseconds()))
	b = order.AppendUint32(b, 1) // bytes at least
	b = order.AppendUint32(b, fetchBytes)
	b = append(b, readCommitted)
	if r.version >= 7 {
		b = order.AppendUint32(b, 0)       // no session
		b = order.AppendUint32(b, 1<<32-1) // nor a new one
	}
	b = order.AppendUint32(b, 1)
	b = append(order.AppendUint16(b, uint16(len(r.topic))), r.topic...)
	b = order.AppendUint32(b, 1)
	b = order.AppendUint32(b, uint32(r.partition))
	if r.version >= 9 {
		b = order.AppendUint32(b, 1<<32-1) // any epoch of the leader
	}
	b = order.AppendUint64(b, uint64(r.offset))
	if r.version >= 5 {
		b = order.AppendUint64(b, 1<<64-1) // no log start: this is no replica
	}
	b = order.AppendUint32(b, fetchBytes)
	if r.version >= 7 {
		b = order.AppendUint32(b, 0) // nothing to forget
	}
	if r.version >= 11 {
		b = order.AppendUint16(b, 0) // no rack: the leader answers itself
	}
	return b
}

// errThrottled says that the leader answers nothing because a quota is used up.
var errThrottled = errors.New("the broker throttles fetches: a quota is used up")

// decode reads an answer behind the correlation id.
func (r *fetchRequest) decode(body []byte) (*fetchAnswer, error) {
	w := wireReader{rest: body}
	throttled := w.uint32() > 0
	if r.version >= 7 {
		code := int16(w.uint16())
		w.next(4)
		if err := answer(code, ""); err != nil {
			return nil, err
		}
	}
	if topics := w.uint32(); topics == 0 && throttled {
		return nil, errThrottled
	} else if topics != 1 && !w.short {
		return nil, fmt.Errorf("the broker answers for %d topics, asked was for one", topics)
	}
	topic := string(w.next(int(w.uint16())))
	partitions, partition, code := w.uint32(), int32(w.uint32()), int16(w.uint16())
	a := &fetchAnswer{memory: body, highWatermark: w.int64(), lastStable: w.int64(), logStart: -1}
	if r.version >= 5 {
		a.logStart = w.int64()
	}
	for range max(int32(w.uint32()), 0) {
		aborted := abortedTransaction{producer: w.int64(), first: w.int64()}
		if w.short {
			break
		}
		a.aborted = append(a.aborted, aborted)
	}
	if r.version >= 11 {
		w.next(4)
	}
	a.batches = w.next(int(max(int32(w.uint32()), 0)))
	switch {
	case w.short:
		return nil, errCutOff
	case partitions != 1 || topic != r.topic || partition != r.partition:
		return nil, fmt.Errorf("the broker answers for %d partitions, of them %s", partitions, tp(topic, partition))
	}
	return a, answer(code, "")
}

// end returns the offset behind the last whole batch of an answer, -1 if there is none.
func (a *fetchAnswer) end() int64 {
	end := int64(-1)
	for rest := a.batches; len(rest) > batchHead; {
		size := int64(binary.BigEndian.Uint32(rest[lengthAt-sizePrefix:])) + batchHead
		if size > int64(len(rest)) || size <= batchHead {
			break
		}
		first := int64(binary.BigEndian.Uint64(rest))
		end = first + 1
		if size >= headerBytes && rest[magicAt-sizePrefix] >= 2 {
			end = first + int64(int32(binary.BigEndian.Uint32(rest[lastDeltaAt-sizePrefix:]))) + 1
		}
		rest = rest[size:]
	}
	return end
}

// producersUpTo moves the producers of transactions that begin at or before an offset into set.
func producersUpTo(list []abortedTransaction, last int64, set []int64) ([]abortedTransaction, []int64) {
	for len(list) > 0 && list[0].first <= last {
		if !slices.Contains(set, list[0].producer) {
			set = append(set, list[0].producer)
		}
		list = list[1:]
	}
	return list, set
}
