package event

import (
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"example.org/bridge/internal/option"
	"example.org/bridge/source"
)

// plan is what the encoder needs to know about one shape of columns.
type plan struct {
	columns *source.Columns
	// members are the members of data in their order, keys those of a deleted event.
	members, keys []member
	// hashed are the columns of the digest in the order of their names.
	hashed []hashed
	// shape is what the events look like, schema the text of its hash.
	shape   Shape
	schema  string
	form    uint32
	payload payload
}

// Plans holds what is made of the columns of tables, for the encoders of tables that are alike. The
// zero value is ready; it is safe for concurrent use. It keeps the plan that was made last.
type Plans struct{ last atomic.Pointer[plan] }

// Share has the encoder share plans with others, whose options must be the same but for the names
// of shard, source and table. Call it before Bind.
func (e *Encoder) Share(plans *Plans) { e.plans = plans }

func (p *Plans) planFor(o *Options, columns *source.Columns) (*plan, error) {
	if p == nil {
		return o.newPlan(columns)
	}
	if last := p.last.Load(); last != nil && last.columns == columns {
		return last, nil
	}
	made, err := o.newPlan(columns)
	if err == nil {
		p.last.Store(made)
	}
	return made, err
}

type member struct {
	// index is the column's index in Row.Values.
	index  int
	column source.Column
	null   bool
	// text is the member's name, name the same as JSON with its colon.
	text string
	name []byte
}

type hashed struct {
	index int
	// name is the column's name led by its length.
	name []byte
}

func (o Options) newPlan(columns *source.Columns) (*plan, error) {
	var of payload
	if o.Payload != nil {
		var faults []error
		if of, faults = o.payloadOf(columns); len(faults) > 0 {
			return nil, errors.Join(faults...)
		}
	}
	members, faults := o.members(columns)
	faults = append(faults, o.memberFaults(members)...)
	if o.Kind == Capability {
		// The id need not be a member unless rows share its number: data.row has it.
		for _, index := range columns.Key {
			mapped := slices.ContainsFunc(members, func(m member) bool { return m.index == index })
			if !mapped && (index != columns.ID || columns.IDFormat != "") {
				faults = append(faults, option.Errorf("%s leaves out the key column %q, without which a deleted event does not say what was deleted: add it to %s",
					option.Fields, columns.List[index].Name, option.Fields))
			}
		}
		if i := columns.Deleted; i >= 0 {
			faults = append(faults, o.Deletion.fit(columns.List[i]))
		}
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	keys := slices.DeleteFunc(slices.Clone(members), func(m member) bool { return !slices.Contains(columns.Key, m.index) })
	shape := shapeOf(members)
	list := hashedColumns(columns, members)
	return &plan{
		columns: columns, members: members, keys: keys, hashed: list, form: formOf(columns, list),
		shape: shape, schema: shape.Hash().String(), payload: of,
	}, nil
}

func (o Options) members(columns *source.Columns) (members []member, faults []error) {
	add := func(index int, name string) {
		column := columns.List[index]
		name = cmp.Or(name, MemberName(column.Name))
		encoded, _ := appendString(nil, []byte(name))
		members = append(members, member{index: index, column: column, null: o.nullable(columns, index), text: name, name: append(encoded, ':')})
	}
	if o.Fields == nil {
		for i, column := range columns.List {
			if !slices.ContainsFunc(o.Exclude, func(name string) bool { return columns.Same(name, column.Name) }) {
				add(i, "")
			}
		}
		return members, nil
	}
	for _, field := range o.Fields {
		i := slices.IndexFunc(columns.List, func(c source.Column) bool { return columns.Same(c.Name, field.Column) })
		if i < 0 && o.Payload != nil {
			continue // payloadOf names the setting
		}
		if i < 0 {
			faults = append(faults, option.Errorf("%s names the column %q, which table %s does not have: correct %s to some of %s",
				option.Fields, field.Column, o.Table, option.Fields, names(columns)))
			continue
		}
		add(i, field.Member)
	}
	return members, faults
}

func (o Options) memberFaults(members []member) []error {
	var faults []error
	for i, m := range members {
		// Events have these members of their own; those of a release stream have no reason.
		if o.Payload == nil && (m.text == "row" || m.text == "reason" && o.Kind == Capability) {
			faults = append(faults, option.Errorf("column %q becomes the member %q, which events keep for themselves: leave the column out with %s, or give it another member in %s",
				m.column.Name, m.text, option.Exclude, option.Fields))
		}
		if !utf8.ValidString(m.text) {
			faults = append(faults, option.Errorf("column %q has a name that is not UTF-8, which JSON cannot hold: leave the column out with %s, or give it a member in %s",
				m.column.Name, option.Exclude, option.Fields))
		}
		for _, before := range members[:i] {
			switch {
			case before.index == m.index:
				faults = append(faults, option.Errorf("%s names the column %q twice, as member %q and %q: keep one of them", option.Fields, m.column.Name, before.text, m.text))
			case before.text == m.text:
				faults = append(faults, option.Errorf("columns %q and %q both become the member %q: leave one of them out with %s, or give it another member in %s",
					before.column.Name, m.column.Name, m.text, option.Exclude, option.Fields))
			}
		}
	}
	return faults
}

// hashedColumns leaves out what says that a row was touched, not what it says.
func hashedColumns(columns *source.Columns, members []member) []hashed {
	var list []hashed
	apart := []int{columns.ID, columns.Created, columns.Modified}
	sorted := slices.SortedFunc(slices.Values(members), func(a, b member) int { return strings.Compare(a.column.Name, b.column.Name) })
	for _, m := range sorted {
		if !slices.Contains(apart, m.index) {
			list = append(list, hashed{index: m.index, name: appendSized(nil, m.column.Name)})
		}
	}
	return list
}

func names(columns *source.Columns) string {
	list := make([]string, len(columns.List))
	for i, c := range columns.List {
		list[i] = c.Name
	}
	return strings.Join(list, ", ")
}

// Member is one member of data that is a column.
type Member struct {
	// Column is the column's index in source.Columns.List.
	Column int
	// Name is the member's name.
	Name string
	// Null says that its values may be null.
	Null bool
}

// Members returns the members that events have in data, in their order; those of the key alone, in
// the same order, for a deleted event. It is empty until a Bind has succeeded.
func (e *Encoder) Members(deleted bool) []Member {
	if e.plan == nil {
		return nil
	}
	members := e.plan.members
	if deleted {
		members = e.plan.keys
	}
	list := make([]Member, len(members))
	for i, m := range members {
		list[i] = Member{Column: m.index, Name: m.text, Null: m.null}
	}
	return list
}

// Shape returns what the events look like. It is empty until a Bind has succeeded.
func (e *Encoder) Shape() Shape {
	if e.plan == nil {
		return nil
	}
	return e.plan.shape
}

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
