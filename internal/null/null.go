package null

import (
	"bytes"
	"encoding/json"
	"time"
)

// Text is null in JSON where it is empty.
type Text string

// MarshalJSON implements json.Marshaler.
func (t Text) MarshalJSON() ([]byte, error) {
	if t == "" {
		return []byte("null"), nil
	}
	var b bytes.Buffer
	text := json.NewEncoder(&b)
	// Who encodes the whole says what is escaped.
	text.SetEscapeHTML(false)
	err := text.Encode(string(t))
	return b.Bytes(), err
}

// Time is null in JSON where it is zero, else in UTC.
type Time struct{ time.Time }

// MarshalJSON implements json.Marshaler.
func (t Time) MarshalJSON() ([]byte, error) {
	if t.IsZero() {
		return []byte("null"), nil
	}
	return t.UTC().MarshalJSON()
}

// At returns a time, null where it is zero.
func At(t time.Time) Time { return Time{t} }
