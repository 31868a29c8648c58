package shard_test

import (
	"slices"
	"strings"
	"testing"

	"bridge/event"
	"bridge/reconcile"
	"bridge/sink"
	"bridge/source"
	sourcememory "bridge/source/memory"
)

// TestKeysThatCouldBeMistaken: after compaction of the topic, the newest messages of all keys are
// the table.
func TestKeysThatCouldBeMistaken(t *testing.T) {
	b := newBench(t)
	b.table = sourcememory.NewTable(source.Spec{Table: "items", ID: "id", Key: []string{"app", "name"}, UniqueKey: true},
		source.Column{Name: "id", Kind: source.Int}, source.Column{Name: "app", Kind: source.Text}, source.Column{Name: "name", Kind: source.Text})
	b.opts.Kind = event.Capability
	s, stop := b.run(t)
	defer stop()
	b.table.Insert("p+q", "r")
	second := b.table.Insert("p", "q+r")
	b.table.Insert("p%2Bq", "r")
	b.table.Insert("", "p+q+r")
	eventually(t, "four events", func() bool { return b.count(topic) == 4 })
	b.table.Delete(second)
	if v := nominate(t, s, reconcile.Nomination{Entities: [][]byte{[]byte("p+q%2Br")}}); v.Deleted != 1 {
		t.Fatalf("verdict %+v", v)
	}
	left := make(map[string]sink.Message)
	for _, m := range b.bus.Messages(topic) {
		left[string(m.Key)] = m
	}
	var got []string
	for key, m := range left {
		got = append(got, strings.TrimSuffix(strings.TrimPrefix(m.Type, "Items"), "Event")+" "+key)
	}
	slices.Sort(got)
	if want := []string{"Added +p%2Bq%2Br", "Added p%252Bq+r", "Added p%2Bq+r", "Deleted p+q%2Br"}; !slices.Equal(got, want) {
		t.Errorf("compaction leaves %q, want %q", got, want)
	}
}
