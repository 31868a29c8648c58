package kafka

import (
	"encoding/binary"
	"strconv"

	"bridge/sink"
)

// headersPerMessage is how many headers sink.Message.EachHeader yields.
var headersPerMessage = func() (n int64) {
	new(sink.Message).EachHeader(func(string, string) { n++ })
	return n
}()

// headers encodes the headers of one message after the other. All but three are most often those of
// the message before, and are encoded once for all of these. The zero value is ready for use.
type headers struct {
	texts sink.Headers
	// last is the message that common was made of: all headers but for the values of its id, its
	// row and its state, which belong where atID and atRow say, and behind all.
	last        sink.Message
	common      []byte
	atID, atRow int
	// row is the value of the row's id, in digits, state that of sink.HeaderState.
	row    []byte
	digits [20]byte
	state  []byte
}

// of takes over the headers of m, for append, and returns how many bytes they are.
func (h *headers) of(m *sink.Message) int {
	l := &h.last
	if h.common == nil || m.Type != l.Type || m.Version != l.Version || m.Schema != l.Schema || m.Domain != l.Domain || m.Stream != l.Stream || m.Shard != l.Shard ||
		m.Origin != l.Origin || !m.Time.Equal(l.Time) {
		h.renew(m)
	}
	h.row = strconv.AppendUint(h.digits[:0], m.RowID, 10)
	h.state = m.AppendState(h.state[:0], false)
	return len(h.common) + textLen(len(m.ID)) + textLen(len(h.row)) + textLen(len(h.state))
}

// textLen is the size of a text of n bytes with its length.
func textLen(n int) int { return varintLen(int64(n)) + n }

func (h *headers) renew(m *sink.Message) {
	h.last = sink.Message{Type: m.Type, Version: m.Version, Schema: m.Schema, Domain: m.Domain, Stream: m.Stream, Shard: m.Shard, Origin: m.Origin, Time: m.Time}
	b := binary.AppendVarint(h.common[:0], headersPerMessage)
	h.texts.Each(m, func(name, value string) {
		b = append(binary.AppendVarint(b, int64(len(name))), name...)
		switch name {
		case sink.HeaderID:
			h.atID = len(b)
		case sink.HeaderRowID:
			h.atRow = len(b)
		case sink.HeaderState:
		default:
			b = append(binary.AppendVarint(b, int64(len(value))), value...)
		}
	})
	h.common = b
}

// append appends the headers of m, which were given to of just before. The row's id comes after
// the event's, the state is the last.
func (h *headers) append(b []byte, m *sink.Message) []byte {
	b = append(b, h.common[:h.atID]...)
	b = append(binary.AppendVarint(b, int64(len(m.ID))), m.ID...)
	b = append(b, h.common[h.atID:h.atRow]...)
	b = append(binary.AppendVarint(b, int64(len(h.row))), h.row...)
	b = append(b, h.common[h.atRow:]...)
	return append(binary.AppendVarint(b, int64(len(h.state))), h.state...)
}
