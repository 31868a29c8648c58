package shard

import (
	"bytes"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"bridge/checkpoint/store"
	storememory "bridge/checkpoint/store/memory"
	"bridge/event"
	"bridge/internal/outage"
	"bridge/internal/progress"
	"bridge/internal/view"
	"bridge/source"
)

// builderOf returns a builder for capability rows of (id, name, state), keyed by name, and a page
// of rows with these names and states.
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
		Metrics: NewMetrics(prometheus.NewRegistry(), true), Logger: slog.New(slog.DiscardHandler), Faults: outage.New(slog.New(slog.DiscardHandler)),
	}
	return &builder{opts: opts}, p
}

// decide has a view that knows entries decide what the rows of p say, behind b.
func decide(t *testing.T, m *builder, b *batch, p *page, known map[string]store.Entry) []view.Decision {
	t.Helper()
	st := storememory.New()
	change := store.ViewChange{Stream: m.opts.Stream}
	for entity, entry := range known {
		change.Changes = append(change.Changes, store.Change{Entity: []byte(entity), Entry: entry})
	}
	if err := st.Apply(t.Context(), &store.Batch{Views: []store.ViewChange{change}}); err != nil {
		t.Fatal(err)
	}
	m.opts.View = view.New(m.opts.Stream, st, func(tp uint32) uint32 { return tp })
	e := newEntities(m.opts, newRetrier(m.opts, new(tracker)), &gaps{progress: new(progress.Progress)})
	e.begin(b)
	decisions, err := e.decide(t.Context(), b, p.Rows)
	if err != nil {
		t.Fatal(err)
	}
	return decisions
}

// digestOf returns the digest of row i of p.
func digestOf(t *testing.T, m *builder, p *page, i int) [16]byte {
	t.Helper()
	digest, err := m.opts.Encoder.Digest(p.Rows[i])
	if err != nil {
		t.Fatal(err)
	}
	return digest.Sum
}

// changesOf returns what follows once b is acknowledged.
func changesOf(t *testing.T, m *builder, b *batch) (changes []store.Change) {
	t.Helper()
	at := func(i int) (store.At, view.Stamp) {
		return store.At{TP: 1, Offset: uint64(i)}, view.Stamp{Epoch: 1, Seq: uint64(i + 1)}
	}
	err := m.opts.View.Acknowledge(b.claims, at, func(c []store.Change) error {
		for i := range c {
			changes = append(changes, store.Change{Entity: bytes.Clone(c[i].Entity), Entry: c[i].Entry})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return changes
}

func TestBuilderAddsStates(t *testing.T) {
	m, p := builderOf(t, [2]string{"new", "x"}, [2]string{"changed", "x"}, [2]string{"same", "x"}, [2]string{"moved", "x"})
	former := [16]byte{1}
	entry := func(row uint64, digest [16]byte) store.Entry {
		return store.Entry{Shard: "items", Row: row, State: store.Live, Digest: digest, Event: former}
	}
	b := m.begin()
	defer b.recycle()
	decisions := decide(t, m, b, p, map[string]store.Entry{
		"changed": entry(2, [16]byte{9}), "same": entry(3, digestOf(t, m, p, 2)), "moved": entry(2, digestOf(t, m, p, 3)),
	})
	n, err := m.addStates(b, p, p.Rows, decisions, fromTail)
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
			if b.messages[i].State.Digest != digestOf(t, m, p, i) {
				t.Errorf("row %d has the digest %x", b.messages[i].RowID, b.messages[i].State.Digest)
			}
		}
		if !slices.Equal(ids, []uint64{1, 2}) || b.verdict.Added != 1 || b.verdict.Modified != 1 {
			t.Errorf("rows %v, verdict %+v", ids, b.verdict)
		}
	})
	t.Run("as changes of the view, of an unchanged row only if its id is another", func(t *testing.T) {
		var entities []string
		changes := changesOf(t, m, b)
		for i := range changes {
			entities = append(entities, string(changes[i].Entity))
		}
		if !slices.Equal(entities, []string{"new", "changed", "moved"}) {
			t.Fatalf("entities %q", entities)
		}
		if moved := changes[2].Entry; moved.Row != 4 || moved.Event != former {
			t.Errorf("%+v: another row, the same event", moved)
		}
	})
}

// Rule 23: the bus may hold an event with the id of one that is published once more.
func TestBuilderNotesRepairs(t *testing.T) {
	m, p := builderOf(t, [2]string{"a", "x"}, [2]string{"b", "x"})
	b := m.begin()
	defer b.recycle()
	decisions := decide(t, m, b, p, map[string]store.Entry{"b": {Shard: "items", Row: 2, State: store.Live, Digest: digestOf(t, m, p, 1), Disputed: true}})
	if n, err := m.addStates(b, p, p.Rows, decisions, fromTail); err != nil || n != 2 || len(b.messages) != 2 {
		t.Fatalf("%v, %d rows, %d messages", err, n, len(b.messages))
	}
	if !slices.Equal(b.repairs, []int{1}) {
		t.Errorf("repairs %v", b.repairs)
	}
}

func TestBuilderEndsBeforeARowWithoutAnEvent(t *testing.T) {
	m, p := builderOf(t, [2]string{"a", "x"}, [2]string{"b", "x"})
	// No text of an event.
	p.Rows[1].Values[2] = []byte{0xff}
	b := m.begin()
	defer b.recycle()
	n, err := m.addStates(b, p, p.Rows, decide(t, m, b, p, nil), fromTail)
	if err == nil || n != 1 || len(b.messages) != 1 || b.verdict.Added != 1 {
		t.Errorf("%v, %d rows, %d messages, verdict %+v", err, n, len(b.messages), b.verdict)
	}
}

func TestBuilderAddsAbsences(t *testing.T) {
	now := time.Unix(2000, 0).UTC()
	for name, c := range map[string]struct {
		state            store.EntryState
		messages, change int
	}{
		"an entity that lived is deleted":     {store.Live, 1, 1},
		"one that was recorded, too":          {store.Recorded, 1, 1},
		"a tombstone leaves without an event": {store.Tombstone, 0, 1},
		"what is absent stays so":             {store.Absent, 0, 0},
		"what is not known is nothing":        {store.Unknown, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			m, p := builderOf(t, [2]string{"b", "x"})
			b := m.begin()
			defer b.recycle()
			b.made = now
			known := map[string]store.Entry{"a": {Shard: "items", Row: 7, State: c.state, Event: [16]byte{1}}}
			if c.state == store.Unknown {
				known = nil
			}
			decide(t, m, b, p, known)
			absences, err := m.opts.View.Absent(t.Context(), b.claims, [][]byte{[]byte("a")}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := m.addAbsence(b, &absences[0], now); err != nil {
				t.Fatal(err)
			}
			changes := slices.DeleteFunc(changesOf(t, m, b), func(c store.Change) bool { return string(c.Entity) != "a" })
			if len(b.messages) != c.messages || len(changes) != c.change || int(b.verdict.Deleted) != c.messages {
				t.Fatalf("%d messages, %d changes, verdict %+v", len(b.messages), len(changes), b.verdict)
			}
			for _, change := range changes {
				if e := change.Entry; e.State != store.Absent || e.Row != 7 || !e.Since.Equal(now) {
					t.Errorf("%+v", change)
				}
			}
		})
	}
}
