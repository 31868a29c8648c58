package kafka

import (
	"encoding/binary"
	"strconv"

	"bridge/sink"
)

// headers encodes the headers of one message after the other. All but three are most often those of
// the message before, and are encoded once for all of these. The zero value is ready for use.
type headers struct {
	texts sink.Headers
	// last is the message that common was made of: all headers but for the values of its id, its
	// row and its state, which belong where atID and atRow say, and behind all.
	last        sink.Message
	common      []byte
	atID, atRow int
	// null and first are of last, too: it has no value, it is the first message of its batch in its
	// partition.
	null, first bool
	// each is how many headers last has without those in bare.
	each int64
	// row is the value of the row's id, in digits, state that of sink.HeaderState.
	row    []byte
	digits [20]byte
	state  []byte
	// bare are the headers behind the state, count how many all are.
	bare  []byte
	count int64
}

// of takes over the headers of m, for append, and returns how many bytes they are.
func (h *headers) of(m *sink.Message) int {
	l := &h.last
	if h.common == nil || m.Type != l.Type || m.Version != l.Version || m.Schema != l.Schema || m.Domain != l.Domain || m.Stream != l.Stream || m.Shard != l.Shard ||
		m.Origin != l.Origin || m.Format != l.Format || !m.Time.Equal(l.Time) || (m.Value == nil) != h.null || m.IsFirst() != h.first || m.Server != l.Server {
		h.renew(m)
	}
	h.row = strconv.AppendUint(h.digits[:0], m.RowID, 10)
	h.state = m.AppendState(h.state[:0], false)
	h.count, h.bare = h.each, h.bare[:0]
	if m.Form != 0 {
		h.addText(sink.HeaderForm)
		var text [16]byte
		h.addText(string(m.AppendForm(text[:0])))
		h.count++
	}
	if m.TraceParent != "" {
		h.addText(sink.HeaderTraceParent)
		h.addText(m.TraceParent)
		h.count++
	}
	if m.Bare != nil {
		h.addBare(m.Bare)
	}
	return varintLen(h.count) + len(h.common) + textLen(len(m.ID)) + textLen(len(h.row)) + textLen(len(h.state)) + len(h.bare)
}

// addBare adds the headers that say what a value does not.
func (h *headers) addBare(b *sink.Bare) {
	h.addText(sink.HeaderTime)
	var digits [20]byte
	h.addText(string(strconv.AppendInt(digits[:0], b.Time, 10)))
	h.count++
	for _, one := range [...][2]string{{sink.HeaderPrevious, b.Previous}, {sink.HeaderReason, b.Reason}} {
		if one[1] != "" {
			h.addText(one[0])
			h.addText(one[1])
			h.count++
		}
	}
}

func (h *headers) addText(text string) {
	h.bare = append(binary.AppendVarint(h.bare, int64(len(text))), text...)
}

// textLen is the size of a text of n bytes with its length.
func textLen(n int) int { return varintLen(int64(n)) + n }

func (h *headers) renew(m *sink.Message) {
	h.last = sink.Message{Type: m.Type, Version: m.Version, Schema: m.Schema, Domain: m.Domain, Stream: m.Stream, Shard: m.Shard, Origin: m.Origin, Format: m.Format, Time: m.Time, Server: m.Server}
	h.null, h.first, h.each = m.Value == nil, m.IsFirst(), 0
	b := h.common[:0]
	plain := *m
	plain.Bare, plain.TraceParent, plain.Form = nil, "", 0
	h.texts.Each(&plain, func(name, value string) {
		h.each++
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
// the event's, the state is the last of those that every message has.
func (h *headers) append(b []byte, m *sink.Message) []byte {
	b = append(binary.AppendVarint(b, h.count), h.common[:h.atID]...)
	b = append(binary.AppendVarint(b, int64(len(m.ID))), m.ID...)
	b = append(b, h.common[h.atID:h.atRow]...)
	b = append(binary.AppendVarint(b, int64(len(h.row))), h.row...)
	b = append(b, h.common[h.atRow:]...)
	b = append(binary.AppendVarint(b, int64(len(h.state))), h.state...)
	return append(b, h.bare...)
}
