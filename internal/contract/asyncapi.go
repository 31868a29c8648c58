package contract

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"example.org/bridge/event"
	"example.org/bridge/sink"
)

// Server is one server of the bus.
type Server struct {
	// Host is host:port.
	Host string
	// Protocol is an AsyncAPI name: kafka, kafka-secure, nats.
	Protocol string
}

// Document is an AsyncAPI document, version 3.0.0. https://www.asyncapi.com/docs/reference
type Document struct {
	AsyncAPI           string           `json:"asyncapi"`
	Info               info             `json:"info"`
	DefaultContentType string           `json:"defaultContentType"`
	Servers            named[server]    `json:"servers,omitempty"`
	Channels           named[channel]   `json:"channels"`
	Operations         named[operation] `json:"operations"`
	Components         components       `json:"components"`
}

type info struct {
	Title       string `json:"title"`
	Version     string `json:"version"`
	Description string `json:"description"`
}

type server struct {
	Host     string `json:"host"`
	Protocol string `json:"protocol"`
}

type channel struct {
	Address    string           `json:"address"`
	Parameters named[parameter] `json:"parameters,omitempty"`
	Messages   named[ref]       `json:"messages"`
}

type parameter struct {
	Description string `json:"description"`
}

type operation struct {
	Action   string `json:"action"`
	Channel  ref    `json:"channel"`
	Messages []ref  `json:"messages"`
}

type components struct {
	Messages named[message] `json:"messages"`
}

type message struct {
	Name        string         `json:"name"`
	Title       string         `json:"title"`
	Summary     string         `json:"summary"`
	ContentType string         `json:"contentType"`
	Headers     *Schema        `json:"headers"`
	Payload     *Schema        `json:"payload"`
	Bindings    map[string]any `json:"bindings,omitempty"`
	Examples    []example      `json:"examples"`
}

type example struct {
	Payload json.RawMessage `json:"payload"`
}

type ref struct {
	Ref string `json:"$ref"`
}

// entry is one member of an object that has names of its own; named is such an object, in order.
type entry[V any] struct {
	name  string
	value *V
}

type named[V any] []entry[V]

func (n named[V]) MarshalJSON() ([]byte, error) {
	return marshalObject(n, func(one entry[V]) (string, any) { return one.name, one.value })
}

// of returns the member with a name, made where it is not there.
func (n *named[V]) of(name string) *V {
	at := slices.IndexFunc(*n, func(one entry[V]) bool { return one.name == name })
	if at < 0 {
		at = len(*n)
		*n = append(*n, entry[V]{name, new(V)})
	}
	return (*n)[at].value
}

// AsyncAPI describes streams and where their events go. The document sends: it is that of the
// bridge, and a consumer receives.
func AsyncAPI(domain string, servers []Server, streams []Stream) (*Document, error) {
	d := &Document{
		AsyncAPI: "3.0.0", DefaultContentType: sink.ContentType,
		Info: info{
			Title: "Events of " + domain, Version: version(streams),
			Description: "Rows of SQL tables as Eiffel events, published by bridge. A message may come again with the same " + sink.HeaderID +
				"; the events of an entity come in their order.",
		},
	}
	for i, s := range servers {
		*d.Servers.of(fmt.Sprintf("bus%d", i+1)) = server(s)
	}
	for i := range streams {
		if err := d.add(&streams[i], servers); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// version returns that of a document about streams: the highest one of their events.
func version(streams []Stream) string {
	if len(streams) == 0 {
		return event.Version
	}
	var highest event.VersionNumbers
	for i := range streams {
		// The encoder has checked it.
		if one, _ := event.ParseVersion(streams[i].version()); one.Compare(highest) > 0 {
			highest = one
		}
	}
	return highest.String()
}

// add describes a stream: its messages, and a channel for each destination.
func (d *Document) add(s *Stream, servers []Server) error {
	messages, err := s.Messages()
	if err != nil {
		return err
	}
	for _, m := range messages {
		name := s.Name + "." + string(m.Op)
		one := d.Components.Messages.of(name)
		// Names for schemas that stand alone.
		m.Schema.Dialect, m.Schema.ID = "", ""
		body, err := s.Tables[0].example(m.Op)
		if err != nil {
			return fmt.Errorf("stream %s: %w", s.Name, err)
		}
		*one = message{
			Name: m.Type, Title: m.Type, Summary: m.Schema.Description, ContentType: s.contentType(),
			Headers: headers(s, &m), Payload: m.Schema, Examples: []example{{body}},
		}
		if len(servers) > 0 && strings.HasPrefix(servers[0].Protocol, "kafka") {
			key := &Schema{Type: Type{"string"}, Description: "The key of the entity; of a stream without KEY the id of the row."}
			one.Bindings = map[string]any{"kafka": map[string]any{"key": key}}
		}
		for i := range s.Tables {
			d.send(s.Tables[i].Destination(m.Type), name)
		}
	}
	return nil
}

// keyText is what stands for the key of an entity in a destination.
const keyText = "{key}"

// send adds a message to the channel of a destination and to the operation that sends there.
func (d *Document) send(destination, message string) {
	id := d.channelID(destination)
	c := d.Channels.of(id)
	c.Address = destination
	if strings.Contains(destination, keyText) {
		c.Parameters.of("key").Description = "The key of the entity, percent-encoded."
	}
	c.Messages.of(message).Ref = "#/components/messages/" + message
	o := d.Operations.of("send." + id)
	o.Action, o.Channel.Ref = "send", "#/channels/"+id
	to := ref{"#/channels/" + id + "/messages/" + message}
	if !slices.Contains(o.Messages, to) {
		o.Messages = append(o.Messages, to)
	}
}

// outsideID are characters that the name of a component cannot have.
var outsideID = regexp.MustCompile(`[^A-Za-z0-9._-]`)

// channelID returns the name of the channel of a destination.
func (d *Document) channelID(destination string) string {
	plain := outsideID.ReplaceAllString(destination, "_")
	for n, id := 2, plain; ; n, id = n+1, fmt.Sprintf("%s_%d", plain, n) {
		at := slices.IndexFunc(d.Channels, func(one entry[channel]) bool { return one.name == id })
		if at < 0 || d.Channels[at].value.Address == destination {
			return id
		}
	}
}

// presence says whether a message has a header: one that the value or the bus says, or that the
// first message of a batch in a topic-partition alone has, others lack.
type presence uint8

const (
	never presence = iota
	sometimes
	always
)

// only returns p where something holds, else never.
func (p presence) only(holds bool) presence {
	if holds {
		return p
	}
	return never
}

// headers returns the schema of the headers of a kind of message; docs/events.md explains them.
func headers(of *Stream, m *Message) *Schema {
	text := func(description string) *Schema { return &Schema{Type: Type{"string"}, Description: description} }
	s := &Schema{Type: Type{"object"}}
	row := of.format() == event.FormatRow
	for _, p := range []struct {
		Property
		when presence
	}{
		{Property{sink.HeaderContentType, &Schema{Const: of.contentType()}}, always.only(row || of.format() == event.FormatCloudEvents)},
		{Property{sink.HeaderID, text("meta.id of the event. A repeat has the same.")}, always},
		{Property{sink.HeaderType, &Schema{Const: m.Type}}, always.only(row)},
		{Property{sink.HeaderVersion, &Schema{Const: of.version()}}, map[bool]presence{true: always, false: sometimes}[row]},
		{Property{sink.HeaderSchema, &Schema{Type: Type{"string"}, Pattern: "^[0-9a-f]{12}$", Description: "A hash of the members of data and their types. Another one comes with another form of the table."}}, sometimes},
		{Property{sink.HeaderDomain, &Schema{Const: of.Domain}}, always},
		{Property{sink.HeaderStream, &Schema{Const: of.Name}}, always},
		{Property{sink.HeaderShard, text("The physical table.")}, always},
		{Property{sink.HeaderRowID, text("The id of the row, in decimal digits.")}, always},
		{Property{sink.HeaderOrigin, text("How the row was noticed: tail, late, modified or reconcile.")}, always},
		{Property{sink.HeaderPublishedAt, &Schema{Type: Type{"string"}, Format: "date-time", Description: "When the message was made."}}, always.only(row)},
		{Property{sink.HeaderState, text("What bridge reads back about its own messages; not for consumers.")}, always},
		{Property{sink.HeaderForm, text("What tells rows apart; not for consumers.")}, sometimes},
		{Property{sink.HeaderServer, text("Where the rows of the batch were read.")}, sometimes},
		{Property{sink.HeaderTraceParent, text("The trace of the batch, as W3C Trace Context has it.")}, sometimes},
	} {
		if p.when != never {
			s.Properties = append(s.Properties, p.Property)
		}
		if p.when == always {
			s.Required = append(s.Required, p.Name)
		}
	}
	if row {
		list, required := bareHeaders(m.Op)
		s.Properties, s.Required = append(s.Properties, list...), append(s.Required, required...)
	}
	return s
}
