package kafka

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/segmentio/kafka-go/protocol"
)

// Requests that kafka-go does not know in the versions that are needed here.
const (
	// topicIDVersion is the first version of Metadata that tells the ids of topics (KIP-516, Kafka
	// 2.8).
	topicIDVersion = 10
	// Versions that every broker answers, and correlation ids; the exchange has its connection to
	// itself.
	apiVersionsVersion = 0
	firstExchange      = 1
	secondExchange     = 2
	// longestAnswer bounds what an answer may claim to be.
	longestAnswer = 16 << 20
)

// topicIDs asks a broker for the ids of topics, as kafka-topics.sh shows them. A topic without one,
// or that is not there, is left out: the broker is older than topic ids, or the cluster was never
// told to have them. It creates no topic.
func (c *cluster) topicIDs(ctx context.Context, topics []string) (map[string]string, int, error) {
	res, generation, err := c.roundTrip(ctx, &topicIDRequest{topics: topics, clientID: c.clientID})
	if err != nil {
		return nil, generation, err
	}
	return res.(topicIDResponse), generation, nil
}

// topicIDRequest is a metadata request that is encoded here.
type topicIDRequest struct {
	topics   []string
	clientID string
}

// topicIDResponse has the ids by topic.
type topicIDResponse map[string]string

var _ protocol.RawExchanger = (*topicIDRequest)(nil)

func (*topicIDRequest) ApiKey() protocol.ApiKey { return protocol.Metadata }
func (topicIDResponse) ApiKey() protocol.ApiKey { return protocol.Metadata }

// Required implements protocol.RawExchanger.
func (*topicIDRequest) Required(map[protocol.ApiKey]int16) bool { return true }

// RawExchange implements protocol.RawExchanger: it asks the broker which versions it speaks, then
// for the topics.
func (r *topicIDRequest) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	answer, err := exchange(rw, appendRequestHeader(nil, protocol.ApiVersions, apiVersionsVersion, firstExchange, r.clientID), firstExchange)
	if err != nil {
		return nil, err
	}
	newest, err := newestVersion(answer, protocol.Metadata)
	if err != nil {
		return nil, fmt.Errorf("read which versions the broker speaks: %w", err)
	}
	if newest < topicIDVersion {
		return topicIDResponse{}, nil
	}
	if answer, err = exchange(rw, r.encode(), secondExchange); err != nil {
		return nil, err
	}
	ids, err := decodeTopicIDs(answer)
	if err != nil {
		return nil, fmt.Errorf("read the ids of topics: %w", err)
	}
	return ids, nil
}

// appendRequestHeader appends the header of a request, version 1, behind room for its size.
func appendRequestHeader(b []byte, key protocol.ApiKey, version int16, correlation int32, clientID string) []byte {
	b = append(b, 0, 0, 0, 0)
	b = binary.BigEndian.AppendUint16(b, uint16(key))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	b = binary.BigEndian.AppendUint32(b, uint32(correlation))
	b = binary.BigEndian.AppendUint16(b, uint16(len(clientID)))
	return append(b, clientID...)
}

// encode returns the request, whose header has version 2: the tags after it.
func (r *topicIDRequest) encode() []byte {
	b := append(appendRequestHeader(nil, protocol.Metadata, topicIDVersion, secondExchange, r.clientID), 0)
	b = binary.AppendUvarint(b, uint64(len(r.topics))+1)
	for _, topic := range r.topics {
		b = append(b, make([]byte, topicIDSize)...)
		b = binary.AppendUvarint(b, uint64(len(topic))+1)
		b = append(append(b, topic...), 0)
	}
	// Create no topic, tell of no operations, no tags.
	return append(b, 0, 0, 0, 0)
}

// topicIDSize is the length of a topic's id, a UUID.
const topicIDSize = 16

// exchange writes a request and returns the answer after its correlation id.
func exchange(rw io.ReadWriter, request []byte, correlation uint32) ([]byte, error) {
	return exchangeInto(rw, request, correlation, room{longest: longestAnswer})
}

// room is for an answer: memory to use, which grows as needed, and a bound for what the answer may
// claim to be.
type room struct {
	memory  []byte
	longest uint32
}

// exchangeInto is exchange with the memory for the answer.
func exchangeInto(rw io.ReadWriter, request []byte, correlation uint32, room room) ([]byte, error) {
	binary.BigEndian.PutUint32(request, uint32(len(request)-4))
	if _, err := rw.Write(request); err != nil {
		return nil, err
	}
	var head [8]byte
	if _, err := io.ReadFull(rw, head[:]); err != nil {
		return nil, err
	}
	size, got := binary.BigEndian.Uint32(head[:4]), binary.BigEndian.Uint32(head[4:])
	if size < 4 || size > room.longest || got != correlation {
		return nil, fmt.Errorf("the broker answers request %d with %d bytes to request %d", correlation, size, got)
	}
	answer := slices.Grow(room.memory[:0], int(size-4))[:size-4]
	_, err := io.ReadFull(rw, answer)
	return answer, err
}

// newestVersion reads an answer to ApiVersions, version 0.
func newestVersion(answer []byte, key protocol.ApiKey) (int16, error) {
	r := wireReader{rest: answer}
	r.next(2)
	newest := int16(-1)
	for range r.uint32() {
		api, _, high := r.uint16(), r.uint16(), r.uint16()
		if r.short {
			break
		}
		if api == uint16(key) {
			newest = int16(high)
		}
	}
	return newest, r.err()
}

// decodeTopicIDs reads an answer to Metadata, version 10, behind the correlation id.
func decodeTopicIDs(answer []byte) (topicIDResponse, error) {
	r := wireReader{rest: answer}
	r.tags()
	r.next(4)
	for range r.count() {
		r.next(4)
		r.text()
		r.next(4)
		r.text()
		r.tags()
	}
	r.text()
	r.next(4)
	ids := make(topicIDResponse)
	for range r.count() {
		code, name := r.uint16(), r.text()
		id := r.next(topicIDSize)
		r.next(1)
		for range r.count() {
			r.next(2 + 4 + 4 + 4)
			for range 3 {
				r.next(4 * r.count())
			}
			r.tags()
		}
		r.next(4)
		r.tags()
		if code == 0 && slices.ContainsFunc(id, func(b byte) bool { return b != 0 }) {
			ids[string(name)] = base64.RawURLEncoding.EncodeToString(id)
		}
	}
	return ids, r.err()
}

// wireReader takes values off the front of an answer. Once one is cut off, short is set and there
// are only zeros.
type wireReader struct {
	rest  []byte
	short bool
}

var errCutOff = errors.New("the answer is cut off")

func (r *wireReader) err() error {
	if r.short {
		return errCutOff
	}
	return nil
}

func (r *wireReader) next(n int) []byte {
	if n < 0 || n > len(r.rest) {
		r.rest, r.short = nil, true
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *wireReader) uint16() uint16 {
	if b := r.next(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (r *wireReader) uint32() uint32 {
	if b := r.next(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (r *wireReader) int64() int64 {
	if b := r.next(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

// count returns how many things follow, each of which takes a byte at least.
func (r *wireReader) count() int {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 || n > uint64(len(r.rest)) {
		r.rest, r.short = nil, true
		return 0
	}
	r.rest = r.rest[size:]
	return max(int(n)-1, 0)
}

func (r *wireReader) text() []byte { return r.next(r.count()) }

// tags passes over tagged fields.
func (r *wireReader) tags() {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 || n > uint64(len(r.rest)) {
		r.rest, r.short = nil, true
		return
	}
	r.rest = r.rest[size:]
	for range n {
		_, size := binary.Uvarint(r.rest)
		r.next(max(size, 1))
		length, size := binary.Uvarint(r.rest)
		if size <= 0 || length > uint64(len(r.rest)) {
			r.rest, r.short = nil, true
			return
		}
		r.next(size + int(length))
	}
}
