package sink

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
)

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

// errNotDeadLetter is the error of a document that lacks what every dead letter has.
var errNotDeadLetter = errors.New("it does not name a stream, a shard and an event")

// ParseDeadLetter reads the Value of a dead letter.
func ParseDeadLetter(value []byte) (DeadLetterDocument, error) {
	var l DeadLetterDocument
	err := json.Unmarshal(value, &l)
	if err == nil && (l.Stream == "" || l.Shard == "" || l.EventID == "") {
		err = errNotDeadLetter
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

// eventMeta is what a dead letter takes from an event, which may have been cut off in the excerpt.
type eventMeta struct {
	Meta  struct{ Time int64 }
	Links []struct{ Type, Target string }
}

// readMeta reads an Eiffel document; it returns the zero value for anything else.
func readMeta(value []byte) eventMeta {
	var m eventMeta
	if json.Unmarshal(value, &m) != nil {
		return eventMeta{}
	}
	return m
}

// timeAndPrevious returns meta.time of the event, and the event that it follows.
func (m *Message) timeAndPrevious() (at int64, previous string) {
	if m.Bare != nil {
		return m.Bare.Time, m.Bare.Previous
	}
	value := m.Value
	if m.Format == FormatCloudEvents {
		var cloud struct{ Data json.RawMessage }
		if json.Unmarshal(value, &cloud) == nil {
			value = cloud.Data
		}
	}
	meta := readMeta(value)
	return meta.Meta.Time, meta.previous()
}

// previous returns the event that the event follows.
func (m *eventMeta) previous() string {
	for _, link := range m.Links {
		if link.Type == "PREVIOUS_VERSION" {
			return link.Target
		}
	}
	return ""
}
