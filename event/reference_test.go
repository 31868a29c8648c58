package event_test

import (
	"bytes"
	"encoding/json"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"example.org/bridge/event"
	"example.org/bridge/source"
	"example.org/bridge/tests/must"
)

// This file writes the members of an event a second time, simply and with encoding/json, to compare
// the encoder with. It takes the members' names from its caller.

// marshal is json.Marshal without HTML escaping.
func marshal(value any) []byte {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		panic(err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

var (
	integerForm = regexp.MustCompile(`\A-?[0-9]+\z`)
	clockForm   = regexp.MustCompile(`\A\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{1,9})?\z`)
	dateForm    = regexp.MustCompile(`\A\d{4}-\d\d-\d\d\z`)
)

func referenceValue(column source.Column, v []byte, zone *time.Location) (value any, ok bool) {
	if v == nil {
		return nil, true
	}
	switch column.Kind {
	case source.Int:
		if !integerForm.Match(v) {
			return nil, false
		}
		n, _ := new(big.Int).SetString(string(v), 10)
		return n, true
	case source.Float:
		// A number alone is valid JSON without blanks around it.
		var n json.Number
		if json.Unmarshal(v, &n) != nil || n.String() != string(v) {
			return nil, false
		}
		return n, true
	case source.Binary:
		return v, true
	case source.Bit:
		n := new(big.Int).SetBytes(v)
		if n.BitLen() > 64 {
			return nil, false
		}
		return n, true
	case source.JSON:
		if !json.Valid(v) || !utf8.Valid(v) {
			return nil, false
		}
		return json.RawMessage(v), true
	case source.Date:
		if _, err := time.Parse(time.DateOnly, string(v)); err != nil || !dateForm.Match(v) {
			return nil, false
		}
		return string(v), true
	case source.DateTime, source.Timestamp:
		t, ok := referenceMoment(column, v, zone)
		if !ok || t.Year() < 0 {
			return nil, false
		}
		layout := "2006-01-02T15:04:05"
		if column.Precision > 0 {
			layout += "." + strings.Repeat("0", column.Precision)
		}
		return t.Format(layout + "Z"), true
	default:
		if !utf8.Valid(v) {
			return nil, false
		}
		return string(v), true
	}
}

func referenceMoment(column source.Column, v []byte, zone *time.Location) (time.Time, bool) {
	if column.Kind == source.Timestamp {
		zone = time.UTC
	}
	t, err := time.ParseInLocation(time.DateTime, string(v), zone)
	return t.UTC(), err == nil && clockForm.Match(v)
}

// compare holds what the encoder makes of a row, and of the row's absence, against encoding/json.
func compare(t *testing.T, o event.Options, columns *source.Columns, names []string, row event.Row) {
	t.Helper()
	encoder := bind(t, o, &table{columns: *columns})
	_, ev, err := encoder.Append(nil, row)
	must.OK(t, err)
	compareEvent(t, ev, o, columns, names, row.Values)
	compareDigest(t, encoder, row.Row, ev)
	if o.Kind != event.Capability {
		return
	}
	keys := must.Get(encoder.KeyValues(ev.Key, nil))(t)
	_, gone, err := encoder.AppendAbsent(nil, event.Absent{Key: ev.Key, ID: row.ID, Read: row.Read, Predecessor: row.Predecessor})
	must.OK(t, err)
	values := slices.Clone(row.Values)
	for n, i := range columns.Key {
		want := row.Values[i]
		if values[i] = keys[n]; columns.List[i].Kind != source.Bit && (!bytes.Equal(keys[n], want) || (keys[n] == nil) != (want == nil)) {
			t.Errorf("key column %d is %q, want %q", n, keys[n], want)
		}
	}
	compareEvent(t, gone, o, columns, names, values)
	if !bytes.Equal(gone.Key, ev.Key) || !gone.FromClock || !gone.Time.IsZero() || gone.ID == ev.ID || gone.Digest != [16]byte{} {
		t.Errorf("the row %+v, its absence %+v", ev, gone)
	}
}

// compareEvent holds the members of an event against the values of its row.
func compareEvent(t *testing.T, ev event.Event, o event.Options, columns *source.Columns, names []string, values [][]byte) {
	t.Helper()
	want, bad := []byte(`"data":{`), 0
	for i, column := range columns.List {
		if ev.Op == event.Deleted && !slices.Contains(columns.Key, i) {
			continue
		}
		value, ok := referenceValue(column, values[i], o.Zone)
		if !ok {
			bad++
		}
		want = append(append(append(want, marshal(names[i])...), ':'), append(marshal(value), ',')...)
	}
	behind := `"row":{`
	if ev.Op == event.Deleted {
		behind = `"reason":"` + ev.Reason + `",` + behind
	}
	if want = append(want, behind...); !bytes.Contains(ev.Body, want) || ev.BadValues != bad {
		t.Errorf("%s with %d bad values\nwant %s with %d", ev.Body, ev.BadValues, want, bad)
	}
	if !json.Valid(ev.Body) || !utf8.Valid(ev.Body) {
		t.Errorf("no valid JSON: %q", ev.Body)
	}
}

// compareDigest holds what the encoder sees in a row against the row's event.
func compareDigest(t *testing.T, encoder *event.Encoder, row source.Row, ev event.Event) {
	t.Helper()
	seen := must.Get(encoder.Digest(row))(t)
	if !bytes.Equal(seen.Key, ev.Key) || seen.Sum != ev.Digest || seen.Deleted != (ev.Op == event.Deleted) {
		t.Errorf("seen %+v in the row of %+v", seen, ev)
	}
}
