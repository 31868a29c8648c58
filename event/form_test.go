package event_test

import (
	"testing"

	"bridge/event"
	"bridge/source"
)

// TestTheFormOfDigests: the number is on the bus, and in stores. Another one for the same columns
// has nothing compared.
func TestTheFormOfDigests(t *testing.T) {
	name, at := source.Column{Name: "name", Kind: source.Text}, source.Column{Name: "at", Kind: source.DateTime, Precision: 6}
	form := func(exclude []string, moves bool, list ...source.Column) uint32 {
		t.Helper()
		e, err := event.NewEncoder(event.Options{Stream: "s", Shard: "s", Kind: event.Release, Source: "db", Table: "s", Exclude: exclude})
		if err != nil {
			t.Fatal(err)
		}
		c := &source.Columns{List: append([]source.Column{{Name: "id", Kind: source.Int}}, list...), Key: []int{0}, Created: -1, Modified: -1, Deleted: -1, CreatedMoves: moves}
		for i := range c.List {
			if c.List[i].Name == "at" {
				c.Created = i
			}
		}
		if err := e.Bind(c); err != nil {
			t.Fatal(err)
		}
		return e.Form()
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
