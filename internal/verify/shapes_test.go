package verify_test

import (
	"slices"
	"testing"

	"bridge/event"
	"bridge/internal/verify"
	"bridge/sink"
	"bridge/source"
	"bridge/source/sourcetest/memory"
)

// withColumns is a world whose table has these columns besides the id and the key.
func withColumns(t *testing.T, kind event.Kind, columns ...source.Column) *world {
	t.Helper()
	w := newWorld(t, kind)
	all := append([]source.Column{{Name: "id", Kind: source.Int}, {Name: "name", Kind: source.Text}}, columns...)
	spec := source.Spec{ID: "id", Key: []string{"name"}}
	if slices.ContainsFunc(columns, func(c source.Column) bool { return c.Name == "gone" }) {
		spec.Deleted = "gone"
	}
	w.table = memory.NewTable(spec, all...)
	return w
}

func TestColumnsOfAllKindsProveTheirEvents(t *testing.T) {
	for _, c := range []struct {
		column source.Column
		value  string
	}{
		{source.Column{Kind: source.Int}, "-17"},
		{source.Column{Kind: source.Decimal}, "0.10"},
		{source.Column{Kind: source.Float}, "1e+30"},
		{source.Column{Kind: source.Text}, "a\"\\\n\u2028é"},
		{source.Column{Kind: source.Binary}, "\x00\xff"},
		{source.Column{Kind: source.Date}, "2026-02-28"},
		{source.Column{Kind: source.Clock}, "-838:59:59"},
		{source.Column{Kind: source.DateTime, Precision: 6}, "2026-07-01 00:00:00.000001"},
		{source.Column{Kind: source.Timestamp}, "2026-07-01 00:00:00"},
	} {
		c.column.Name = "value"
		t.Run(c.value, func(t *testing.T) {
			w := withColumns(t, event.Release, c.column)
			w.publish(w.table.Insert("a", c.value))
			w.publish(w.table.Insert("b"))
			// An event without its row has to be proven by itself.
			w.table.Delete(1)
			want(t, w.check(), " | purged 1")
		})
	}
}

func TestWhatAnEventDoesNotTell(t *testing.T) {
	document := source.Column{Name: "value", Kind: source.JSON}
	t.Run("is told by the row, where that is there", func(t *testing.T) {
		for _, kind := range []event.Kind{event.Capability, event.Release} {
			w := withColumns(t, kind, document)
			w.publish(w.table.Insert("a", `{ "b": [1, 2] }`))
			want(t, w.check(), "")
			w.bus.edit(t, 0, `[1,2]`, `[1,3]`)
			w.bus.read = 0
			want(t, w.check(), map[event.Kind]string{
				event.Capability: "altered 1 | unproven 1", event.Release: "altered 1 | unproven 1",
			}[kind])
		}
	})
	t.Run("is not judged, where there is another state", func(t *testing.T) {
		w := withColumns(t, event.Capability, document)
		w.publish(w.table.Insert("a", `{ "b": 1 }`))
		w.table.Delete(1)
		w.publish(w.table.Insert("a", `{ "b": 2 }`))
		want(t, w.check(), " | unproven 1")
	})
	t.Run("a tombstone is proven by its row", func(t *testing.T) {
		w := withColumns(t, event.Capability, source.Column{Name: "gone", Kind: source.Int})
		w.publish(w.table.Insert("a", "0"))
		w.table.Delete(1)
		w.publish(w.table.Insert("a", "1"))
		want(t, w.check(), "")
		w.table.Delete(2)
		w.bus.read = 0
		want(t, w.check(), " | unproven 1")
	})
	t.Run("a value that was published as null excuses an event that does not fit", func(t *testing.T) {
		w := withColumns(t, event.Capability, source.Column{Name: "value", Kind: source.Text})
		w.publish(w.table.Insert("a", "\xff"))
		w.publish(w.table.Insert("b", "x"))
		want(t, w.check(), "")
		w.table.Delete(1)
		w.publish(w.table.Insert("a", "\xfe"))
		w.bus.read = 0
		want(t, w.check(), " | unproven 1")
		w.bus.edit(t, 1, `"x"`, `"y"`)
		w.bus.read = 0
		want(t, w.check(), "altered 1 | unproven 1")
	})
}

func TestColumnsOfAReleaseThatComeAndGo(t *testing.T) {
	t.Run("leave the columns that events have to be judged, where these do not tell all of their row", func(t *testing.T) {
		w := withColumns(t, event.Release, source.Column{Name: "value", Kind: source.JSON})
		w.publish(w.table.Insert("a", `{ "b": 1 }`))
		w.table.AddColumn(source.Column{Name: "more", Kind: source.Text})
		w.table.Update(1, "a", `{ "b": 1 }`, "all")
		w.publish(w.table.Insert("b", `{ "b": 1 }`, "all"))
		want(t, w.check(), "")
	})
	t.Run("leave the columns that events have to be judged", func(t *testing.T) {
		w := withColumns(t, event.Release, source.Column{Name: "value", Kind: source.Text})
		w.publish(w.table.Insert("a", "x"))
		w.table.AddColumn(source.Column{Name: "more", Kind: source.Text})
		w.table.Update(1, "a", "x", "all")
		want(t, w.check(), "")
		w.table.Update(1, "a", "y", "all")
		w.bus.read = 0
		want(t, w.check(), " | changed 1")
	})
	t.Run("hide no event that was altered and has the table's columns", func(t *testing.T) {
		w := withColumns(t, event.Release, source.Column{Name: "value", Kind: source.JSON})
		w.publish(w.table.Insert("a", `{ "b": 1 }`))
		w.bus.edit(t, 0, `1}`, `2}`)
		want(t, w.check(), "altered 1 | unproven 1")
	})
}

func TestTypesThatOperationsShare(t *testing.T) {
	w := newWorld(t, event.Capability)
	w.options.Names = map[event.Op]string{event.Added: "ThingMessage", event.Modified: "ThingMessage"}
	w.encoder = w.newEncoder()
	id := w.insert("a", "first")
	w.replace(id, "a", "second")
	want(t, w.check(), "")
}

func TestExamplesSayWhere(t *testing.T) {
	w := histories(t)
	w.bus.cut(6)
	r := w.check(func(o *verify.Options) { o.Examples = 1 })
	e := r.Streams[0].Faults[0].Examples[0]
	if last := w.bus.messages[4]; e.Event != last.Header[sink.HeaderID] || e.Key != "b" || e.Partition != "T/0" || e.At != 4 || e.Row != 5 || e.Shard != "thing" {
		t.Errorf("%+v, want %s", e, last.Header[sink.HeaderID])
	}
}

// TestKeysThatAreNoText are null in their events. Nothing proves that of a row that is gone.
func TestKeysThatAreNoText(t *testing.T) {
	w := withColumns(t, event.Capability, source.Column{Name: "value", Kind: source.Text})
	for _, name := range []string{"\xff", "\xfe", "\xfd"} {
		w.publish(w.table.Insert(name, "x"))
	}
	w.remove(3, "\xfd")
	want(t, w.check(), " | unproven 1")
}
