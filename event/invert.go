package event

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"bridge/source"
)

// Invert returns the value of a column in its normal form that a member was made of. exact is false
// where the member does not tell it: a JSON document has lost its blanks, a bit field its width. ok
// is false for a member that no such column makes.
//
// Numbers and texts are taken for one another, because a column may have changed its type since the
// event.
func Invert(c source.Column, zone *time.Location, v []byte) (value []byte, exact, ok bool) {
	if string(v) == "null" {
		return nil, true, true
	}
	switch c.Kind {
	case source.JSON:
		return v, false, true
	case source.Bit:
		if n, err := strconv.ParseUint(string(v), 10, 64); err == nil {
			// A DELETED of zero bits does not say that its row is deleted.
			b := binary.BigEndian.AppendUint64(nil, n)
			v = b[min(7, len(b)-len(bytes.TrimLeft(b, "\x00"))):]
		}
		return v, false, true
	}
	text, quoted := unquoted(v)
	if !quoted {
		if len(v) == 0 || v[0] == '{' || v[0] == '[' {
			return nil, false, false
		}
		return v, true, true
	}
	switch c.Kind {
	case source.Binary:
		value, err := base64.StdEncoding.AppendDecode([]byte{}, text)
		return value, err == nil, err == nil
	case source.DateTime:
		value, ok = wallClock(text, zone)
		return value, ok, ok
	case source.Timestamp:
		value, ok = wallClock(text, time.UTC)
		return value, ok, ok
	}
	return text, true, true
}

// wallClock turns RFC 3339 in UTC into the wall clock of zone, with the digits of the fraction as
// they stand.
func wallClock(text []byte, zone *time.Location) ([]byte, bool) {
	zone = cmp.Or(zone, time.UTC)
	t, err := time.Parse(time.RFC3339Nano, string(text))
	if err != nil {
		return nil, false
	}
	layout := time.DateTime
	if i := bytes.IndexByte(text, '.'); i >= 0 {
		layout += "." + strings.Repeat("0", len(text)-i-len(".Z"))
	}
	return t.In(zone).AppendFormat(nil, layout), true
}

// unquoted returns the text of a JSON string; ok is false for a value that is none.
func unquoted(v []byte) (text []byte, ok bool) {
	if len(v) < 2 || v[0] != '"' {
		return nil, false
	}
	if inner := v[1 : len(v)-1]; bytes.IndexByte(inner, '\\') < 0 {
		return inner, true
	}
	var s string
	err := json.Unmarshal(v, &s)
	return []byte(s), err == nil
}
