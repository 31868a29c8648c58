package sink

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"example.org/bridge/client/bus"
)

// DeadLetterVersion is the Version of dead letters, whose Type is [DeadLetterType]. A dead letter
// is not an Eiffel event: it has no envelope, and it describes a message and not an entity.
const DeadLetterVersion = "1.1.0"

// MinDeadLetter is the least limit of the size of a dead letter, in bytes. A smaller limit counts
// as this one.
const MinDeadLetter = 1024

// deadLetterSpace is the name space of the ids of dead letters, a UUID made once at random.
var deadLetterSpace = uuid.UUID{0x5b, 0x0f, 0x9c, 0x1e, 0x7a, 0x52, 0x4d, 0x0b, 0x9e, 0x36, 0xc4, 0x61, 0x28, 0xd7, 0x8f, 0xa3}

// Refused is a message that the bus refuses for good.
type Refused struct {
	Message
	// Reason is the bus's answer.
	Reason string
	// Entity is the key of the entity that the event is about; empty where there is none.
	Entity []byte
}

// DeadLetter makes the message that goes to the dead-letter destination in place of r. Its Value is
// a [DeadLetterDocument] in JSON. The excerpt is cut at a character's boundary; bytes that are not
// UTF-8 appear as U+FFFD.
//
// Key and Value together have at most limit bytes: the key and the texts of the document are cut to
// fit, and an entity that does not fit is left out. Headers come on top; of an entity they have the
// whole key, and without it most need less than 1 KiB. The id is a UUID of version 5 over the
// destination and the document, which holds the event's id, so a repeat has the same id and bytes
// (invariant 4). Schema, Domain, Stream, Shard, RowID, Origin and Time are those of r, and so is
// State but for its Event and Key, which name the refused event: recovery takes the dead letter for
// it.
func DeadLetter(r Refused, destination string, limit int) Message {
	limit = max(limit, MinDeadLetter)
	key := r.Key
	if len(key) > limit/8 {
		key = []byte(cut(key, limit/8))
	}
	body := document(&r, limit-len(key))
	return Message{
		Destination: destination,
		Key:         append([]byte(nil), key...),
		Value:       body,
		// Invariant 4: same document, same id.
		ID:      uuid.NewSHA1(deadLetterSpace, slices.Concat([]byte(destination), []byte{0}, body)).String(),
		Type:    DeadLetterType,
		Version: DeadLetterVersion,
		Schema:  r.Schema,
		Domain:  r.Domain,
		Stream:  r.Stream,
		Shard:   r.Shard,
		RowID:   r.RowID,
		Origin:  r.Origin,
		Time:    r.Time,
		State:   r.deadState(len(key) < len(r.Key)),
	}
}

// deadState returns the state of the dead letter of r, whose key may be shortened: then only that
// of an entity is in the state, since a bus refuses long headers.
func (r *Refused) deadState(shortened bool) State {
	state := r.State
	if state.Key = string(r.Key); shortened && len(r.Entity) == 0 {
		state.Key = ""
	}
	// What has another id is no event of bridge, and has none here.
	if id, err := uuid.Parse(r.ID); err == nil {
		state.Event = id
	}
	return state
}

// document returns the JSON document, at most limit bytes of it.
func document(r *Refused, limit int) []byte {
	// Eight texts of a sixteenth leave enough of the least limit for names, numbers and the
	// beginning of the excerpt.
	most := limit / 16
	at, previous, _ := r.timeAndPrevious()
	l := DeadLetterDocument{
		Stream: cut(r.Stream, most), Shard: cut(r.Shard, most), RowID: r.RowID,
		Key:     cut(r.Key, most),
		EventID: cut(r.ID, most), EventType: cut(r.Type, most), EventTime: at, Previous: cut(previous, most),
		Destination: cut(r.Destination, most), Reason: cut(r.Reason, most),
		Size: len(r.Value), Digest: Digest(r.Value),
	}
	if base64.StdEncoding.EncodedLen(len(r.Entity))+2 <= most {
		l.Entity = r.Entity
	}
	l.Excerpt = cut(r.Value, limit-len(encode(&l))+len(`""`))
	l.Truncated = len(l.Excerpt) < len(r.Value)
	return encode(&l)
}

// encode returns l as JSON without the escapes that are for HTML alone.
func encode(l *DeadLetterDocument) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(l) // a document can always be encoded and a Buffer written
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// cut returns as much of text as fits into most bytes of JSON, quotes and escapes included.
func cut[T string | []byte](text T, most int) string {
	const escape = len(`\u0000`)
	size, end := len(`""`), 0
	for end < len(text) {
		r, n := utf8.DecodeRuneInString(string(text[end:min(end+utf8.UTFMax, len(text))]))
		switch {
		case strings.ContainsRune("\"\\\b\f\n\r\t", r):
			size += 2
		case r < ' ', r == utf8.RuneError, r == '\u2028', r == '\u2029':
			size += escape
		default:
			size += n
		}
		if size > most {
			break
		}
		end += n
	}
	return string(text[:end])
}

// DeadLetterDocument is the document of a dead letter. Texts may be cut if the bus takes only small
// messages.
type DeadLetterDocument struct {
	// Stream, Shard and RowID name the row.
	Stream string `json:"stream"`
	Shard  string `json:"shard"`
	RowID  uint64 `json:"rowId"`
	// Key is the key of the message, for people, and may be cut. Entity is the whole key; it is
	// left out if it is too long or if the stream has no entities.
	Key    string `json:"key"`
	Entity []byte `json:"entity,omitempty"`
	// EventID and EventType are those of the refused event. EventTime is its meta.time in ms since
	// 1970, 0 if it has none. Previous is the event that it follows, empty if it follows none.
	EventID   string `json:"eventId"`
	EventType string `json:"eventType"`
	EventTime int64  `json:"eventTime"`
	Previous  string `json:"previous"`
	// Destination is where the event was to go, Reason why it was refused.
	Destination string `json:"destination"`
	Reason      string `json:"reason"`
	// Size is the size of the event in bytes, Digest its SHA-256 in hexadecimal digits.
	Size   int    `json:"size"`
	Digest string `json:"digest"`
	// Excerpt is as much of the event as fits. Truncated says that some of it is missing.
	Excerpt   string `json:"excerpt"`
	Truncated bool   `json:"truncated"`
}

// ParseDeadLetter reads the Value of a dead letter.
func ParseDeadLetter(value []byte) (DeadLetterDocument, error) {
	var l DeadLetterDocument
	err := json.Unmarshal(value, &l)
	if err == nil && (l.Stream == "" || l.Shard == "" || l.EventID == "") {
		err = errors.New("it does not name a stream, a shard and an event")
	}
	if err != nil {
		return DeadLetterDocument{}, fmt.Errorf("read a dead letter: %w", err)
	}
	return l, nil
}

// Digest returns the SHA-256 of an event's bytes in hexadecimal digits. A resend compares it to see
// whether it encodes the event that was refused.
func Digest(value []byte) string {
	sum := sha256.Sum256(value)
	return hex.EncodeToString(sum[:])
}

// timeAndPrevious returns meta.time of the event in milliseconds, and the event that it follows. It
// is not ok for what is no Eiffel document.
func (m *Message) timeAndPrevious() (at int64, previous string, ok bool) {
	if m.Bare != nil {
		return m.Bare.Time, m.Bare.Previous, true
	}
	value := m.Value
	if m.Format == FormatCloudEvents {
		var cloud struct{ Data json.RawMessage }
		if json.Unmarshal(value, &cloud) == nil {
			value = cloud.Data
		}
	}
	var event struct {
		Meta  struct{ Time *int64 }
		Links []struct{ Type, Target string }
	}
	if json.Unmarshal(value, &event) != nil || event.Meta.Time == nil {
		return 0, "", false
	}
	for _, link := range event.Links {
		if link.Type == "PREVIOUS_VERSION" {
			return *event.Meta.Time, link.Target, true
		}
	}
	return *event.Meta.Time, "", true
}

// TimeAndPreviousOf returns meta.time of a stored event in milliseconds, and the event that it
// follows; not ok where the message does not tell.
func TimeAndPreviousOf(m *Stored) (at int64, previous string, ok bool) {
	var f Fields
	f.Read(m)
	if f.Time != nil {
		at, err := f.ParseTime()
		return at, string(m.Header(HeaderPrevious)), err == nil
	}
	event := Message{Value: m.Value, Format: bus.FormatOf(&f)}
	return event.timeAndPrevious()
}
