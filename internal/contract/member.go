package contract

import (
	"slices"

	"bridge/event"
	"bridge/source"
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

// fallible are the kinds of which a value may have no form in JSON though the table refuses NULL:
// bytes that are not UTF-8, infinity, a zero date.
var fallible = []source.Kind{source.Float, source.Text, source.JSON, source.Date, source.DateTime, source.Timestamp}

// member returns the schema of the member of a column.
func member(column source.Column, bad event.BadValue) *Schema {
	s := forms[column.Kind]
	s.Type = slices.Clone(s.Type)
	text := "Column " + column.Name + "."
	if s.Description != "" {
		text += " " + s.Description
	}
	cannot := bad == event.NullBad && slices.Contains(fallible, column.Kind)
	if column.NotNull && cannot {
		text += " Null only where the value has no form in JSON."
	}
	if s.Type != nil && (cannot || !column.NotNull) {
		s.Type = append(s.Type, "null")
	}
	s.Description = text
	return &s
}
