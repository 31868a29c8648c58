package contract_test

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"example.org/bridge/event"
	"example.org/bridge/internal/contract"
	"example.org/bridge/source"
	"example.org/bridge/tests/must"
)

// values are values of each kind, in their normal form; the last one has no form in JSON where
// there is such a value.
var values = map[source.Kind][]string{
	source.Int:       {"18446744073709551615", "-1"},
	source.Decimal:   {"-0.10"},
	source.Float:     {"1e-9", "inf"},
	source.Text:      {"ä\"", "\xff"},
	source.Binary:    {"\x00\xff"},
	source.Bit:       {"\x01\x00"},
	source.JSON:      {`[1, null]`, "{"},
	source.Date:      {"2026-03-01", "0000-00-00"},
	source.Clock:     {"-800:00:00.5"},
	source.DateTime:  {"2026-03-01 12:00:00", "0000-00-00 00:00:00"},
	source.Timestamp: {"2026-03-01 12:00:00.25", "2026-02-30 12:00:00"},
}

// everyKind has an id and a column of each kind, which all refuse NULL, or none does.
func everyKind(notNull bool) *source.Columns {
	c := &source.Columns{
		List: []source.Column{{Name: "id", Kind: source.Int, NotNull: true}, {Name: "app", Kind: source.Text, NotNull: true}},
		Key:  []int{1}, Created: -1, Modified: -1, Deleted: -1,
	}
	for kind := source.Int; kind <= source.Timestamp; kind++ {
		c.List = append(c.List, source.Column{Name: "v" + string(rune('a'+kind)), Kind: kind, NotNull: notNull, Precision: 6})
	}
	return c
}

func newTable(t *testing.T, kind event.Kind, bad event.BadValue, name string, columns *source.Columns) contract.Table {
	t.Helper()
	e, err := event.NewEncoder(event.Options{Stream: "things", Shard: name, Kind: kind, Domain: "example.com", Source: "shop", Table: name, BadValue: bad})
	if err == nil {
		err = e.Bind(columns)
	}
	if err != nil {
		t.Fatal(err)
	}
	return contract.Table{
		Name: name, Columns: columns, Encoder: e,
		Destinations: func(eventType string) []string { return []string{name + "." + eventType + ".{key}"} },
	}
}

func stream(kind event.Kind, tables ...contract.Table) contract.Stream {
	return contract.Stream{Name: "things", Domain: "example.com", Kind: kind, Tables: tables}
}

func compile(t *testing.T, s contract.Stream) map[event.Op]*jsonschema.Schema {
	t.Helper()
	text, err := contract.Schemas([]contract.Stream{s})
	if err != nil {
		t.Fatal(err)
	}
	var printed map[string]map[event.Op]json.RawMessage
	must.OK(t, json.Unmarshal(text, &printed))
	compiled := make(map[event.Op]*jsonschema.Schema)
	for op, one := range printed[s.Name] {
		c := jsonschema.NewCompiler()
		c.AssertFormat()
		if err = c.AddResource("schema.json", unmarshal(t, one)); err == nil {
			compiled[op], err = c.Compile("schema.json")
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return compiled
}

func unmarshal(t *testing.T, text []byte) any {
	t.Helper()
	v := must.Get(jsonschema.UnmarshalJSON(bytes.NewReader(text)))(t)
	return v
}

// row returns a row whose values are those of each kind at an index, the last one where there are
// fewer, or NULL where the index is negative.
func row(columns *source.Columns, at int) source.Row {
	r := source.Row{ID: 7, Values: make([][]byte, len(columns.List))}
	for i, c := range columns.List {
		of := values[c.Kind]
		if at >= 0 {
			r.Values[i] = []byte(of[min(at, len(of)-1)])
		}
	}
	r.Values[0], r.Values[1] = []byte("7"), []byte("app")
	return r
}

func encode(t *testing.T, table contract.Table, r source.Row) []byte {
	t.Helper()
	_, one, err := table.Encoder.Append(nil, event.Row{Row: r, Read: time.Unix(1_700_000_000, 0)})
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Clone(one.Body)
}

// TestWhatNoEventSaysIsRefused changes each member of an event to what its column never becomes.
func TestWhatNoEventSaysIsRefused(t *testing.T) {
	columns := everyKind(true)
	table := newTable(t, event.Capability, event.StopOnBad, "things", columns)
	schema := compile(t, stream(event.Capability, table))[event.Added]
	body := encode(t, table, row(columns, 0))
	if err := schema.Validate(unmarshal(t, body)); err != nil {
		t.Errorf("%v\n%s", err, body)
	}
	nullable := newTable(t, event.Capability, event.StopOnBad, "things", everyKind(false))
	for at := -1; at < 1; at++ {
		body := encode(t, nullable, row(nullable.Columns, at))
		if err := compile(t, stream(event.Capability, nullable))[event.Added].Validate(unmarshal(t, body)); err != nil {
			t.Errorf("values %d of columns that may have NULL: %v\n%s", at, err, body)
		}
	}
	for _, m := range table.Encoder.Members(false) {
		for _, wrong := range []any{nil, true, map[string]any{}} {
			if columns.List[m.Column].Kind == source.JSON {
				continue
			}
			doc := unmarshal(t, body).(map[string]any)
			doc["data"].(map[string]any)[m.Name] = wrong
			if schema.Validate(doc) == nil {
				t.Errorf("%s may be %v", m.Name, wrong)
			}
		}
		doc := unmarshal(t, body).(map[string]any)
		delete(doc["data"].(map[string]any), m.Name)
		if schema.Validate(doc) == nil {
			t.Errorf("%s may be missing", m.Name)
		}
	}
	for path, wrong := range map[string]any{"type": "OtherAddedEvent", "version": "0.9.0"} {
		doc := unmarshal(t, body).(map[string]any)
		doc["meta"].(map[string]any)[path] = wrong
		if schema.Validate(doc) == nil {
			t.Errorf("meta.%s may be %v", path, wrong)
		}
	}
}

func TestTablesWithDifferentColumns(t *testing.T) {
	less := everyKind(true)
	more := everyKind(true)
	more.List = append(more.List, source.Column{Name: "reason", Kind: source.Int, NotNull: true})
	tables := []contract.Table{
		newTable(t, event.Release, event.NullBad, "things_0", less), newTable(t, event.Release, event.NullBad, "things_1", more),
		newTable(t, event.Release, event.NullBad, "things_2", everyKind(true)),
	}
	s := stream(event.Release, tables...)
	schema := compile(t, s)[event.Published]
	for i, columns := range []*source.Columns{less, more} {
		if err := schema.Validate(unmarshal(t, encode(t, tables[i], row(columns, 0)))); err != nil {
			t.Error(err)
		}
	}
	doc := unmarshal(t, encode(t, tables[1], row(more, 0))).(map[string]any)
	delete(doc["data"].(map[string]any), "app")
	if schema.Validate(doc) == nil {
		t.Error("a member that both tables have may be missing")
	}
	text := must.Get(contract.Schemas([]contract.Stream{s}))(t)
	var said []string
	for _, one := range regexp.MustCompile(`"Of things[^"]*"`).FindAllString(string(text), -1) {
		said = append(said, strings.Trim(one, `"`))
	}
	if want := []string{"Of things_0, things_2.", "Of things_1."}; !slices.Equal(said, want) {
		t.Errorf("%q, want %q", said, want)
	}
}

func document(t *testing.T, servers []contract.Server, streams ...contract.Stream) []byte {
	t.Helper()
	text := must.Get(contract.AsyncAPI("example.com", servers, streams))(t)
	return text
}

// TestDestinationsBecomeChannels has two that differ in what names of channels cannot have.
func TestDestinationsBecomeChannels(t *testing.T) {
	tables := []contract.Table{
		newTable(t, event.Capability, event.NullBad, "a b", everyKind(true)), newTable(t, event.Capability, event.NullBad, "a_b", everyKind(true)),
	}
	for i := range tables {
		tables[i].Destinations = func(string) []string { return []string{tables[i].Name} }
	}
	var d struct {
		Channels map[string]struct {
			Address              string
			Parameters, Messages map[string]any
		}
		Operations map[string]struct{ Messages []any }
	}
	text := document(t, nil, stream(event.Capability, tables...))
	must.OK(t, json.Unmarshal(text, &d))
	for id, address := range map[string]string{"a_b": "a b", "a_b_2": "a_b"} {
		c := d.Channels[id]
		if c.Address != address || len(c.Messages) != 3 || len(d.Operations["send."+id].Messages) != 3 || c.Parameters != nil {
			t.Errorf("%s: %+v in %s", id, c, text)
		}
	}
}
