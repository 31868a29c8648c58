package event_test

import (
	"fmt"
	"slices"
	"testing"

	"bridge/event"
	"bridge/source"
)

// shapeOf returns the shape of the events of columns, the first of which is the id.
func shapeOf(t *testing.T, bad event.BadValue, columns ...source.Column) event.Shape {
	t.Helper()
	o := options()
	o.BadValue = bad
	e, err := event.NewEncoder(o)
	if err == nil {
		err = e.Bind(&source.Columns{List: columns, Key: []int{0}, Created: none, Modified: none, Deleted: none})
	}
	if err != nil {
		t.Fatal(err)
	}
	return e.Shape()
}

func TestTheShapeIsThatOfTheColumns(t *testing.T) {
	columns := []source.Column{{Name: "id", Kind: source.Int}, {Name: "b", Kind: source.Decimal}, {Name: "a", Kind: source.Text, NotNull: true}}
	base := shapeOf(t, event.StopOnBad, columns...)
	if want := (event.Shape{{"a", "string"}, {"b", "string decimal or null"}, {"id", "integer"}}); !slices.Equal(base, want) {
		t.Errorf("got %v, want %v", base, want)
	}
	if hash := base.Hash().String(); len(hash) != 12 {
		t.Errorf("the hash is %q", hash)
	}
	reordered := []source.Column{columns[0], columns[2], columns[1]}
	for name, c := range map[string]struct {
		shape event.Shape
		same  bool
	}{
		"another order":            {shapeOf(t, event.StopOnBad, reordered...), true},
		"one column more":          {shapeOf(t, event.StopOnBad, append(slices.Clone(columns), source.Column{Name: "c", Kind: source.Int})...), false},
		"one column less":          {shapeOf(t, event.StopOnBad, columns[:2]...), false},
		"values that may be null":  {shapeOf(t, event.NullBad, columns...), false},
		"a column that is renamed": {shapeOf(t, event.StopOnBad, columns[0], columns[1], source.Column{Name: "ab", Kind: source.Text, NotNull: true}), false},
	} {
		if same := c.shape.Hash() == base.Hash(); same != c.same {
			t.Errorf("%s: the same hash %t", name, same)
		}
	}
}

func TestWhatBreaksConsumers(t *testing.T) {
	was := event.Shape{{"a", "string"}, {"b", "integer or null"}, {"c", "number"}}
	for name, c := range map[string]struct {
		now  event.Shape
		want string
	}{
		"nothing":                        {was, "[]"},
		"a member that is new":           {append(event.Shape{{"_", "string"}}, was...), "[]"},
		"a member that is gone":          {was[:2], "[{c number }]"},
		"another type":                   {event.Shape{{"a", "integer"}, was[1], was[2]}, "[{a string integer}]"},
		"another form of a string":       {event.Shape{{"a", "string date"}, was[1], was[2]}, "[{a string string date}]"},
		"a member that may be null now":  {event.Shape{{"a", "string or null"}, was[1], was[2]}, "[{a string string or null}]"},
		"a member that is never null":    {event.Shape{was[0], {"b", "integer"}, was[2]}, "[]"},
		"that, and another type with it": {event.Shape{was[0], {"b", "number"}, was[2]}, "[{b integer or null number}]"},
	} {
		if got := fmt.Sprint(c.now.Broken(was)); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestVersions(t *testing.T) {
	for _, text := range []string{"0.0.0", "1.0.0", "10.20.999999999"} {
		if v, ok := event.ParseVersion(text); !ok || v.String() != text {
			t.Errorf("%s is read as %v, %t", text, v, ok)
		}
	}
	for _, text := range []string{"", "1", "1.0", "1.0.0.0", "1.0.00", "-1.0.0", "1.0.1000000000", "1.0.x", " 1.0.0"} {
		if v, ok := event.ParseVersion(text); ok {
			t.Errorf("%q is read as %v", text, v)
		}
	}
	if (event.VersionNumbers{1, 2, 10}).Compare(event.VersionNumbers{1, 10, 2}) >= 0 {
		t.Error("the numbers are compared as text")
	}
}
