package sink

import (
	"strconv"
	"time"

	"bridge/internal/texts"
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

// HeaderNames returns the names of all headers in the order of EachHeader.
func HeaderNames() (names []string) {
	// A message without a value has every header that a message may have.
	m := Message{Form: 1, Server: "s", TraceParent: "t", Bare: &Bare{Previous: "p", Reason: "r"}}
	m.EachHeader(func(name, _ string) { names = append(names, name) })
	return names
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

// Each calls yield as m.EachHeader does. The values may be kept, each holds at most 4 KiB, or as
// much as a longer key.
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

// Number returns n in decimal digits. The result stays valid.
func (h *Headers) Number(n uint64) string {
	return h.numbers.Of(strconv.AppendUint(h.digits[:0], n, 10))
}
