package shard

import (
	"bytes"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"bridge/checkpoint"
	"bridge/event"
	"bridge/sink"
	"bridge/source"
)

// builderOf returns a builder for capability rows of (id, name, state), keyed by name, and a page of
// rows with these names and states.
func builderOf(t *testing.T, rows ...[2]string) (*builder, *page) {
	t.Helper()
	encoder, err := event.NewEncoder(event.Options{Stream: "items", Shard: "items", Kind: event.Capability, Source: "db", Table: "items",
		BadValue: event.StopOnBad})
	if err != nil {
		t.Fatal(err)
	}
	columns := &source.Columns{ID: 0, Key: []int{1}, Created: -1, Modified: -1, Deleted: -1, List: []source.Column{
		{Name: "id", Kind: source.Int}, {Name: "name", Kind: source.Text}, {Name: "state", Kind: source.Text},
	}}
	if err := encoder.Bind(columns); err != nil {
		t.Fatal(err)
	}
	p := &page{Page: source.Page{Columns: columns, Now: time.Unix(1000, 0)}}
	for i, row := range rows {
		p.Append(uint64(i+1), len(columns.List))
		p.Set(0, []byte{byte('1' + i)})
		p.Set(1, []byte(row[0]))
		p.Set(2, []byte(row[1]))
	}
	opts := &Options{
		Stream: "items", Name: "items", Kind: event.Capability, Encoder: encoder, Limits: NewLimits(1<<20, 1, 1).Stream(),
		Route:   func(e *event.Event) string { return "to " + e.Type },
		Metrics: NewMetrics(prometheus.NewRegistry()), Logger: slog.New(slog.DiscardHandler),
	}
	return &builder{opts: opts}, p
}

func TestBuilderAddsStates(t *testing.T) {
	m, p := builderOf(t, [2]string{"new", "x"}, [2]string{"changed", "x"}, [2]string{"same", "x"}, [2]string{"moved", "x"})
	former := [16]byte{1}
	decisions := []decision{
		{row: 1, entity: []byte("new"), digest: [16]byte{7}, op: event.Added, news: true},
		{row: 2, entity: []byte("changed"), digest: [16]byte{7}, op: event.Modified, news: true,
			known: checkpoint.Known{Row: 2, Fate: checkpoint.Live, Event: former}},
		{row: 3, entity: []byte("same"), digest: [16]byte{7}, known: checkpoint.Known{Row: 3, Fate: checkpoint.Live, State: [16]byte{7}}},
		{row: 4, entity: []byte("moved"), digest: [16]byte{7}, known: checkpoint.Known{Row: 2, Fate: checkpoint.Live, State: [16]byte{7}, Event: former}},
	}
	b := m.begin(true)
	defer b.recycle()
	n, err := m.addStates(b, p, p.Rows, decisions, sink.FromTail)
	if err != nil || n != 4 {
		t.Fatalf("%d rows, %v", n, err)
	}
	t.Run("as messages of what is news, in order and with the route's destination", func(t *testing.T) {
		var ids []uint64
		for i := range b.messages {
			ids = append(ids, b.messages[i].RowID)
			if b.messages[i].Destination != "to "+b.messages[i].Type {
				t.Errorf("row %d goes to %s", b.messages[i].RowID, b.messages[i].Destination)
			}
		}
		if !slices.Equal(ids, []uint64{1, 2}) || b.verdict.Added != 1 || b.verdict.Modified != 1 {
			t.Errorf("rows %v, verdict %+v", ids, b.verdict)
		}
	})
	t.Run("as changes of the view, of a row that is no news only where its id is another", func(t *testing.T) {
		var entities []string
		for i := range b.changes {
			entities = append(entities, string(b.changes[i].Entity))
		}
		if !slices.Equal(entities, []string{"new", "changed", "moved"}) {
			t.Fatalf("entities %q", entities)
		}
		if moved := b.changes[2].Known; moved.Row != 4 || moved.Event != former {
			t.Errorf("%+v: another row, the same event", moved)
		}
	})
}

func TestBuilderEndsBeforeARowWithoutAnEvent(t *testing.T) {
	m, p := builderOf(t, [2]string{"a", "x"}, [2]string{"b", "x"})
	// No text of an event.
	p.Rows[1].Values[2] = []byte{0xff}
	decisions := []decision{
		{row: 1, entity: []byte("a"), op: event.Added, news: true}, {row: 2, entity: []byte("b"), op: event.Added, news: true},
	}
	b := m.begin(true)
	n, err := m.addStates(b, p, p.Rows, decisions, sink.FromTail)
	if err == nil || n != 1 || len(b.messages) != 1 || len(b.changes) != 1 || b.verdict.Added != 1 {
		t.Errorf("%v, %d rows, %d messages, %d changes, verdict %+v", err, n, len(b.messages), len(b.changes), b.verdict)
	}
}

func TestBuilderAddsGone(t *testing.T) {
	now := time.Unix(2000, 0)
	for name, c := range map[string]struct {
		fate             checkpoint.Fate
		moved            bool
		messages, change int
	}{
		"an entity that lived is deleted":                         {checkpoint.Live, false, 1, 1},
		"one that lives in another shard leaves without an event": {checkpoint.Live, true, 0, 1},
		"a tombstone leaves without an event":                     {checkpoint.Tombstone, false, 0, 1},
		"what is gone stays gone":                                 {checkpoint.Gone, false, 0, 0},
		"what is not known is nothing":                            {checkpoint.Unknown, false, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			m, p := builderOf(t, [2]string{"a", "x"})
			digest, err := m.opts.Encoder.Digest(p.Rows[0])
			if err != nil {
				t.Fatal(err)
			}
			b := m.begin(true)
			defer b.recycle()
			one := decision{entity: bytes.Clone(digest.Entity), known: checkpoint.Known{Row: 7, Fate: c.fate, Event: [16]byte{1}}}
			if err := m.addGone(b, &one, c.moved, now); err != nil {
				t.Fatal(err)
			}
			if len(b.messages) != c.messages || len(b.changes) != c.change || int(b.verdict.Deleted) != c.messages {
				t.Fatalf("%d messages, %d changes, verdict %+v", len(b.messages), len(b.changes), b.verdict)
			}
			for _, change := range b.changes {
				if k := change.Known; k.Fate != checkpoint.Gone || k.Row != 7 || !k.Since.Equal(now) || !bytes.Equal(change.Entity, one.entity) {
					t.Errorf("%+v", change)
				}
			}
		})
	}
}
