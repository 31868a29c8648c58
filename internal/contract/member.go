package contract

import (
	"slices"

	"example.org/bridge/event"
	"example.org/bridge/source"
)

// forms says what the values of a kind of column are in an event (docs/events.md, data).
var forms = map[source.Kind]Schema{
	source.Int:       {Type: Type{"integer"}},
	source.Decimal:   {Type: Type{"string"}, Description: "A decimal with all its digits."},
	source.Float:     {Type: Type{"number"}},
	source.Text:      {Type: Type{"string"}},
	source.Binary:    {Type: Type{"string"}, ContentEncoding: "base64"},
	source.Bit:       {Type: Type{"integer"}, Minimum: "0", Maximum: "18446744073709551615"},
	source.JSON:      {Description: "The document itself."},
	source.Date:      {Type: Type{"string"}, Format: "date"},
	source.Clock:     {Type: Type{"string"}, Description: "A time of day or a span: hours, minutes and seconds."},
	source.DateTime:  {Type: Type{"string"}, Format: "date-time"},
	source.Timestamp: {Type: Type{"string"}, Format: "date-time"},
}

// member returns the schema of a member, which is that of a column.
func member(m event.Member, column source.Column) *Schema {
	s := forms[column.Kind]
	s.Type = slices.Clone(s.Type)
	text := "Column " + column.Name + "."
	if s.Description != "" {
		text += " " + s.Description
	}
	if column.NotNull && m.Null {
		text += " Null only where the value has no form in JSON."
	}
	if s.Type != nil && m.Null {
		s.Type = append(s.Type, "null")
	}
	s.Description = text
	return &s
}
