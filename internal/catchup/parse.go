package catchup

import (
	"errors"
	"fmt"
	"time"
	"unsafe"

	"github.com/google/uuid"

	"bridge/sink"
)

// errStateless is wrapped where a message of ours has no state: a version before catch-up wrote it.
var errStateless = errors.New("the message has no header " + sink.HeaderState)

// headers are those of a stored message that catch-up reads. They are parts of the message.
type headers struct {
	domain, stream, shard, row, origin, id, kind, version, schema, at, state []byte
}

// read sets h to the headers of m, in one pass.
func (h *headers) read(m *sink.Stored) {
	*h = headers{}
	for i := range m.Headers {
		var dst *[]byte
		switch m.Headers[i].Name {
		case sink.HeaderDomain:
			dst = &h.domain
		case sink.HeaderStream:
			dst = &h.stream
		case sink.HeaderShard:
			dst = &h.shard
		case sink.HeaderRowID:
			dst = &h.row
		case sink.HeaderOrigin:
			dst = &h.origin
		case sink.HeaderID:
			dst = &h.id
		case sink.HeaderType:
			dst = &h.kind
		case sink.HeaderVersion:
			dst = &h.version
		case sink.HeaderSchema:
			dst = &h.schema
		case sink.HeaderPublishedAt:
			dst = &h.at
		case sink.HeaderState:
			dst = &h.state
		default:
			continue
		}
		// The first one counts, as for sink.Stored.Header.
		if *dst == nil {
			*dst = m.Headers[i].Value
		}
	}
}

// parse sets message to what the headers and the key of m say, but for Stream, Shard and At. Its
// Key is a part of m. It allocates nothing but an error.
func (h *headers) parse(m *sink.Stored, message *Message) (err error) {
	if h.state == nil {
		return errStateless
	}
	*message = Message{Key: m.Key, Origin: originOf(h.origin), Dead: string(h.kind) == sink.DeadLetterType}
	// The text is a part of m, and not kept: Key is taken from it as bytes.
	if message.State, err = sink.ParseState(unsafe.String(unsafe.SliceData(h.state), len(h.state))); err != nil {
		return err
	}
	if n := len(message.State.Key); n > 0 {
		message.Key, message.State.Key = h.state[len(h.state)-n-1:len(h.state)-1], ""
	}
	id, err := uuid.ParseBytes(h.id)
	if err != nil {
		return fmt.Errorf("read the header %s: %w", sink.HeaderID, err)
	}
	message.Event = id
	if message.Row, err = number(h.row); err != nil {
		return err
	}
	message.Time = timeOf(h.at)
	if h.at == nil && m.Time != 0 {
		message.Time = time.UnixMilli(m.Time).UTC()
	}
	if !message.Dead {
		message.Schema = parseSchema(h.version, h.schema)
	}
	return nil
}

// number parses the digits of a row id.
func number(digits []byte) (n uint64, err error) {
	for _, c := range digits {
		high := n * 10
		if c < '0' || c > '9' || n > (1<<64-1)/10 || high+uint64(c-'0') < high {
			return 0, fmt.Errorf("read the header %s: %.40q is not a row id", sink.HeaderRowID, digits)
		}
		n = high + uint64(c-'0')
	}
	if len(digits) == 0 {
		return 0, errors.New("the message has no header " + sink.HeaderRowID)
	}
	return n, nil
}

// originOf returns the origin without a copy of its text. One that is not known, of a newer
// version, is empty.
func originOf(text []byte) sink.Origin {
	for _, o := range [...]sink.Origin{sink.FromTail, sink.FromLate, sink.FromModified, sink.FromReconcile, sink.FromSnapshot} {
		if string(text) == string(o) {
			return o
		}
	}
	return ""
}

// timeOf parses sink.PublishedAtFormat in UTC. It returns the zero time for another text: the time
// decides nothing but when an entity was found absent.
func timeOf(text []byte) time.Time {
	const layout = "2006-01-02T15:04:05.000Z"
	if len(text) != len(layout) {
		return time.Time{}
	}
	for i := range layout {
		if digit := text[i] >= '0' && text[i] <= '9'; digit != (layout[i] >= '0' && layout[i] <= '9') || !digit && text[i] != layout[i] {
			return time.Time{}
		}
	}
	part := func(from, to int) (n int) {
		for _, c := range text[from:to] {
			n = n*10 + int(c-'0')
		}
		return n
	}
	return time.Date(part(0, 4), time.Month(part(5, 7)), part(8, 10), part(11, 13), part(14, 16), part(17, 19), part(20, 23)*1_000_000, time.UTC)
}
