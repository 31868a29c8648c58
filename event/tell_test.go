package event_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"bridge/event"
	"bridge/source"
)

// tellColumns are those of a table whose entities are named by two columns.
func tellColumns() *source.Columns {
	return &source.Columns{
		List: []source.Column{
			{Name: "id", Kind: source.Int}, {Name: "app", Kind: source.Text}, {Name: "at", Kind: source.DateTime, Precision: 3},
			{Name: "state", Kind: source.Text}, {Name: "doc", Kind: source.JSON}, {Name: "deleted", Kind: source.Int},
		},
		ID: 0, Key: []int{1, 2}, Created: -1, Modified: -1, Deleted: 5,
	}
}

func tellOptions() event.Options {
	return event.Options{Stream: "s", Shard: "t", Kind: event.Capability, Source: "db", Table: "t", Zone: time.FixedZone("", 2*3600)}
}

func tellEncoder(t *testing.T, o event.Options, c *source.Columns) *event.Encoder {
	t.Helper()
	e, err := event.NewEncoder(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Bind(c); err != nil {
		t.Fatal(err)
	}
	return e
}

func values(texts ...string) [][]byte {
	list := make([][]byte, len(texts))
	for i, text := range texts {
		if text != "NULL" {
			list[i] = []byte(text)
		}
	}
	return list
}

func TestTellIsTheInverseOfAppend(t *testing.T) {
	const link = "0192aaaa-0000-5000-8000-000000000001"
	read := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	row := func(texts ...string) event.Row {
		return event.Row{Row: source.Row{ID: 7, Values: values(texts...)}, Read: read, Predecessor: link}
	}
	modified := row("7", "a+b", "2026-01-02 03:04:05.678", "on", "NULL", "0")
	modified.Op = event.Modified
	folded := tellOptions()
	folded.Names = map[event.Op]string{event.Added: "Changed", event.Modified: "Changed", event.Deleted: "Changed"}
	listed := tellOptions()
	listed.Fields = []event.Field{{Column: "state", Member: "s"}, {Column: "app", Member: "application"}, {Column: "at", Member: "since"}}
	for name, test := range map[string]struct {
		options event.Options
		row     event.Row
		op      event.Op
		exact   bool
	}{
		"added":                                {tellOptions(), row("7", "a", "2026-01-02 03:04:05.678", "on", "NULL", "0"), event.Added, true},
		"modified":                             {tellOptions(), modified, event.Added, true},
		"deleted, which tells no state":        {tellOptions(), row("7", "a", "2026-01-02 03:04:05.678", "on", "NULL", "1"), event.Deleted, false},
		"under one type for all":               {folded, modified, event.Added, true},
		"deleted under one type for all":       {folded, row("7", "a", "2026-01-02 03:04:05.678", "on", "NULL", "1"), event.Deleted, false},
		"with members of other names":          {listed, modified, event.Added, true},
		"with a document that has lost blanks": {tellOptions(), row("7", "a", "2026-01-02 03:04:05.678", "on", "{ }", "0"), event.Added, false},
	} {
		t.Run(name, func(t *testing.T) {
			e := tellEncoder(t, test.options, tellColumns())
			_, ev, err := e.Append(nil, test.row)
			if err != nil {
				t.Fatal(err)
			}
			told, err := e.Tell(ev.Body)
			if err != nil {
				t.Fatalf("%v: %s", err, ev.Body)
			}
			if event.FormatID(told.ID) != ev.ID || told.Op != test.op || told.Absent || !bytes.Equal(told.Entity, ev.Entity) || told.Row != 7 || !told.Time.Equal(read) {
				t.Errorf("got %+v of %s", told, ev.Body)
			}
			if got := e.Says(told, ev.Digest); got != (test.op == event.Added) || e.Says(told, [16]byte{1}) {
				t.Errorf("it says its own state: %v", got)
			}
			if told.Exact != test.exact || told.Exact && told.State != ev.Digest {
				t.Errorf("the state is %x (exact: %v), want %x", told.State, told.Exact, ev.Digest)
			}
		})
	}
	t.Run("of a row that is gone", func(t *testing.T) {
		e := tellEncoder(t, tellOptions(), tellColumns())
		_, was, err := e.Append(nil, modified)
		if err != nil {
			t.Fatal(err)
		}
		_, ev, err := e.AppendAbsent(nil, event.Absent{Entity: was.Entity, ID: 9, Read: read, Predecessor: was.ID})
		if err != nil {
			t.Fatal(err)
		}
		told, err := e.Tell(ev.Body)
		if err != nil || told.Op != event.Deleted || !told.Absent || !told.Exact || told.State != [16]byte{} || told.Row != 9 || !bytes.Equal(told.Entity, was.Entity) {
			t.Errorf("got %+v, %v", told, err)
		}
	})
}

func TestTellRefusesWhatDoesNotTellTheEntity(t *testing.T) {
	e := tellEncoder(t, tellOptions(), tellColumns())
	_, ev, err := e.Append(nil, event.Row{Row: source.Row{ID: 7, Values: values("7", "a", "2026-01-02 03:04:05.678", "on", "NULL", "0")}, Read: time.Unix(1, 0)})
	if err != nil {
		t.Fatal(err)
	}
	body := string(ev.Body)
	if _, err := e.Tell([]byte(body)); err != nil {
		t.Fatal(err)
	}
	bits := tellColumns()
	bits.List[1].Kind = source.Bit
	for name, test := range map[string]struct {
		encoder *event.Encoder
		body    string
	}{
		"no JSON":               {e, body[:len(body)-2]},
		"another table":         {e, strings.Replace(body, `"table":"t"`, `"table":"u"`, 1)},
		"another type":          {e, strings.Replace(body, "SAddedEvent", "SGoneEvent", 1)},
		"a type without reason": {e, strings.Replace(body, "SAddedEvent", "SDeletedEvent", 1)},
		"no id":                 {e, strings.Replace(body, ev.ID, "", 1)},
		"no member of the key":  {e, strings.Replace(body, `"app"`, `"was"`, 1)},
		"a null that was bad":   {e, strings.Replace(body, `"app":"a"`, `"app":null`, 1)},
		"bits of unknown width": {tellEncoder(t, tellOptions(), bits), strings.Replace(body, `"app":"a"`, `"app":97`, 1)},
	} {
		t.Run(name, func(t *testing.T) {
			if told, err := test.encoder.Tell([]byte(test.body)); err == nil {
				t.Errorf("got %+v", told)
			}
		})
	}
}

// FuzzTell feeds bytes of any kind: Tell never panics, and what it calls exact has the id of what
// it tells.
func FuzzTell(f *testing.F) {
	e, err := event.NewEncoder(tellOptions())
	if err == nil {
		err = e.Bind(tellColumns())
	}
	if err != nil {
		f.Fatal(err)
	}
	_, ev, err := e.Append(nil, event.Row{Row: source.Row{ID: 7, Values: values("7", "a", "2026-01-02 03:04:05.678", "on", "NULL", "0")}, Read: time.Unix(1, 0)})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(ev.Body)
	f.Add([]byte(`{"meta":{},"data":{"row":null}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		told, err := e.Tell(body)
		if err == nil && (len(told.Entity) == 0 || told.ID == [16]byte{}) {
			t.Errorf("%+v of %s", told, body)
		}
	})
}
