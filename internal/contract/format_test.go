package contract_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"example.org/bridge/event"
	"example.org/bridge/internal/contract"
	"example.org/bridge/sink"
	"example.org/bridge/source"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testenv"
)

var formats = []event.Format{event.FormatEiffel, event.FormatCloudEvents, event.FormatRow}

// formatted returns a stream of every kind of column, of two tables that differ, in a format.
func formatted(t *testing.T, kind event.Kind, format event.Format) contract.Stream {
	t.Helper()
	s := stream(kind, newTable(t, kind, event.NullBad, "a", everyKind(true)), newTable(t, kind, event.NullBad, "b", everyKind(false)))
	s.Name = string(kind) + "_" + string(format)
	for _, table := range s.Tables {
		table.Encoder.As(event.Form{Format: format, Version: "1.2.3"})
	}
	return s
}

func payloads(t *testing.T, of source.Kind) contract.Stream {
	t.Helper()
	table := newTable(t, event.Release, event.NullBad, "outbox", everyKind(true))
	e, err := event.NewEncoder(event.Options{
		Stream: "things", Shard: "outbox", Kind: event.Release, Domain: "example.com", Source: "shop", Table: "outbox",
		Payload: &event.Payload{Column: "v" + string(rune('a'+of)), Headers: []event.Field{{Column: "app", Member: "app-id"}}},
	})
	if err == nil {
		err = e.Bind(table.Columns)
	}
	if err != nil {
		t.Fatal(err)
	}
	table.Encoder, table.Destinations = e, func(string) []string { return []string{"o.order", "o.customer"} }
	s := stream(event.Release, table)
	s.Name = "payload_" + table.Name + string(rune('a'+of))
	return s
}

func TestMessagesOfEveryFormatAreValid(t *testing.T) {
	for _, format := range formats {
		s := formatted(t, event.Capability, format)
		schemas := compile(t, s)
		for i, table := range s.Tables {
			// The second one may have NULL.
			for at := -i; at < 2; at++ {
				if body := encode(t, table, row(table.Columns, at)); schemas[event.Added].Validate(unmarshal(t, body)) != nil {
					t.Errorf("%s: values %d are refused: %s", format, at, body)
				}
			}
			r := row(table.Columns, 0)
			bodies := map[event.Op][]byte{event.Added: encode(t, table, r)}
			digest := must.Get(table.Encoder.Digest(r))(t)
			_, gone, err := table.Encoder.AppendAbsent(nil, event.Absent{Key: bytes.Clone(digest.Key), ID: 7, Read: time.Unix(1_700_000_000, 0)})
			if err != nil {
				t.Fatal(err)
			}
			bodies[event.Deleted] = gone.Body
			for op, body := range bodies {
				if err := schemas[op].Validate(unmarshal(t, body)); err != nil {
					t.Errorf("%s, %s: %v\n%s", format, op, err, body)
				}
				// The schema says something: a member of another type is refused.
				wrong := bytes.Replace(body, []byte(`"app":"app"`), []byte(`"app":1`), 1)
				if bytes.Equal(wrong, body) || schemas[op].Validate(unmarshal(t, wrong)) == nil {
					t.Errorf("%s, %s: it fits, too: %s", format, op, wrong)
				}
			}
		}
	}
}

func TestSchemasHaveTheVersionAndTheHashes(t *testing.T) {
	for _, format := range formats {
		s := formatted(t, event.Release, format)
		text := must.Get(contract.Schemas([]contract.Stream{s}))(t)
		if !strings.Contains(string(text), "published:1.2.3") {
			t.Errorf("%s: the version is missing in %s", format, text)
		}
		for _, table := range s.Tables {
			if comment := `"$comment": "bridge-schema: ` + table.Encoder.Shape().Hash().String() + `"`; !strings.Contains(string(text), comment) {
				t.Errorf("%s: %s is missing in %s", format, comment, text)
			}
		}
	}
}

// TestTheDocumentSatisfiesItsParser has the parser of AsyncAPI's makers read one of each kind
// of bus. Together they have each format and kind of stream; it also validates the examples.
func TestTheDocumentSatisfiesItsParser(t *testing.T) {
	t.Parallel()
	deleted := everyKind(true)
	deleted.Deleted = len(deleted.List)
	deleted.List = append(deleted.List, source.Column{Name: "deleted", Kind: source.Int, NotNull: true})
	states := stream(event.Capability,
		newTable(t, event.Capability, event.NullBad, "a b", everyKind(true)), newTable(t, event.Capability, event.NullBad, "a_b", deleted))
	kafka := document(t, []contract.Server{{Host: "one:9092", Protocol: "kafka-secure", KeyBinding: "kafka"}, {Host: "two:9092", Protocol: "kafka-secure", KeyBinding: "kafka"}},
		states, formatted(t, event.Release, event.FormatCloudEvents), formatted(t, event.Capability, event.FormatRow))
	nats := document(t, []contract.Server{{Host: "bus:4222", Protocol: "nats"}},
		payloads(t, source.JSON), payloads(t, source.Binary),
		formatted(t, event.Release, event.FormatEiffel), formatted(t, event.Capability, event.FormatCloudEvents), formatted(t, event.Release, event.FormatRow))
	for name, text := range map[string][]byte{"kafka": kafka, "nats": nats} {
		parser := testenv.Node("@asyncapi/parser", "node-asyncapi", "tests/testenv/asyncapi/parse.js")
		parser.Input = text
		for _, r := range testenv.JSONLines[struct {
			Severity            int
			Code, Path, Message string
		}](t, parser) {
			if r.Severity < 2 {
				t.Errorf("%s: %+v", name, r)
			}
		}
	}
	for _, want := range []string{`"contentType": "application/cloudevents+json"`, `"eiffel-time"`, `"bridge-reason"`, `"version": "1.2.3"`} {
		if !strings.Contains(string(kafka), want) {
			t.Errorf("%s is missing", want)
		}
	}
}

// TestTheSDKReadsCloudEvents has the SDK of CloudEvents read events of every kind of column.
func TestTheSDKReadsCloudEvents(t *testing.T) {
	t.Parallel()
	var values [][]byte
	var want []event.Event
	for _, kind := range []event.Kind{event.Capability, event.Release} {
		for _, table := range formatted(t, kind, event.FormatCloudEvents).Tables {
			for at := range 2 {
				_, ev, err := table.Encoder.Append(nil, event.Row{Row: row(table.Columns, at), Read: time.UnixMilli(1_700_000_000_123)})
				if err != nil {
					t.Fatal(err)
				}
				values, want = append(values, ev.Body), append(want, ev)
			}
		}
	}
	sdk := testenv.Node("cloudevents", "node-cloudevents", "tests/testenv/cloudevents/read.js")
	sdk.Input = bytes.Join(values, []byte("\n"))
	// Document is meta.id of the data.
	got := testenv.JSONLines[struct {
		ID, Type, Source, SpecVersion, Subject, DataContentType, Document string
		Time                                                              time.Time
	}](t, sdk)
	if len(got) != len(want) {
		t.Fatalf("%d events were read, want %d", len(got), len(want))
	}
	for i, e := range got {
		if e.ID != want[i].ID || e.Document != e.ID || e.Type != want[i].Type || e.Source != "bridge://example.com/things" || e.SpecVersion != "1.0" ||
			e.Subject != string(want[i].Key) || e.DataContentType != "application/json" || e.Time.UnixMilli() != 1_700_000_000_123 {
			t.Errorf("read %+v of %s", e, values[i])
		}
	}
}

// TestMessagesHaveTheHeadersOfTheDocument: those that it requires, and none that it does not name.
func TestMessagesHaveTheHeadersOfTheDocument(t *testing.T) {
	t.Parallel()
	for _, format := range append(slices.Clone(formats), event.FormatPayload) {
		s := payloads(t, source.JSON)
		if format != event.FormatPayload {
			s = formatted(t, event.Release, format)
		}
		var d struct {
			Components struct {
				Messages map[string]struct {
					Headers struct {
						Properties map[string]json.RawMessage
						Required   []string
					}
				}
			}
		}
		must.OK(t, json.Unmarshal(document(t, nil, s), &d))
		want := d.Components.Messages[s.Name+".published"].Headers
		m := sink.Message{Value: []byte("{}"), TraceParent: "t", Form: 1, Server: "s"}
		switch format {
		case event.FormatCloudEvents:
			m.Format = sink.FormatCloudEvents
		case event.FormatRow:
			m.Format, m.Bare = sink.FormatRow, new(sink.Bare)
		case event.FormatPayload:
			m.Format, m.Bare = sink.FormatPayload, &sink.Bare{Content: "application/json", Headers: []sink.Header{{Name: "app-id"}}}
		}
		for m.State.Index = range uint32(2) {
			has := make(map[string]bool)
			new(sink.Headers).Each(&m, func(name, _ string) {
				has[name] = true
				if want.Properties[name] == nil {
					t.Errorf("%s, message %d: the document has no header %s", format, m.State.Index, name)
				}
			})
			for _, name := range want.Required {
				if !has[name] {
					t.Errorf("%s, message %d: the message has no header %s", format, m.State.Index, name)
				}
			}
			if m.State.Index == 0 && len(has) != len(want.Properties) {
				t.Errorf("%s: %d headers, the document has %d", format, len(has), len(want.Properties))
			}
		}
	}
}
