package sink

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"example.org/bridge/client/bus"
	"example.org/bridge/internal/texts"
)

// AppendState appends the value of HeaderState to dst. Where keyless says that the bus has no keys,
// the key of m is in it. It allocates nothing where dst has room.
func (m *Message) AppendState(dst []byte, keyless bool) []byte {
	s := m.State
	if keyless && s.Key == "" {
		s.Key = textOf(m.Key)
	}
	return bus.AppendState(dst, &s)
}

// textOf returns b as a string in the same memory.
func textOf(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// digestText is strict: each digest has one text.
var digestText = base64.RawURLEncoding.Strict()

// Headers yields the headers of the messages of a batch with few allocations: the messages share
// one time, which is rendered at most once, and memory for the numbers of their rows and their
// states. It serves one goroutine. The zero value is ready; it must not be copied.
type Headers struct {
	// Keyless says that the bus has no keys: the key of a message is in HeaderState.
	Keyless bool

	time    time.Time
	at      string
	numbers texts.Texts
	digits  [20]byte
	state   []byte
	form    []byte
}

// Each calls yield with the name and value of every header of m, in one order for all messages. The
// values may be kept until Reset, each holds at most 4 KiB, or as much as a longer key.
func (h *Headers) Each(m *Message, yield func(name, value string)) {
	if m.List != "" {
		yield(HeaderContentType, ContentType)
		yield(HeaderType, m.Type)
		yield(HeaderDomain, m.Domain)
		yield(HeaderList, m.List)
		return
	}
	document := m.isDocument()
	if content := m.contentType(); content != "" && (!document || m.Format == FormatCloudEvents) {
		yield(HeaderContentType, content)
	}
	yield(HeaderID, m.ID)
	if !document {
		yield(HeaderType, m.Type)
	}
	if !document || m.IsFirst() {
		yield(HeaderVersion, m.Version)
		yield(HeaderSchema, m.Schema)
	}
	if m.Server != "" && m.IsFirst() {
		yield(HeaderServer, m.Server)
	}
	yield(HeaderDomain, m.Domain)
	yield(HeaderStream, m.Stream)
	yield(HeaderShard, m.Shard)
	yield(HeaderRowID, h.Number(m.RowID))
	yield(HeaderOrigin, string(m.Origin))
	if !document {
		if h.at == "" || !m.Time.Equal(h.time) {
			h.time, h.at = m.Time, m.Time.UTC().Format(PublishedAtFormat)
		}
		yield(HeaderPublishedAt, h.at)
	}
	h.state = m.AppendState(h.state[:0], h.Keyless)
	yield(HeaderState, h.numbers.Of(h.state))
	if m.Form != 0 {
		h.form = m.AppendForm(h.form[:0])
		yield(HeaderForm, h.numbers.Of(h.form))
	}
	if m.TraceParent != "" {
		yield(HeaderTraceParent, m.TraceParent)
	}
	if m.Bare != nil {
		yield(HeaderTime, h.numbers.Of(strconv.AppendInt(h.digits[:0], m.Bare.Time, 10)))
		if m.Bare.Previous != "" {
			yield(HeaderPrevious, m.Bare.Previous)
		}
		if m.Bare.Reason != "" {
			yield(HeaderReason, m.Bare.Reason)
		}
		if m.Format == FormatPayload {
			yield(HeaderFormat, PayloadFormat)
		}
		for _, own := range m.Bare.Headers {
			yield(own.Name, textOf(own.Value))
		}
	}
}

// Reset uses the memory of the values again: none from before may be used any more.
func (h *Headers) Reset() { h.numbers.Reset() }

// Number returns n in decimal digits. The result stays valid.
func (h *Headers) Number(n uint64) string {
	return h.numbers.Of(strconv.AppendUint(h.digits[:0], n, 10))
}

// firstEvery is how many messages of a batch follow one that says what is the same in all of them:
// who reads the newest messages of a TP finds it among a few hundred, however large batches are.
const firstEvery = 512

// IsFirst reports whether m says what is the same in all messages of its batch in its TP.
func (m *Message) IsFirst() bool { return m.First || m.State.Index%firstEvery == 0 }

// mostFirst is how many destinations of a batch get a first message: beyond, each key has its own.
const mostFirst = 8

// NoteFirst notes which messages of batch are the first ones to their destinations, for a bus where
// the destination is what consumers select by.
func NoteFirst(batch []Message) {
	var met [mostFirst]string
	n := 0
	for i := range batch {
		m := &batch[i]
		switch {
		case slices.Contains(met[:n], m.Destination):
		case n == mostFirst:
			return
		default:
			met[n], m.First = m.Destination, true
			n++
		}
	}
}

// AppendForm appends the value of HeaderForm: Form and, unless that is 0, Born, 4 bytes big endian
// each, in base64url without padding.
func (m *Message) AppendForm(dst []byte) []byte {
	if m.Form == 0 {
		return dst
	}
	var b [8]byte
	binary.BigEndian.PutUint32(b[:], m.Form)
	binary.BigEndian.PutUint32(b[4:], m.Born)
	if m.Born == 0 {
		return digestText.AppendEncode(dst, b[:4])
	}
	return digestText.AppendEncode(dst, b[:])
}

// AppendServer appends the value of HeaderServer: when the server was started, in Unix seconds and
// 0 where that is unknown, a blank, and the server as text. Control characters become blanks.
func AppendServer(dst []byte, started int64, server string) []byte {
	dst = append(strconv.AppendInt(dst, started, 10), ' ')
	for i := range len(server) {
		c := server[i]
		if c < ' ' || c == 0x7f {
			c = ' '
		}
		dst = append(dst, c)
	}
	return dst
}

// Bare is what the headers of a message say of an event whose value is the row alone, or a column.
type Bare struct {
	// Time is meta.time in milliseconds.
	Time int64
	// Previous is the target of the link PREVIOUS_VERSION, Reason data.reason; empty for none.
	Previous, Reason string
	// Content is HeaderContentType where Format is FormatPayload; empty: none. Headers are those
	// that the stream names, none of which is a header of bridge, without control characters and
	// blanks at their ends.
	Content string
	Headers []Header
}

// ParseForm reads what AppendForm wrote into HeaderForm, zero where that is not there or of another
// version.
func ParseForm(text []byte) (form, born uint32) {
	var b [8]byte
	if len(text) != digestText.EncodedLen(4) && len(text) != digestText.EncodedLen(8) {
		return 0, 0
	}
	if _, err := digestText.Decode(b[:], text); err != nil {
		return 0, 0
	}
	return binary.BigEndian.Uint32(b[:]), binary.BigEndian.Uint32(b[4:])
}

// ParseServer reads what AppendServer wrote into HeaderServer; server is empty where that is not
// there.
func ParseServer(text []byte) (started int64, server string) {
	number, server, _ := strings.Cut(string(text), " ")
	started, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return 0, ""
	}
	return started, server
}

// isDocument reports whether the value says id, type and version of its event, in its meta. Of a
// tombstone, a row, a column and a dead letter the headers alone do.
func (m *Message) isDocument() bool {
	return m.Value != nil && m.Format != FormatRow && m.Format != FormatPayload && m.Type != DeadLetterType
}

// ReservedPrefixes begin the names, in lower case, of headers that bridge or NATS reads.
var ReservedPrefixes = []string{"bridge-", "eiffel-", "nats-"}

// IsReserved reports whether bridge or the bus sets a header, whatever the case of its name. One
// that is not is of a row.
func IsReserved(name string) bool {
	lower := strings.ToLower(name)
	return lower == HeaderContentType || lower == HeaderTraceParent ||
		slices.ContainsFunc(ReservedPrefixes, func(begin string) bool { return strings.HasPrefix(lower, begin) })
}

func (m *Message) contentType() string {
	switch {
	case m.Format == FormatCloudEvents:
		return ContentTypeCloud
	case m.Format == FormatPayload && m.Bare != nil:
		return m.Bare.Content
	}
	return ContentType
}

// ListBoundary returns the message at the beginning or the end of a full list of a stream, for
// one TP or subject; at is where, empty for a destination that is one order. It has no header by
// which a reader would take it for an event.
func ListBoundary(kind, id, domain, stream, destination, at string, now time.Time) Message {
	// Nothing in it can fail to be encoded.
	value, _ := json.Marshal(struct {
		List   string `json:"list"`
		ID     string `json:"id"`
		Domain string `json:"domain"`
		Stream string `json:"stream"`
	}{kind, id, domain, stream})
	return Message{
		Destination: destination, TP: at, Key: []byte(bus.ListKey + stream), Value: value, ID: id + "/" + kind, Type: ListType,
		Domain: domain, Time: now, List: kind + ";" + id + ";" + stream,
	}
}
