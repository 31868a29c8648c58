package event_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"math/big"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"example.org/bridge/event"
	"example.org/bridge/source"
)

// This file writes an event a second time, simply and with encoding/json, to compare the
// encoder with. It takes the members' names and the operation from its caller.

// object is a JSON object whose members keep their order.
type object []member

type member struct {
	name  string
	value any
}

func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(marshal(m.name))
		b.WriteByte(':')
		b.Write(marshal(m.value))
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

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

// content is what an event says besides its row.
type content struct {
	op     event.Op
	reason string
	state  []byte
	time   time.Time
}

// contentOf is what the event of a row says that is there.
func contentOf(o event.Options, columns *source.Columns, row event.Row, op event.Op) content {
	return content{op: op, reason: "TOMBSTONE", state: referenceState(columns, row.Values), time: referenceTime(columns, row, o.Zone)}
}

// reference is the event that the encoder must make of a row whose members are named by names.
func reference(o event.Options, columns *source.Columns, names []string, row event.Row, says content) (body []byte, bad int) {
	data := object{}
	for i, column := range columns.List {
		isKey := false
		for _, k := range columns.Key {
			isKey = isKey || k == i
		}
		if says.op == event.Deleted && !isKey {
			continue
		}
		value, ok := referenceValue(column, row.Values[i], o.Zone)
		if !ok {
			bad++
		}
		data = append(data, member{names[i], value})
	}
	if says.op == event.Deleted {
		data = append(data, member{"reason", says.reason})
	}
	data = append(data, member{"row", object{{"source", o.Source}, {"table", o.Table}, {"id", row.ID}}})
	links := []any{}
	if row.Predecessor != "" {
		links = append(links, object{{"type", "PREVIOUS_VERSION"}, {"target", row.Predecessor}})
	}
	suffix := map[event.Op]string{
		event.Added: "AddedEvent", event.Modified: "ModifiedEvent", event.Deleted: "DeletedEvent", event.Published: "PublishedEvent",
	}[says.op]
	return marshal(object{
		{"meta", object{
			{"id", referenceID(o, columns, row, says)},
			{"type", o.Stem + suffix},
			{"version", "1.0.0"},
			{"time", says.time.UnixMilli()},
			{"source", object{{"domainId", o.Domain}}},
		}},
		{"data", data},
		{"links", links},
	}), bad
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

// referenceTime is MODIFIED, else CREATED, else the read.
func referenceTime(columns *source.Columns, row event.Row, zone *time.Location) time.Time {
	for _, i := range []int{columns.Modified, columns.Created} {
		if i >= 0 && row.Values[i] != nil {
			if t, ok := referenceMoment(columns.List[i], row.Values[i], zone); ok && !t.IsZero() {
				return t
			}
		}
	}
	return row.Read
}

func sized(b *bytes.Buffer, text string) {
	b.Write(binary.AppendUvarint(nil, uint64(len(text))))
	b.WriteString(text)
}

func referenceEntity(columns *source.Columns, values [][]byte) []byte {
	entity := []byte{}
	for _, i := range columns.Key {
		if values[i] == nil {
			entity = append(entity, 0)
			continue
		}
		entity = binary.AppendUvarint(entity, uint64(len(values[i])+1))
		entity = append(entity, values[i]...)
	}
	return entity
}

func referenceID(o event.Options, columns *source.Columns, row event.Row, says content) string {
	var name bytes.Buffer
	sized(&name, o.Stream)
	sized(&name, o.Shard)
	sized(&name, string(referenceEntity(columns, row.Values)))
	name.Write(binary.BigEndian.AppendUint64(nil, row.ID))
	sized(&name, string(says.op))
	name.Write(says.state)
	sized(&name, row.Predecessor)
	return uuid.NewSHA1(uuid.MustParse("387ab998-0f04-4ea2-9706-851a3360596f"), name.Bytes()).String()
}

func referenceState(columns *source.Columns, values [][]byte) []byte {
	var order []int
	for i := range columns.List {
		if i != columns.ID && i != columns.Created && i != columns.Modified && values[i] != nil {
			order = append(order, i)
		}
	}
	sort.Slice(order, func(a, b int) bool { return columns.List[order[a]].Name < columns.List[order[b]].Name })
	var b bytes.Buffer
	for _, i := range order {
		sized(&b, columns.List[i].Name)
		sized(&b, string(values[i]))
	}
	sum := sha256.Sum256(b.Bytes())
	return sum[:16]
}

// compare holds what the encoder makes of a row, and of the row's absence, against the reference.
func compare(t *testing.T, o event.Options, columns *source.Columns, names []string, row event.Row) {
	t.Helper()
	encoder, err := event.NewEncoder(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := encoder.Bind(columns); err != nil {
		t.Fatal(err)
	}
	_, ev, err := encoder.Append(nil, row)
	if err != nil {
		t.Fatal(err)
	}
	says := contentOf(o, columns, row, ev.Op)
	compareEvent(t, ev, says.state, func() ([]byte, int) { return reference(o, columns, names, row, says) })
	compareDigest(t, encoder, row.Row, ev)
	compareKeyValues(t, encoder, columns, row.Values, ev.Key)
	if o.Kind != event.Capability {
		return
	}
	_, gone, err := encoder.AppendAbsent(nil, event.Absent{Key: ev.Key, ID: row.ID, Read: row.Read, Predecessor: row.Predecessor})
	if err != nil {
		t.Fatal(err)
	}
	says = content{op: event.Deleted, reason: "ABSENT_IN_SNAPSHOT", state: make([]byte, 16), time: row.Read}
	row.Values = slices.Clone(row.Values)
	for _, i := range columns.Key {
		row.Values[i] = referenceKeyValue(columns.List[i].Kind, row.Values[i])
	}
	compareEvent(t, gone, says.state, func() ([]byte, int) { return reference(o, columns, names, row, says) })
	if !bytes.Equal(gone.Key, ev.Key) || !gone.FromClock || !gone.Time.IsZero() || gone.ID == ev.ID {
		t.Errorf("the row %+v, its absence %+v", ev, gone)
	}
}

// compareEvent holds an event against the document and the state that it must have.
func compareEvent(t *testing.T, ev event.Event, state []byte, want func() ([]byte, int)) {
	t.Helper()
	body, bad := want()
	if !bytes.Equal(ev.Body, body) {
		t.Errorf("got  %s\nwant %s", ev.Body, body)
	}
	if ev.BadValues != bad {
		t.Errorf("%d bad values, want %d", ev.BadValues, bad)
	}
	if !json.Valid(ev.Body) || !utf8.Valid(ev.Body) {
		t.Errorf("no valid JSON: %q", ev.Body)
	}
	if !bytes.Equal(ev.Digest[:], state) {
		t.Errorf("digest %x differs", ev.Digest)
	}
}

// compareDigest holds what the encoder sees in a row against the row's event.
func compareDigest(t *testing.T, encoder *event.Encoder, row source.Row, ev event.Event) {
	t.Helper()
	seen, err := encoder.Digest(row)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(seen.Key, ev.Key) || seen.Sum != ev.Digest || seen.Deleted != (ev.Op == event.Deleted) {
		t.Errorf("seen %+v in the row of %+v", seen, ev)
	}
}

// compareKeyValues holds the values read back from a key against those of the row.
func compareKeyValues(t *testing.T, encoder *event.Encoder, columns *source.Columns, values [][]byte, key []byte) {
	t.Helper()
	got, err := encoder.KeyValues(key, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(columns.Key) {
		t.Fatalf("%d values of %d key columns", len(got), len(columns.Key))
	}
	for n, i := range columns.Key {
		want := referenceKeyValue(columns.List[i].Kind, values[i])
		if !bytes.Equal(got[n], want) || (got[n] == nil) != (want == nil) {
			t.Errorf("key column %d is %q, want %q", n, got[n], want)
		}
	}
}

// referenceKeyValue is what a key tells of a value: all of it, but for the width of bits.
func referenceKeyValue(kind source.Kind, v []byte) []byte {
	if kind != source.Bit || v == nil {
		return v
	}
	n := new(big.Int).SetBytes(v)
	if n.BitLen() > 64 {
		// No server has so many. Where they are the digits of a number, they are taken for it.
		if _, err := strconv.ParseUint(string(v), 10, 64); err != nil {
			return v
		}
		n.SetString(string(v), 10)
	}
	return n.FillBytes(make([]byte, max(1, (n.BitLen()+7)/8)))
}
