package bus

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"github.com/google/uuid"
)

// The headers of messages, on every bus. Values that may differ between two sends of an event are
// headers and never part of the event. What the value says, or the bus by itself, is not a header:
// HeaderContentType, but of a CloudEvent, HeaderType and HeaderPublishedAt belong to a message
// whose value is not a document. HeaderVersion and HeaderSchema belong to such a message, and to
// the first one of a batch in each TP, as HeaderServer does.
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
	// HeaderForm tells rows apart, for bridge alone; HeaderServer says where they were
	// read, for bridge alone.
	HeaderForm   = "bridge-form"
	HeaderServer = "bridge-server"
	// HeaderState holds a [State] as AppendState writes it: what recovery reads (decision 17).
	HeaderState = "bridge-state"
)

// RepublishOrigin is the value of HeaderOrigin of an event that is published again because somebody
// asked for it: the bus has, or had, another message with its id.
const RepublishOrigin = "republish"

// The headers of a message whose value is the row alone, behind the others. A message without a
// predecessor or a reason is without their headers.
const (
	HeaderTime     = "eiffel-time"
	HeaderPrevious = "eiffel-previous"
	HeaderReason   = "bridge-reason"
)

// HeaderFormat is [PayloadFormat] in a message whose value is a column as it is, and not there in
// others. Such a message has the headers of one whose value is the row, too, and those that its
// stream names, whose names begin neither with "bridge-" nor with "eiffel-".
const (
	HeaderFormat  = "bridge-format"
	PayloadFormat = "payload"
)

// HeaderTraceParent is a header of W3C Trace Context. It is there where bridge traces, behind
// [HeaderState].
const HeaderTraceParent = "traceparent"

// PublishedAtFormat is the layout of HeaderPublishedAt, of a time in UTC: RFC 3339, to the
// millisecond.
const PublishedAtFormat = "2006-01-02T15:04:05.000Z"

// Format is how the value of a message is written.
type Format uint8

// The formats: an Eiffel document, a CloudEvent whose data is one, the columns of the row alone,
// and one column as it is. What a value does not say then, the headers say.
const (
	FormatEiffel Format = iota
	FormatCloudEvents
	FormatRow
	FormatPayload
)

// FormatOf returns how the value of a message with these headers is written: a row has its time in
// a header.
func FormatOf(f *Fields) Format {
	switch {
	case string(f.Format) == PayloadFormat:
		return FormatPayload
	case string(f.ContentType) == ContentTypeCloud:
		return FormatCloudEvents
	case f.Time != nil:
		return FormatRow
	}
	return FormatEiffel
}

// The values of HeaderContentType.
const (
	ContentType      = "application/json"
	ContentTypeCloud = "application/cloudevents+json"
)

// HeaderList says where a full list of a stream begins and ends in a TP: a message with it is no
// event. Its value is [ListBegins] or [ListEnds], the id of the list and the stream, joined by
// semicolons. ListType is its type, and ListKey before the stream its key, which no entity has:
// both boundaries have one, so a compacted topic never keeps them without the events between.
const (
	HeaderList = "bridge-list"
	ListBegins = "begin"
	ListEnds   = "end"
	ListType   = "BridgeListEvent"
	ListKey    = "%list/"
)

// ListOf returns what a boundary of a list says, false for any other one.
func ListOf(m *Stored) (kind, id, stream string, is bool) {
	kind, rest, _ := strings.Cut(string(m.Header(HeaderList)), ";")
	id, stream, is = strings.Cut(rest, ";")
	return kind, id, stream, is && (kind == ListBegins || kind == ListEnds)
}

// DeadLetterType is the type of a dead letter: a message about one that the bus refuses.
const DeadLetterType = "BridgeDeadLetterEvent"

// Fields are the values of the headers of a stored message, nil where it has none. They are parts
// of it, and valid as long. Errors share no memory with the message.
type Fields struct {
	ContentType, ID, Type, Version, Schema, Domain, Stream, Shard, RowID, Origin, PublishedAt, State, Form, Server, Time, Format []byte
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
		case HeaderFormat:
			dst = &f.Format
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

// maxTopic is the longest name of a Kafka topic, in bytes.
const maxTopic = 249

// CheckTopic returns nil if name is a legal Kafka topic: 1 to 249 bytes of [A-Za-z0-9._-], neither
// "." nor ".." (org.apache.kafka.common.internals.Topic).
func CheckTopic(name string) error {
	switch i := BadTopicByte(name); {
	case name == "":
		return fmt.Errorf("the Kafka topic is empty, give it a name")
	case name == "." || name == "..":
		return fmt.Errorf("the Kafka topic may not be %q: give it another name", name)
	case len(name) > maxTopic:
		return fmt.Errorf("the Kafka topic %.40q… has %d bytes, at most %d are allowed", name, len(name), maxTopic)
	case i >= 0:
		return fmt.Errorf("the Kafka topic %q has %q, a topic has only letters, digits and . _ -", name, name[i:i+1])
	}
	return nil
}

// BadTopicByte returns the index of the first byte that no topic has, or -1.
func BadTopicByte(s string) int {
	for i := range len(s) {
		if !IsTokenByte(s[i]) && s[i] != '.' {
			return i
		}
	}
	return -1
}

// Covers reports whether pattern, a NATS subject that may have the wildcards * and >, covers every
// subject that other, one subject or such a pattern, covers.
func Covers(pattern, other string) bool {
	for {
		p, restP, moreP := strings.Cut(pattern, ".")
		if p == ">" {
			return true
		}
		o, restO, moreO := strings.Cut(other, ".")
		if p != o && (p != "*" || o == ">") || moreP != moreO {
			return false
		}
		if !moreP {
			return true
		}
		pattern, other = restP, restO
	}
}

// CoversAny reports whether one of patterns covers other.
func CoversAny(patterns []string, other string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return Covers(pattern, other) })
}

// Coverer returns a function that returns a pattern that covers a subject or pattern, another one
// rather than itself; empty for none. Many patterns have few forms: what they have wildcards in.
func Coverer(patterns []string) func(other string) (by string) {
	known, forms := make(map[string]bool, len(patterns)), make(map[string]bool)
	for _, pattern := range patterns {
		known[pattern], forms[literal.ReplaceAllString(pattern, "x")] = true, true
	}
	return func(other string) (by string) {
		for form := range forms {
			if to := inForm(strings.Split(form, "."), strings.Split(other, ".")); known[to] && (by == "" || by == other) {
				by = to
			}
		}
		return by
	}
}

// literal matches tokens that are no wildcards.
var literal = regexp.MustCompile(`[^.]{2,}|[^.*>]`)

// inForm returns tokens with the wildcards of a form, empty where that covers none like them.
func inForm(form, tokens []string) string {
	for i, token := range form {
		switch {
		case i == len(tokens), token == "*" && tokens[i] == ">":
			return ""
		case token == ">":
			return strings.Join(append(tokens[:i], token), ".")
		case token == "*":
			tokens[i] = token
		}
	}
	if len(tokens) > len(form) {
		return ""
	}
	return strings.Join(tokens, ".")
}

// Meet reports whether some subject is covered by both patterns.
func Meet(a, b string) bool {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for n := range min(len(as), len(bs)) {
		if as[n] == ">" || bs[n] == ">" {
			return true
		}
		if as[n] != bs[n] && as[n] != "*" && bs[n] != "*" {
			return false
		}
	}
	return len(as) == len(bs)
}

// MeetsAny reports whether some subject is covered by other and by one of patterns.
func MeetsAny(patterns []string, other string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return Meet(pattern, other) })
}

// Widen returns which of wanted the subjects of a stream do not cover, and the subjects with these:
// those of one stream must not overlap.
func Widen(subjects, wanted []string) (lacks, all []string) {
	covers := Coverer(subjects)
	lacks = slices.DeleteFunc(slices.Clone(wanted), func(s string) bool { return covers(s) != "" })
	covers = Coverer(lacks)
	return lacks, append(slices.DeleteFunc(slices.Clone(subjects), func(s string) bool { return covers(s) != "" }), lacks...)
}

// IsTokenByte reports whether c needs no escape in a token of a NATS subject.
func IsTokenByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-'
}
