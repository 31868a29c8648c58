package event_test

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/big"
	"net/url"
	"regexp"
	"sort"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"bridge/event"
	"bridge/source"
)

// This file writes an event a second time, simply and with encoding/json, for the encoder to be held against. It takes the
// members' names and the operation from its caller.

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

// reference is the event that the encoder must make of a row whose members are named by names.
func reference(o event.Options, columns *source.Columns, names []string, row event.Row, op event.Op) (body []byte, bad int) {
	data := object{}
	for i, column := range columns.List {
		isKey := false
		for _, k := range columns.Key {
			isKey = isKey || k == i
		}
		if op == event.Deleted && !isKey {
			continue
		}
		value, ok := referenceValue(column, row.Values[i], o.Zone)
		if !ok {
			bad++
		}
		data = append(data, member{names[i], value})
	}
	if op == event.Deleted {
		data = append(data, member{"reason", "TOMBSTONE"})
	}
	data = append(data, member{"row", object{{"source", o.Source}, {"table", o.Table}, {"id", row.ID}}})
	links := []any{}
	if row.Predecessor != "" {
		links = append(links, object{{"type", "PREVIOUS_VERSION"}, {"target", row.Predecessor}})
	}
	suffix := map[event.Op]string{event.Added: "AddedEvent", event.Deleted: "DeletedEvent", event.Published: "PublishedEvent"}[op]
	uri := "bridge://" + percent(o.Domain) + "/" + percent(o.Stream)
	return marshal(object{
		{"meta", object{
			{"id", referenceID(o, columns, row, op)},
			{"type", o.Stem + suffix},
			{"version", "1.0.0"},
			{"time", referenceTime(columns, row, o.Zone).UnixMilli()},
			{"source", object{{"domainId", o.Domain}, {"name", "bridge"}, {"serializer", "pkg:golang/bridge/event@1.0.0"}, {"uri", uri}}},
		}},
		{"data", data},
		{"links", links},
	}), bad
}

func percent(text string) string { return strings.ReplaceAll(url.QueryEscape(text), "+", "%20") }

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

func referenceID(o event.Options, columns *source.Columns, row event.Row, op event.Op) string {
	var entity, name bytes.Buffer
	for _, i := range columns.Key {
		if row.Values[i] == nil {
			entity.WriteByte(0)
			continue
		}
		entity.Write(binary.AppendUvarint(nil, uint64(len(row.Values[i])+1)))
		entity.Write(row.Values[i])
	}
	for _, part := range []uint64{0x387ab9980f044ea2, 0x9706851a3360596f} {
		name.Write(binary.BigEndian.AppendUint64(nil, part))
	}
	sized(&name, o.Stream)
	sized(&name, o.Shard)
	sized(&name, entity.String())
	name.Write(binary.BigEndian.AppendUint64(nil, row.ID))
	sized(&name, string(op))
	name.Write(referenceState(columns, row.Values))
	sized(&name, row.Predecessor)
	id := sha1.Sum(name.Bytes())
	id[6] = id[6]%16 + 5*16
	id[8] = id[8]%64 + 128
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[0:4], id[4:6], id[6:8], id[8:10], id[10:16])
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

// compare holds the encoder's event of a row against the reference.
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
	want, bad := reference(o, columns, names, row, ev.Op)
	if !bytes.Equal(ev.Body, want) {
		t.Errorf("got  %s\nwant %s", ev.Body, want)
	}
	if ev.BadValues != bad {
		t.Errorf("%d bad values, want %d", ev.BadValues, bad)
	}
	if !json.Valid(ev.Body) || !utf8.Valid(ev.Body) {
		t.Errorf("no valid JSON: %q", ev.Body)
	}
	if !bytes.Equal(ev.State[:], referenceState(columns, row.Values)) {
		t.Errorf("state hash %x differs", ev.State)
	}
}
