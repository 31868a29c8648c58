package event_test

import (
	"slices"
	"testing"

	"bridge/event"
	"bridge/source"
)

func TestMembersAreThoseOfTheEvents(t *testing.T) {
	e, err := event.NewEncoder(event.Options{
		Stream: "orders", Shard: "orders", Kind: event.Capability, Source: "shop", Table: "orders",
		Fields: []event.Field{{Column: "state"}, {Column: "order_no", Member: "number"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := e.Members(false); len(got) > 0 {
		t.Errorf("before Bind: %v", got)
	}
	columns := &source.Columns{
		List: []source.Column{{Name: "id", Kind: source.Int}, {Name: "order_no", Kind: source.Text}, {Name: "state", Kind: source.Text}},
		Key:  []int{1}, Created: -1, Modified: -1, Deleted: -1,
	}
	if err := e.Bind(columns); err != nil {
		t.Fatal(err)
	}
	if got, want := e.Members(false), []event.Member{{Column: 2, Name: "state"}, {Column: 1, Name: "number"}}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got, want := e.Members(true), []event.Member{{Column: 1, Name: "number"}}; !slices.Equal(got, want) {
		t.Errorf("deleted: got %v, want %v", got, want)
	}
}
