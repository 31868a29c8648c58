package contract

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
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
	// Encoder is the encoder of the table's events, bound to Columns.
	Encoder *event.Encoder
	// Destinations returns where events of a type go: each of several where rows say it; "{key}"
	// stands for the key of an entity.
	Destinations func(eventType string) []string
}

// encoder says what all tables of the stream have in common: types, version and format.
func (s *Stream) encoder() *event.Encoder { return s.Tables[0].Encoder }

func (s *Stream) contentType() string {
	switch s.encoder().Format() {
	case event.FormatCloudEvents:
		return sink.ContentTypeCloud
	case event.FormatPayload:
		return s.encoder().Payload().ContentType(s.Tables[0].Columns)
	}
	return sink.ContentType
}

var operations = map[event.Kind][]event.Op{
	event.Capability: {event.Added, event.Modified, event.Deleted},
	event.Release:    {event.Published},
}

// Schemas returns the schemas of streams as a JSON object by stream, of objects by operation.
func Schemas(streams []Stream) ([]byte, error) {
	all := object{}
	for i := range streams {
		s := &streams[i]
		for _, op := range operations[s.Kind] {
			schema, err := s.schema(op)
			if err != nil {
				return nil, err
			}
			set(all, schema, s.Name, string(op))
		}
	}
	return text(all)
}

func (s *Stream) schema(op event.Op) (object, error) {
	general, err := event.Schema(s.Kind, op)
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", s.Name, err)
	}
	document, version := object{}, s.encoder().Version()
	d := json.NewDecoder(bytes.NewReader(general))
	d.UseNumber()
	if err := d.Decode(&document); err != nil {
		return nil, fmt.Errorf("stream %s: read the schema of %s: %w", s.Name, op, err)
	}
	for _, one := range []struct {
		value any
		path  string
	}{
		{"urn:bridge:schema:" + url.PathEscape(s.Domain) + ":" + url.PathEscape(s.Name) + ":" + string(op) + ":" + version, "$id"},
		{s.encoder().Type(op), "title"},
		{object{"const": s.encoder().Type(op)}, "properties meta properties type"},
		{object{"const": version}, "properties meta properties version"},
		{object{"const": s.Domain}, "properties meta properties source properties domainId"},
		{s.data(get(document, "properties", "data").(object), op), "properties data"},
	} {
		set(document, one.value, strings.Fields(one.path)...)
	}
	switch s.encoder().Format() {
	case event.FormatPayload:
		return object{
			"$schema": get(document, "$schema"), "$id": get(document, "$id"), "title": get(document, "title"),
			"description": "The column " + s.encoder().Payload().Column + " as it is.",
		}, nil
	case event.FormatCloudEvents:
		return cloudEvent(document), nil
	case event.FormatRow:
		data := get(document, "properties", "data").(object)
		row := object{"$schema": get(document, "$schema"), "$id": get(document, "$id"), "title": get(document, "title")}
		maps.Copy(row, data)
		set(row, fmt.Sprint(get(document, "description"), " ", get(data, "description")), "description")
		return row, nil
	default:
		return document, nil
	}
}

// cloudEvent returns the schema of a CloudEvent 1.0 in structured mode with a document as its data.
func cloudEvent(document object) object {
	meta := get(document, "properties", "meta", "properties").(object)
	return object{
		"$schema": get(document, "$schema"), "$id": get(document, "$id"), "title": get(document, "title"),
		"description": get(document, "description"), "type": "object",
		"properties": object{
			"specversion":     object{"const": "1.0"},
			"id":              get(meta, "id"),
			"source":          get(meta, "source", "properties", "uri"),
			"type":            get(meta, "type"),
			"time":            object{"type": "string", "format": "date-time", "description": "meta.time."},
			"subject":         object{"type": "string", "description": keyOrID, "minLength": 1},
			"datacontenttype": object{"const": sink.ContentType},
			"data":            without(document, "$schema", "$id"),
		},
		"required":             []string{"specversion", "id", "source", "type", "time", "datacontenttype", "data"},
		"additionalProperties": false,
	}
}

func (s *Stream) data(general object, op event.Op) object {
	var shapes []object
	var tables, hashes [][]string
	for i := range s.Tables {
		t := &s.Tables[i]
		shape := t.shape(general, op)
		at := slices.IndexFunc(shapes, func(other object) bool { return reflect.DeepEqual(shape, other) })
		if at < 0 {
			at = len(shapes)
			shapes, tables, hashes = append(shapes, shape), append(tables, nil), append(hashes, nil)
		}
		tables[at] = append(tables[at], t.Name)
		if hash := t.Encoder.Shape().Hash().String(); !slices.Contains(hashes[at], hash) {
			hashes[at] = append(hashes[at], hash)
		}
	}
	anyOf := make([]any, len(shapes))
	for i := range shapes {
		set(shapes[i], sink.HeaderSchema+": "+strings.Join(hashes[i], ", "), "$comment")
		if len(shapes) > 1 {
			set(shapes[i], "Of "+some(tables[i])+".", "description")
		}
		anyOf[i] = shapes[i]
	}
	if len(shapes) == 1 {
		return shapes[0]
	}
	return object{"description": "The tables of the stream have different columns.", "anyOf": anyOf}
}

func some(tables []string) string {
	const most = 8
	if more := len(tables) - most; more > 0 {
		return fmt.Sprintf("%s and %d other tables", strings.Join(tables[:most], ", "), more)
	}
	return strings.Join(tables, ", ")
}

func (t *Table) shape(general object, op event.Op) object {
	properties, required := object{}, []any{}
	for _, m := range t.Encoder.Members(op == event.Deleted) {
		properties[m.Name], required = memberSchema(m, t.Columns.List[m.Column]), append(required, m.Name)
	}
	what, rest := "The columns of the row", ", and row, which says where it came from."
	if op == event.Deleted {
		what, rest = "The key columns of the entity", ", the reason, and row, which says where it came from."
	}
	if t.Encoder.Format() == event.FormatRow {
		rest = "."
	} else {
		maps.Copy(properties, get(general, "properties").(object))
		required = append(required, get(general, "required").([]any)...)
	}
	return object{"$comment": "", "description": what + rest, "type": "object", "properties": properties, "required": required}
}

// forms says what the values of a kind of column are in an event (docs/events.md, data).
var forms = map[source.Kind]object{
	source.Int:       {"type": "integer"},
	source.Decimal:   {"type": "string", "description": "A decimal with all its digits."},
	source.Float:     {"type": "number"},
	source.Text:      {"type": "string"},
	source.Binary:    {"type": "string", "contentEncoding": "base64"},
	source.Bit:       {"type": "integer", "minimum": 0, "maximum": json.Number("18446744073709551615")},
	source.JSON:      {"description": "The document itself."},
	source.Date:      {"type": "string", "format": "date"},
	source.Clock:     {"type": "string", "description": "A time of day or a span: hours, minutes and seconds."},
	source.DateTime:  {"type": "string", "format": "date-time"},
	source.Timestamp: {"type": "string", "format": "date-time"},
}

func memberSchema(m event.Member, column source.Column) object {
	s := maps.Clone(forms[column.Kind])
	text := "Column " + column.Name + "."
	if more := get(s, "description"); more != nil {
		text += " " + more.(string)
	}
	if column.NotNull && m.Null {
		text += " Null only where the value has no form in JSON."
	}
	set(s, text, "description")
	if kind := get(s, "type"); kind != nil && m.Null {
		set(s, []any{kind, "null"}, "type")
	}
	return s
}

type object = map[string]any

// get returns the value at a path of members, nil if there is none.
func get(o object, path ...string) any {
	for _, name := range path[:len(path)-1] {
		o, _ = o[name].(object)
	}
	return o[path[len(path)-1]]
}

// set changes the value at a path of members, which it makes where they are missing.
func set(o object, value any, path ...string) {
	for _, name := range path[:len(path)-1] {
		inner, _ := o[name].(object)
		if inner == nil {
			inner = object{}
			o[name] = inner
		}
		o = inner
	}
	o[path[len(path)-1]] = value
}

func without(o object, names ...string) object {
	o = maps.Clone(o)
	maps.DeleteFunc(o, func(name string, _ any) bool { return slices.Contains(names, name) })
	return o
}

// text returns the object as indented JSON, in which < and > stay as they are.
func text(o object) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(o)
	return b.Bytes(), err
}
