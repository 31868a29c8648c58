package event_test

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"testing"

	"example.org/bridge/event"
	"example.org/bridge/source"
	"example.org/bridge/tests/must"
)

func TestOperationsOfAnotherKindHaveNoSchema(t *testing.T) {
	for kind, op := range map[event.Kind]event.Op{event.Capability: event.Published, event.Release: event.Deleted, "fact": "lost"} {
		if _, err := event.Schema(kind, op); err == nil {
			t.Errorf("a %s stream has a schema for %s", kind, op)
		}
	}
}

func TestSchemasRefuseWhatIsNoEvent(t *testing.T) {
	files := make(map[string][]byte)
	for _, name := range []string{"added", "modified", "deleted", "absent"} {
		file := must.Get(os.ReadFile(goldenFile("stp_capability_" + name)))(t)
		files[name] = file
	}
	tests := []struct {
		name, old, new string
		op             event.Op
		file           string
	}{
		{"a member in meta", `"version"`, `"host":"h","version"`, event.Added, "added"},
		{"a member beside meta", `"links":[]`, `"links":[],"extra":1`, event.Added, "added"},
		{"an Eiffel type", `"StpCapability`, `"EiffelStpCapability`, event.Added, "added"},
		{"an id of version 7", `-5`, `-7`, event.Added, "added"},
		{"a time that is text", `"time":1772366400000`, `"time":"1772366400000"`, event.Added, "added"},
		{"no row", `"row":{`, `"line":{`, event.Added, "added"},
		{"a reason where nothing was deleted", `"row":{`, `"reason":"TOMBSTONE","row":{`, event.Added, "added"},
		{"a link without a target", `"links":[]`, `"links":[{"type":"PREVIOUS_VERSION"}]`, event.Added, "added"},
		{"no reason", `"reason":"TOMBSTONE",`, ``, event.Deleted, "deleted"},
		{"a reason where nothing but the state changed", `"row":{`, `"reason":"ABSENT_IN_SNAPSHOT","row":{`, event.Modified, "modified"},
		{"a link of another type", `PREVIOUS_VERSION`, `CAUSE`, event.Modified, "modified"},
		{"two links", `"links":[`, `"links":[{"type":"PREVIOUS_VERSION","target":"` + earlier + `"},`, event.Deleted, "absent"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			body := files[test.file]
			broken := bytes.Replace(body, []byte(test.old), []byte(test.new), 1)
			if bytes.Equal(broken, body) {
				t.Fatalf("%s is not in %s", test.old, body)
			}
			schema := compileSchema(t, event.Capability, test.op)
			must.OK(t, schema.Validate(unmarshal(t, body)))
			if schema.Validate(unmarshal(t, broken)) == nil {
				t.Errorf("taken for valid: %s", broken)
			}
		})
	}
}

func shapeOf(t *testing.T, bad event.BadValue, columns ...source.Column) event.Shape {
	t.Helper()
	o := options()
	o.BadValue = bad
	return bind(t, o, &table{columns: source.Columns{List: columns, Key: []int{0}, Created: none, Modified: none, Deleted: none}}).Shape()
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
