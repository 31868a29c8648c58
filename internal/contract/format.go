package contract

import (
	"example.org/bridge/event"
	"example.org/bridge/sink"
)

// format is that of the messages of the stream.
func (s *Stream) format() event.Format { return s.Tables[0].Encoder.Format() }

// contentType returns that of the messages of the stream.
func (s *Stream) contentType() string {
	if s.format() == event.FormatCloudEvents {
		return sink.ContentTypeCloud
	}
	return sink.ContentType
}

// formatted returns the schema of a message whose event, as an Eiffel document, has a schema.
func (s *Stream) formatted(document *Schema, op event.Op) *Schema {
	switch s.format() {
	case event.FormatCloudEvents:
		return cloudEvent(document)
	case event.FormatRow:
		row := *document.Properties.Of("data")
		row.Dialect, row.ID, row.Title = document.Dialect, document.ID, document.Title
		row.Description = document.Description + " " + row.Description
		return &row
	default:
		return document
	}
}

// cloudEvent returns the schema of a CloudEvent 1.0 in structured mode with a document as its data.
func cloudEvent(document *Schema) *Schema {
	meta, data := document.Properties.Of("meta").Properties, *document
	data.Dialect, data.ID = "", ""
	text := Type{"string"}
	properties := Properties{
		{"specversion", &Schema{Const: "1.0"}},
		{"id", meta.Of("id")},
		{"source", meta.Of("source").Properties.Of("uri")},
		{"type", meta.Of("type")},
		{"time", &Schema{Type: text, Format: "date-time", Description: "meta.time."}},
		{"subject", &Schema{Type: text, Description: "The key of the entity; of a stream without KEY the id of the row.", MinLength: 1}},
		{"datacontenttype", &Schema{Const: sink.ContentType}},
		{"data", &data},
	}
	closed := false
	return &Schema{
		Dialect: document.Dialect, ID: document.ID, Title: document.Title, Description: document.Description,
		Type: Type{"object"}, Properties: properties, AdditionalProperties: &closed,
		Required: []string{"specversion", "id", "source", "type", "time", "datacontenttype", "data"},
	}
}

// bareHeaders are the headers of a message whose value is the row alone.
func bareHeaders(op event.Op) (list []Property, required []string) {
	list = []Property{{sink.HeaderTime, &Schema{Type: Type{"string"}, Description: "meta.time of the event, in ms since 1970."}}}
	if op != event.Published {
		list = append(list, Property{sink.HeaderPrevious, &Schema{Type: Type{"string"}, Description: "meta.id of the event of the entity that this one follows, where it is known."}})
	}
	required = []string{sink.HeaderTime}
	if op == event.Deleted {
		list = append(list, Property{sink.HeaderReason, &Schema{Enum: []any{"TOMBSTONE", "ABSENT_IN_SNAPSHOT"}, Description: "Why the entity is deleted."}})
		required = append(required, sink.HeaderReason)
	}
	return list, required
}
