package sink

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"github.com/google/uuid"

	"example.org/bridge/internal/texts"
)

// The headers of messages, on every bus. Values that may differ between two sends of an event are
// headers and never part of the event. What the value says, or the bus by itself, is no header:
// HeaderContentType, but of a CloudEvent, HeaderType and HeaderPublishedAt belong to a message
// whose value is no document. HeaderVersion and HeaderSchema belong to such a message, and to the
// first one of a batch in each TP, as HeaderServer does.
const (
	HeaderContentType = "content-type"
	HeaderID          = "eiffel-id"
	HeaderType        = "eiffel-type"
	HeaderVersion     = "eiffel-version"
	HeaderSchema      = "bridge-schema"
	HeaderDomain      = "bridge-domain"
	HeaderStream      = "bridge-stream"
	HeaderShard       = "bridge-shard"
	HeaderRowID       = "bridge-row-id"
	HeaderOrigin      = "bridge-origin"
	HeaderPublishedAt = "bridge-published-at"
	// HeaderForm tells rows apart, see [Message.AppendForm]; HeaderServer says where they were
	// read, see [Message.Server].
	HeaderForm   = "bridge-form"
	HeaderServer = "bridge-server"
	// HeaderState holds a [State] as AppendState writes it: what recovery reads (decision 17).
	HeaderState = "bridge-state"
)

// The headers of a message whose value is the row alone, behind the others. A message without a
// predecessor or a reason is without their headers.
const (
	HeaderTime     = "eiffel-time"
	HeaderPrevious = "eiffel-previous"
	HeaderReason   = "bridge-reason"
)

// HeaderTraceParent is a header of W3C Trace Context. It is there where bridge traces, behind
// [HeaderState].
const HeaderTraceParent = "traceparent"

// PublishedAtFormat is the layout of HeaderPublishedAt, of a time in UTC: RFC 3339, to the
// millisecond.
const PublishedAtFormat = "2006-01-02T15:04:05.000Z"

// EachHeader calls yield with the name and value of every header of m on a bus with keys. Headers
// of all messages come in one order.
func (m *Message) EachHeader(yield func(name, value string)) {
	r := rendered{row: strconv.FormatUint(m.RowID, 10), state: string(m.AppendState(nil, false)), form: string(m.AppendForm(nil))}
	if !m.isDocument() {
		r.at = publishedAt(m.Time)
	}
	if m.Bare != nil {
		r.time = strconv.FormatInt(m.Bare.Time, 10)
	}
	m.eachHeader(r, yield)
}

// rendered are the values of headers that are not texts of the message.
type rendered struct{ row, at, state, form, time string }

func (m *Message) eachHeader(r rendered, yield func(name, value string)) {
	document := m.isDocument()
	if !document || m.Format == FormatCloudEvents {
		yield(HeaderContentType, m.contentType())
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
	yield(HeaderRowID, r.row)
	yield(HeaderOrigin, string(m.Origin))
	if !document {
		yield(HeaderPublishedAt, r.at)
	}
	yield(HeaderState, r.state)
	if m.Form != 0 {
		yield(HeaderForm, r.form)
	}
	if m.TraceParent != "" {
		yield(HeaderTraceParent, m.TraceParent)
	}
	if m.Bare != nil {
		m.Bare.eachHeader(r.time, yield)
	}
}

// eachHeader yields the headers of b; time is its Time in digits.
func (b *Bare) eachHeader(time string, yield func(name, value string)) {
	yield(HeaderTime, time)
	if b.Previous != "" {
		yield(HeaderPrevious, b.Previous)
	}
	if b.Reason != "" {
		yield(HeaderReason, b.Reason)
	}
}

func publishedAt(t time.Time) string { return t.UTC().Format(PublishedAtFormat) }

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

// Each calls yield as m.EachHeader does. The values may be kept until Reset, each holds at most
// 4 KiB, or as much as a longer key.
func (h *Headers) Each(m *Message, yield func(name, value string)) {
	if !m.isDocument() && (h.at == "" || !m.Time.Equal(h.time)) {
		h.time, h.at = m.Time, publishedAt(m.Time)
	}
	h.state = m.AppendState(h.state[:0], h.Keyless)
	r := rendered{row: h.Number(m.RowID), at: h.at, state: h.numbers.Of(h.state)}
	if m.Form != 0 {
		h.form = m.AppendForm(h.form[:0])
		r.form = h.numbers.Of(h.form)
	}
	if m.Bare != nil {
		r.time = h.numbers.Of(strconv.AppendInt(h.digits[:0], m.Bare.Time, 10))
	}
	m.eachHeader(r, yield)
}

// Reset uses the memory of the values again: none from before may be used any more.
func (h *Headers) Reset() { h.numbers.Reset() }

// Number returns n in decimal digits. The result stays valid.
func (h *Headers) Number(n uint64) string {
	return h.numbers.Of(strconv.AppendUint(h.digits[:0], n, 10))
}

// Fields are the values of the headers of a stored message, nil where it has none. They are parts
// of it, and valid as long. Errors share no memory with the message.
type Fields struct {
	ContentType, ID, Type, Version, Schema, Domain, Stream, Shard, RowID, Origin, PublishedAt, State, Form, Server, Time []byte
}

// Read sets f to the headers of m, in one pass. The first one of a name counts, as for
// [Stored.Header].
func (f *Fields) Read(m *Stored) {
	*f = Fields{}
	for i := range m.Headers {
		var dst *[]byte
		switch m.Headers[i].Name {
		case HeaderContentType:
			dst = &f.ContentType
		case HeaderID:
			dst = &f.ID
		case HeaderType:
			dst = &f.Type
		case HeaderVersion:
			dst = &f.Version
		case HeaderSchema:
			dst = &f.Schema
		case HeaderDomain:
			dst = &f.Domain
		case HeaderStream:
			dst = &f.Stream
		case HeaderShard:
			dst = &f.Shard
		case HeaderRowID:
			dst = &f.RowID
		case HeaderOrigin:
			dst = &f.Origin
		case HeaderPublishedAt:
			dst = &f.PublishedAt
		case HeaderState:
			dst = &f.State
		case HeaderForm:
			dst = &f.Form
		case HeaderServer:
			dst = &f.Server
		case HeaderTime:
			dst = &f.Time
		default:
			continue
		}
		if *dst == nil {
			*dst = m.Headers[i].Value
		}
	}
}

// ParseID returns the id of the event.
func (f *Fields) ParseID() (uuid.UUID, error) {
	id, err := uuid.ParseBytes(f.ID)
	if err != nil {
		return id, fmt.Errorf("read the header %s: %w", HeaderID, err)
	}
	return id, nil
}

// ParseRowID returns the id of the row.
func (f *Fields) ParseRowID() (uint64, error) {
	row, err := strconv.ParseUint(textOf(f.RowID), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read the header %s: %.40q is not a row id", HeaderRowID, f.RowID)
	}
	return row, nil
}

// ParseTime returns meta.time in ms since 1970, 0 where no header has it.
func (f *Fields) ParseTime() (int64, error) {
	if f.Time == nil {
		return 0, nil
	}
	ms, err := strconv.ParseInt(textOf(f.Time), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read the header %s: %.40q is not a number of milliseconds", HeaderTime, f.Time)
	}
	return ms, nil
}

// ParseState returns the state without its key, and the key of m: that of the state, if it has one.
func (f *Fields) ParseState(m *Stored) (s State, key []byte, err error) {
	s, err = ParseState(textOf(f.State))
	n := len(s.Key)
	if err != nil || n == 0 {
		return s, m.Key, err
	}
	s.Key = ""
	return s, f.State[len(f.State)-n-1 : len(f.State)-1], nil
}

// Published returns when the message was made, in ms since 1970: by its header, else by the bus; 0
// where that is not known.
func (f *Fields) Published(m *Stored) int64 {
	if f.PublishedAt == nil {
		return m.Time
	}
	at, err := time.Parse(PublishedAtFormat, textOf(f.PublishedAt))
	if err != nil {
		return 0
	}
	return at.UnixMilli()
}

// textOf returns b as a string in the same memory.
func textOf(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

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
		m, known := &batch[i], false
		for _, destination := range met[:n] {
			if known = destination == m.Destination; known {
				break
			}
		}
		if !known {
			if n == mostFirst {
				return
			}
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

// ParseForm reads what AppendForm wrote, zero where that is not there or of another version.
func (f *Fields) ParseForm() (form, born uint32) {
	var b [8]byte
	if len(f.Form) != digestText.EncodedLen(4) && len(f.Form) != digestText.EncodedLen(8) {
		return 0, 0
	}
	if _, err := digestText.Decode(b[:], f.Form); err != nil {
		return 0, 0
	}
	return binary.BigEndian.Uint32(b[:]), binary.BigEndian.Uint32(b[4:])
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

// ParseServer reads what AppendServer wrote; server is empty where that is not there.
func (f *Fields) ParseServer() (started int64, server string) {
	number, server, _ := strings.Cut(string(f.Server), " ")
	started, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return 0, ""
	}
	return started, server
}

// Format is how the value of a message is written.
type Format uint8

// The formats: an Eiffel document, a CloudEvent whose data is one, and the columns of the row
// alone. What a value does not say then, the headers say.
const (
	FormatEiffel Format = iota
	FormatCloudEvents
	FormatRow
)

// Bare is what the headers of a message say of an event whose value is the row alone.
type Bare struct {
	// Time is meta.time in milliseconds.
	Time int64
	// Previous is the target of the link PREVIOUS_VERSION, Reason data.reason; empty for none.
	Previous, Reason string
}

// The values of HeaderContentType.
const (
	ContentType      = "application/json"
	ContentTypeCloud = "application/cloudevents+json"
)

// isDocument reports whether the value says id, type and version of its event, in its meta. Of a
// tombstone, a row and a dead letter the headers alone do.
func (m *Message) isDocument() bool {
	return m.Value != nil && m.Format != FormatRow && m.Type != DeadLetterType
}

// contentType returns the value of HeaderContentType.
func (m *Message) contentType() string {
	if m.Format == FormatCloudEvents {
		return ContentTypeCloud
	}
	return ContentType
}
