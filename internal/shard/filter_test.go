package shard_test

import (
	"slices"
	"testing"

	"bridge/event"
	"bridge/reconcile"
	"bridge/source"
	sourcememory "bridge/source/memory"

	storememory "bridge/checkpoint/store/memory"
)

// withoutDrafts is the table of a log, of which rows called draft do not match.
func withoutDrafts() *sourcememory.Table {
	return sourcememory.NewTable(source.Spec{Table: "items", ID: "id", Created: "created", Filter: "name <> 'draft'"},
		source.Column{Name: "id", Kind: source.Int}, source.Column{Name: "name", Kind: source.Text},
		source.Column{Name: "created", Kind: source.DateTime, Precision: 6})
}

func TestRowsOfALogThatDoNotMatch(t *testing.T) {
	b := newBench(t)
	b.table = withoutDrafts()
	for _, name := range []string{"a", "draft", "b"} {
		b.table.Insert(name, now())
	}
	s, stop := b.run(t)
	eventually(t, "all are handled", func() bool { return b.position(t) == 3 })
	// Those of an open transaction come late.
	drafts := []uint64{b.table.Open("draft", now()), b.table.Open("c", now())}
	b.table.Insert("draft", now())
	eventually(t, "what is behind them is handled", func() bool { return b.position(t) == 6 })
	for _, id := range drafts {
		b.table.Commit(id)
	}
	want := []uint64{1, 3, 5}
	eventually(t, "the late row is there, and no gap is open", func() bool { return b.count(topic) == len(want) && s.Status().OpenGaps == 0 })
	if got := b.ids(topic); !slices.Equal(got, want) {
		t.Errorf("the bus has the rows %v, want %v", got, want)
	}
	if v := nominate(t, s, reconcile.Nomination{Rows: []source.Range{{First: 1, Last: 6}}}); v != (reconcile.Verdict{}) {
		t.Errorf("a reconcile publishes %+v", v)
	}
	stop()
	// Without a store they are gaps that are found, and handled again.
	b.store = storememory.New()
	s, stop = b.run(t)
	eventually(t, "no gap is open", func() bool { return b.position(t) == 6 && s.Status().OpenGaps == 0 })
	stop()
	if got := b.ids(topic); !slices.Equal(got, want) {
		t.Errorf("without a store the bus has the rows %v, want %v", got, want)
	}
}

func TestRowsOfEntitiesThatDoNotMatch(t *testing.T) {
	b := newViewBench(t, false)
	b.table = sourcememory.NewTable(source.Spec{Table: "items", ID: "id", Key: []string{"name"}, UniqueKey: true, Deleted: "deleted", Filter: "value <> '9'"},
		source.Column{Name: "id", Kind: source.Int}, source.Column{Name: "name", Kind: source.Text}, source.Column{Name: "value", Kind: source.Text},
		source.Column{Name: "deleted", Kind: source.Int})
	s, stop := b.run(t)
	defer stop()
	replace := func(name, value, deleted string) {
		t.Helper()
		last := b.table.Replace(name, value, deleted)
		eventually(t, "it is handled", func() bool { return b.position(t) == last })
	}
	replace("a", "9", "0")
	replace("a", "9", "1")
	replace("a", "1", "0")
	replace("a", "9", "0")
	replace("a", "9", "0")
	replace("b", "9", "0")
	replace("a", "2", "0")
	replace("a", "9", "1")
	all := b.expectSaid(t, "Added a=1", "Deleted a", "Added a=2", "Deleted a")
	for i, reason := range []string{"", "FILTERED", "", "TOMBSTONE"} {
		if all[i].reason != reason || i > 0 && all[i].predecessor != all[i-1].id {
			t.Errorf("event %d: %+v, want the reason %q", i, all[i], reason)
		}
	}
	if v := nominate(t, s, reconcile.Nomination{Rows: []source.Range{{First: 1, Last: 100}}, Entities: [][]byte{entity("a"), entity("b")}}); v != (reconcile.Verdict{}) {
		t.Errorf("a reconcile publishes %+v", v)
	}
	if b.opts.Kind != event.Capability {
		t.Fatal("the bench is of another kind")
	}
}
