package contract

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"example.org/bridge/event"
	"example.org/bridge/sink"
	"example.org/bridge/source"
)

// Server is one server of the bus.
type Server struct {
	// Host is host:port.
	Host string
	// Protocol is an AsyncAPI name: kafka, kafka-secure, nats.
	Protocol string
	// KeyBinding is the AsyncAPI binding that describes the keys of messages, empty where messages
	// have none.
	KeyBinding string
}

const keyOrID = "The key of the entity; of a stream without KEY the id of the row, which rows of other tables may have, too."

// document is an AsyncAPI document, version 3.0.0. https://www.asyncapi.com/docs/reference
type document struct{ channels, operations, messages object }

// AsyncAPI describes streams and where their events go. The document sends: it is that of the
// bridge, and a consumer receives.
func AsyncAPI(domain string, servers []Server, streams []Stream) ([]byte, error) {
	d := document{object{}, object{}, object{}}
	var highest event.VersionNumbers
	binding := ""
	if len(servers) > 0 {
		binding = servers[0].KeyBinding
	}
	for i := range streams {
		// The encoder has checked it.
		if one, _ := event.ParseVersion(streams[i].encoder().Version()); one.Compare(highest) > 0 {
			highest = one
		}
		if err := d.add(&streams[i], binding); err != nil {
			return nil, fmt.Errorf("stream %s: %w", streams[i].Name, err)
		}
	}
	version := event.Version
	if len(streams) > 0 {
		version = highest.String()
	}
	all := object{
		"asyncapi": "3.0.0",
		"info": object{
			"title": "Events of " + domain, "version": version,
			"description": "Rows of SQL tables as Eiffel events, published by bridge. A message may come again with the same " + sink.HeaderID +
				"; the events of an entity come in their order. Skip messages without the header " + sink.HeaderStream +
				". One without a value says that its entity is deleted.",
		},
		"defaultContentType": sink.ContentType, "channels": d.channels, "operations": d.operations, "components": object{"messages": d.messages},
	}
	for i, s := range servers {
		set(all, object{"host": s.Host, "protocol": s.Protocol}, "servers", fmt.Sprintf("bus%d", i+1))
	}
	return text(all)
}

func (d *document) add(s *Stream, binding string) error {
	for _, op := range operations[s.Kind] {
		schema, err := s.schema(op)
		if err != nil {
			return err
		}
		body, err := s.Tables[0].example(op)
		if err != nil {
			return fmt.Errorf("make an example of the operation %s: %w", op, err)
		}
		name, kind := s.Name+"."+string(op), s.encoder().Type(op)
		one := object{
			"name": kind, "title": kind, "summary": get(schema, "description"),
			"headers": headers(s, op), "payload": without(schema, "$schema", "$id"), // names for schemas that stand alone
		}
		if content := s.contentType(); content != "" {
			set(one, content, "contentType")
		}
		if binding != "" {
			set(one, object{"type": "string", "description": keyOrID}, "bindings", binding, "key")
		}
		set(one, []any{object{"payload": body}}, "examples")
		set(d.messages, one, name)
		for i := range s.Tables {
			for _, to := range s.Tables[i].Destinations(kind) {
				d.send(to, name)
			}
		}
	}
	return nil
}

// outsideID are characters that the name of a component cannot have.
var outsideID = regexp.MustCompile(`[^A-Za-z0-9._-]`)

// send adds a message to the channel of a destination and to the operation that sends there.
func (d *document) send(destination, message string) {
	plain := outsideID.ReplaceAllString(destination, "_")
	id := plain
	for n := 2; get(d.channels, id) != nil && get(d.channels, id, "address") != destination; n++ {
		id = fmt.Sprintf("%s_%d", plain, n)
	}
	set(d.channels, destination, id, "address")
	if strings.Contains(destination, "{key}") {
		set(d.channels, "The key of the entity, percent-encoded.", id, "parameters", "key", "description")
	}
	set(d.channels, "#/components/messages/"+message, id, "messages", message, "$ref")
	operation, channel := "send."+id, "#/channels/"+id
	set(d.operations, "send", operation, "action")
	set(d.operations, channel, operation, "channel", "$ref")
	to := channel + "/messages/" + message
	list, _ := get(d.operations, operation, "messages").([]any)
	if !slices.ContainsFunc(list, func(one any) bool { return get(one.(object), "$ref") == to }) {
		set(d.operations, append(list, object{"$ref": to}), operation, "messages")
	}
}

func headers(of *Stream, op event.Op) object {
	text := func(description string) object { return object{"type": "string", "description": description} }
	is := func(value string) object { return object{"const": value} }
	properties, required := object{}, []string{}
	add := func(isThere, isRequired bool, name string, schema object) {
		if isThere {
			properties[name] = schema
		}
		if isThere && isRequired {
			required = append(required, name)
		}
	}
	e := of.encoder()
	payload := e.Format() == event.FormatPayload
	row := payload || e.Format() == event.FormatRow
	add((row || e.Format() == event.FormatCloudEvents) && of.contentType() != "", true, sink.HeaderContentType, is(of.contentType()))
	add(true, true, sink.HeaderID, text("meta.id of the event. A repeat has the same."))
	add(row, true, sink.HeaderType, is(e.Type(op)))
	// Of other messages the first one of a batch in a topic-partition alone has it.
	add(true, row, sink.HeaderVersion, is(e.Version()))
	add(true, false, sink.HeaderSchema, object{"type": "string",
		"description": "A hash of the members of data and their types. Another one comes with another form of the table.", "pattern": "^[0-9a-f]{12}$"})
	add(true, true, sink.HeaderDomain, is(of.Domain))
	add(true, true, sink.HeaderStream, is(of.Name))
	add(true, true, sink.HeaderShard, text("The physical table."))
	add(true, true, sink.HeaderRowID, text("The id of the row, in decimal digits."))
	add(true, true, sink.HeaderOrigin, text("How the row was noticed: tail, late, modified, reconcile, or republish for an event that somebody has asked for again."))
	add(row, true, sink.HeaderPublishedAt, object{"type": "string", "format": "date-time", "description": "When the message was made."})
	add(true, true, sink.HeaderState, text("What bridge reads back about its own messages; not for consumers."))
	add(true, false, sink.HeaderForm, text("What tells rows apart; not for consumers."))
	add(true, false, sink.HeaderServer, text("Where the rows of the batch were read."))
	add(true, false, sink.HeaderTraceParent, text("The trace of the batch, as W3C Trace Context has it."))
	add(row, true, sink.HeaderTime, text("meta.time of the event, in ms since 1970."))
	add(row && op != event.Published, false, sink.HeaderPrevious,
		text("meta.id of the event of the entity that this one follows, where it is known."))
	add(row && op == event.Deleted, true, sink.HeaderReason,
		object{"description": "Why the entity is deleted.", "enum": []string{"TOMBSTONE", "FILTERED", "ABSENT_IN_SNAPSHOT", "STALE"}})
	if add(payload, true, sink.HeaderFormat, is(sink.PayloadFormat)); payload {
		for _, h := range e.Payload().Headers {
			add(true, false, h.Member, text("Column "+h.Column+"; left out for NULL."))
		}
	}
	return object{"type": "object", "properties": properties, "required": required}
}

// samples are values of each kind in their normal form, lives those of a DELETED column that says
// that the row is there; NULL says that of the others.
var (
	samples = map[source.Kind]string{
		source.Int: "1", source.Decimal: "12.50", source.Float: "0.5", source.Text: "text", source.Binary: "bytes", source.Bit: "\x01",
		source.JSON: `{"member":1}`, source.Date: "2026-03-01", source.Clock: "12:00:00",
		source.DateTime: "2026-03-01 12:00:00", source.Timestamp: "2026-03-01 12:00:00",
	}
	lives = map[source.Kind]string{
		source.Int: "0", source.Decimal: "0", source.Float: "0", source.Text: "no", source.Binary: "\x00", source.Bit: "\x00", source.JSON: "0",
	}
)

func (t *Table) example(op event.Op) (json.RawMessage, error) {
	row := event.Row{Row: source.Row{ID: 1, Values: make([][]byte, len(t.Columns.List))}, Read: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	for i, column := range t.Columns.List {
		from := samples
		if i == t.Columns.Deleted {
			from = lives
		}
		if value, ok := from[column.Kind]; ok {
			row.Values[i] = []byte(value)
		}
	}
	if op == event.Modified || op == event.Deleted {
		row.Predecessor = "00000000-0000-5000-8000-000000000000"
	}
	if op == event.Modified {
		row.Op = op
	}
	if op != event.Deleted {
		_, one, err := t.Encoder.Append(nil, row)
		if err == nil && !json.Valid(one.Body) {
			// A payload is text or bytes.
			return json.Marshal(string(one.Body))
		}
		return one.Body, err
	}
	digest, err := t.Encoder.Digest(row.Row)
	if err != nil {
		return nil, err
	}
	_, one, err := t.Encoder.AppendAbsent(nil, event.Absent{Key: bytes.Clone(digest.Key), ID: 1, Read: row.Read, Predecessor: row.Predecessor})
	return one.Body, err
}
