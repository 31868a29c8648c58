package event

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"example.org/bridge/source"
)

// Shape is what the events of a table look like: the members of data that are columns, in the order
// of their names. A deleted event has those of the key alone.
type Shape []ShapeMember

// ShapeMember is a member and what its values are.
type ShapeMember struct {
	Name string
	// Type is a type of JSON and the form of a string, " or null" behind them: "integer", "string
	// date-time or null".
	Type string
}

// types says what the values of a kind of column are in an event; see the package's documentation.
var types = map[source.Kind]string{
	source.Int: "integer", source.Decimal: "string decimal", source.Float: "number", source.Text: "string", source.Binary: "string base64",
	source.Bit: "integer", source.JSON: anyJSON, source.Date: "string date", source.Clock: "string time",
	source.DateTime: "string date-time", source.Timestamp: "string date-time",
}

const (
	orNull = " or null"
	// anyJSON is the type of documents, null among them.
	anyJSON = "any JSON"
)

// fallible are the kinds of which a value may have no form in JSON though the table refuses NULL:
// bytes that are not UTF-8, infinity, a zero date.
var fallible = []source.Kind{source.Float, source.Text, source.JSON, source.Date, source.DateTime, source.Timestamp}

// nullable reports whether a member may be null. Rows without an id are not read.
func (o Options) nullable(columns *source.Columns, index int) bool {
	column := columns.List[index]
	return !column.NotNull && index != columns.ID || o.BadValue == NullBad && slices.Contains(fallible, column.Kind)
}

// shapeOf returns the shape of members, which are sorted by name in it: another order is none.
func shapeOf(members []member) Shape {
	shape := make(Shape, len(members))
	for i, m := range members {
		shape[i] = ShapeMember{m.text, types[m.column.Kind]}
		if m.null && shape[i].Type != anyJSON {
			shape[i].Type += orNull
		}
	}
	slices.SortFunc(shape, func(a, b ShapeMember) int { return strings.Compare(a.Name, b.Name) })
	return shape
}

// ShapeHash tells a shape from others: the first bytes of a SHA-256 over its names and types.
type ShapeHash [6]byte

// Hash returns the hash of the shape.
func (s Shape) Hash() ShapeHash {
	var text []byte
	for _, m := range s {
		text = appendSized(appendSized(text, m.Name), m.Type)
	}
	sum := sha256.Sum256(text)
	return ShapeHash(sum[:])
}

// String returns 12 hexadecimal digits.
func (h ShapeHash) String() string { return hex.EncodeToString(h[:]) }

// Difference is a member that events no longer have as it was. Is is empty where it is gone.
type Difference struct{ Name, Was, Is string }

// Broken returns what of was a consumer misses in s: members that are gone or have another type, by
// name. A member that is new, or that is no longer null, is nothing to miss.
func (s Shape) Broken(was Shape) []Difference {
	var list []Difference
	for _, before := range was {
		d := Difference{Name: before.Name, Was: before.Type}
		if i := slices.IndexFunc(s, func(m ShapeMember) bool { return m.Name == before.Name }); i >= 0 {
			d.Is = s[i].Type
		}
		if d.Is != d.Was && d.Is+orNull != d.Was {
			list = append(list, d)
		}
	}
	return list
}

// schemas holds one JSON Schema (draft 2020-12) for each event type family and version, in the
// Eiffel protocol's layout.
//
//go:embed schemas
var schemas embed.FS

// families name the folders of schemas.
var families = map[Op]string{
	Added:     "CapabilityAdded",
	Modified:  "CapabilityModified",
	Deleted:   "CapabilityDeleted",
	Published: "ReleasePublished",
}

// Schema returns the JSON Schema of the events of an operation with the default Version. The names
// of types and of column members are the user's, so the schema leaves them open.
func Schema(kind Kind, op Op) ([]byte, error) {
	if !slices.Contains(opsOf(kind), op) {
		return nil, fmt.Errorf("a %s stream has no operation %q: use %v", kind, op, opsOf(kind))
	}
	path := "schemas/" + families[op] + "/" + Version + ".json"
	schema, err := schemas.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the schema of %s events: %w", op, err)
	}
	return schema, nil
}
