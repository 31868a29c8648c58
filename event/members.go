package event

import "bridge/source"

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

// MemberName returns the member of a column without a name of its own: its name in lower camel
// case.
func MemberName(column string) string { return memberName(column) }

// With returns an encoder under the same options, but for the members, which are those of fields,
// bound to columns.
func (e *Encoder) With(fields []Field, columns *source.Columns) (*Encoder, error) {
	o := e.options
	o.Fields, o.Exclude = fields, nil
	other, err := NewEncoder(o)
	if err != nil {
		return nil, err
	}
	return other, other.Bind(columns)
}

// Shape returns what the events look like. It is empty until a Bind has succeeded.
func (e *Encoder) Shape() Shape {
	if e.plan == nil {
		return nil
	}
	return e.plan.shape
}
