package event_test

import (
	"encoding/json"
	"strconv"
	"testing"
	"time"

	"example.org/bridge/event"
	"example.org/bridge/source"
	"example.org/bridge/tests/must"
)

var readAt = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const none = -1

type table struct {
	columns source.Columns
	values  [][]byte
}

// cell is one column of a table with its value; a nil value is NULL.
type cell struct {
	name      string
	kind      source.Kind
	precision int
	value     any
}

// newTable lays out cells; the first is the id and the key.
func newTable(cells ...cell) *table {
	t := &table{columns: source.Columns{Key: []int{0}, Created: none, Modified: none, Deleted: none}}
	for _, c := range cells {
		t.add(c)
	}
	return t
}

func (t *table) add(c cell) {
	t.columns.List = append(t.columns.List, source.Column{Name: c.name, Kind: c.kind, Precision: c.precision})
	switch v := c.value.(type) {
	case string:
		t.values = append(t.values, []byte(v))
	case []byte:
		t.values = append(t.values, v)
	default:
		t.values = append(t.values, nil)
	}
}

func (t *table) row(id uint64) event.Row {
	t.values[0] = strconv.AppendUint(nil, id, 10)
	return event.Row{Row: source.Row{ID: id, Values: t.values}, Read: readAt}
}

func (t *table) index(name string) int {
	for i, c := range t.columns.List {
		if c.Name == name {
			return i
		}
	}
	panic("no column " + name)
}

func (t *table) key(names ...string) *table {
	t.columns.Key = nil
	for _, name := range names {
		t.columns.Key = append(t.columns.Key, t.index(name))
	}
	return t
}

func (t *table) keyOfAll() *table {
	t.columns.Key = nil
	for i := range t.columns.List {
		t.columns.Key = append(t.columns.Key, i)
	}
	return t
}

func (t *table) created(name string) *table  { t.columns.Created = t.index(name); return t }
func (t *table) modified(name string) *table { t.columns.Modified = t.index(name); return t }
func (t *table) deleted(name string) *table  { t.columns.Deleted = t.index(name); return t }

func options() event.Options {
	return event.Options{
		Stream: "orders", Shard: "orders_07", Kind: event.Capability, Source: "db_3", Table: "orders_07",
	}
}

func encode(t *testing.T, o event.Options, rows *table, row event.Row) event.Event {
	t.Helper()
	_, ev, err := bind(t, o, rows).Append(nil, row)
	must.OK(t, err)
	return ev
}

func bind(t testing.TB, o event.Options, rows *table) *event.Encoder {
	t.Helper()
	encoder := must.Get(event.NewEncoder(o))(t)
	must.OK(t, encoder.Bind(&rows.columns))
	return encoder
}

type document struct {
	Meta struct {
		ID, Type, Version string
		Time              int64
		Source            struct{ DomainID string }
	}
	Data  map[string]json.RawMessage
	Links []struct{ Type, Target string }
}

func parse(t *testing.T, body []byte) document {
	t.Helper()
	var d document
	if err := json.Unmarshal(body, &d); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	return d
}

// TestTheFormOfDigests: the number is on the bus, and in stores. Another one for the same columns
// has nothing compared.
func TestTheFormOfDigests(t *testing.T) {
	name, at := source.Column{Name: "name", Kind: source.Text}, source.Column{Name: "at", Kind: source.DateTime, Precision: 6}
	form := func(exclude []string, moves bool, list ...source.Column) uint32 {
		t.Helper()
		c := &source.Columns{List: append([]source.Column{{Name: "id", Kind: source.Int}}, list...), Key: []int{0}, Created: -1, Modified: -1, Deleted: -1, CreatedMoves: moves}
		for i := range c.List {
			if c.List[i].Name == "at" {
				c.Created = i
			}
		}
		o := event.Options{Stream: "s", Shard: "s", Kind: event.Release, Source: "db", Table: "s", Exclude: exclude}
		return bind(t, o, &table{columns: *c}).Form()
	}
	want := form(nil, false, name, at)
	if want != 1374017191 {
		t.Errorf("the form is %d", want)
	}
	if form(nil, false, at, name) != want {
		t.Error("the order of columns changes no digest")
	}
	masked, coarse, amount := name, at, source.Column{Name: "amount", Kind: source.Decimal, Precision: 2}
	masked.Mask, coarse.Precision = "redact", 0
	wide := amount
	wide.Precision = 4
	seen := map[uint32]string{want: "all"}
	for what, got := range map[string]uint32{
		"a mask": form(nil, false, masked, at), "a coarse CREATED": form(nil, false, name, coarse), "a CREATED that moves": form(nil, true, name, at),
		"EXCLUDE": form([]string{"name"}, false, name, at), "a column more": form(nil, false, name, at, amount), "another scale": form(nil, false, name, at, wide),
	} {
		if other, twice := seen[got]; twice {
			t.Errorf("%s has the form of %s", what, other)
		}
		seen[got] = what
	}
}
