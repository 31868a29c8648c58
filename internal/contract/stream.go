package contract

import (
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"example.org/bridge/event"
	"example.org/bridge/sink"
	"example.org/bridge/source"
)

// Stream is a stream whose events are described.
type Stream struct {
	Name, Domain string
	Kind         event.Kind
	// Tables has at least one.
	Tables []Table
}

// Table is one table of a stream.
type Table struct {
	Name    string
	Columns *source.Columns
	// Encoder is that of the table's events, bound to Columns.
	Encoder *event.Encoder
	// Destinations returns where events of a type go; "{key}" stands for the key of an entity.
	Destination func(eventType string) string
}

// Message is one kind of event of a stream.
type Message struct {
	Op     event.Op
	Type   string
	Schema *Schema
}

// operations are those of each kind of stream, in the order in which they are described.
var operations = map[event.Kind][]event.Op{
	event.Capability: {event.Added, event.Modified, event.Deleted},
	event.Release:    {event.Published},
}

// Schemas are the schemas of streams, by stream and operation; in JSON they are an object of
// objects, in order.
type Schemas struct{ streams named[named[Schema]] }

// MarshalJSON writes an object of objects.
func (s Schemas) MarshalJSON() ([]byte, error) { return marshal(s.streams) }

// SchemasOf returns the schemas of streams.
func SchemasOf(streams []Stream) (s Schemas, err error) {
	for i := range streams {
		messages, err := streams[i].Messages()
		if err != nil {
			return s, err
		}
		one := s.streams.of(streams[i].Name)
		for _, m := range messages {
			*one.of(string(m.Op)) = *m.Schema
		}
	}
	return s, nil
}

// Messages returns the events of a stream with their schemas, each operation once.
func (s *Stream) Messages() ([]Message, error) {
	var messages []Message
	for _, op := range operations[s.Kind] {
		schema, err := s.schema(op)
		if err != nil {
			return nil, fmt.Errorf("stream %s: %w", s.Name, err)
		}
		messages = append(messages, Message{Op: op, Type: s.Tables[0].Encoder.Type(op), Schema: schema})
	}
	return messages, nil
}

// version is meta.version of the events.
func (s *Stream) version() string { return s.Tables[0].Encoder.Version() }

// schema returns the schema of the events of an operation.
func (s *Stream) schema(op event.Op) (*Schema, error) {
	text, err := event.Schema(s.Kind, op)
	if err != nil {
		return nil, err
	}
	schema, err := Parse(text)
	if err != nil {
		return nil, err
	}
	name := s.Tables[0].Encoder.Type(op)
	schema.ID = "urn:bridge:schema:" + url.PathEscape(s.Domain) + ":" + url.PathEscape(s.Name) + ":" + string(op) + ":" + s.version()
	schema.Title = name
	meta := schema.Properties.Of("meta")
	*meta.Properties.Of("type") = Schema{Const: name}
	*meta.Properties.Of("version") = Schema{Const: s.version()}
	*meta.Properties.Of("source").Properties.Of("domainId") = Schema{Const: s.Domain}
	data := schema.Properties.Of("data")
	*data = *s.data(data, op)
	return s.formatted(schema, op), nil
}

// data returns the schema of data: one for all tables, or one for each shape that tables have.
func (s *Stream) data(general *Schema, op event.Op) *Schema {
	var shapes []*Schema
	var tables, hashes [][]string
	for i := range s.Tables {
		shape := shapeOf(&s.Tables[i], general, op)
		at := slices.IndexFunc(shapes, func(other *Schema) bool { return reflect.DeepEqual(shape, other) })
		if at < 0 {
			at = len(shapes)
			shapes, tables, hashes = append(shapes, shape), append(tables, nil), append(hashes, nil)
		}
		tables[at] = append(tables[at], s.Tables[i].Name)
		hashes[at] = s.Tables[i].hashed(hashes[at])
	}
	for i, shape := range shapes {
		shape.Comment = sink.HeaderSchema + ": " + strings.Join(hashes[i], ", ")
	}
	if len(shapes) == 1 {
		return shapes[0]
	}
	for i, shape := range shapes {
		shape.Description = "Of " + some(tables[i]) + "."
	}
	return &Schema{Description: "The tables of the stream have different columns.", AnyOf: shapes}
}

// hashed returns hashes with that of the shape of the table's events.
func (t *Table) hashed(hashes []string) []string {
	if hash := t.Encoder.Shape().Hash().String(); !slices.Contains(hashes, hash) {
		hashes = append(hashes, hash)
	}
	return hashes
}

// mostNamed is how many tables a description names.
const mostNamed = 8

// some names tables.
func some(tables []string) string {
	if more := len(tables) - mostNamed; more > 0 {
		return fmt.Sprintf("%s and %d other tables", strings.Join(tables[:mostNamed], ", "), more)
	}
	return strings.Join(tables, ", ")
}

// shapeOf returns the schema of data of one table: its columns, and what every event has.
func shapeOf(t *Table, general *Schema, op event.Op) *Schema {
	shape := *general
	shape.Description = "The columns of the row, and row, which says where it came from."
	if op == event.Deleted {
		shape.Description = "The key columns of the entity, the reason, and row, which says where it came from."
	}
	shape.Properties, shape.Required = nil, nil
	for _, m := range t.Encoder.Members(op == event.Deleted) {
		shape.Properties = append(shape.Properties, Property{m.Name, member(m, t.Columns.List[m.Column])})
		shape.Required = append(shape.Required, m.Name)
	}
	if t.Encoder.Format() == event.FormatRow {
		shape.Description = map[bool]string{false: "The columns of the row.", true: "The key columns of the entity."}[op == event.Deleted]
		return &shape
	}
	shape.Properties = append(shape.Properties, general.Properties...)
	shape.Required = append(shape.Required, general.Required...)
	return &shape
}
