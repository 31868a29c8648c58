package world

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"bridge/event"
)

// Schema is the schema of the events of one operation.
type Schema struct {
	*jsonschema.Schema
	// members are those of data, where they are known.
	members map[string]json.RawMessage
}

// compile compiles a schema.
func compile(t testing.TB, text []byte) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	var compiled *jsonschema.Schema
	if err = c.AddResource("schema.json", doc); err == nil {
		compiled, err = c.Compile("schema.json")
	}
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

// general returns the schemas that hold for all tables.
func general(t testing.TB) map[event.Op]*Schema {
	t.Helper()
	all := make(map[event.Op]*Schema)
	for op, kind := range map[event.Op]event.Kind{
		event.Added: event.Capability, event.Modified: event.Capability, event.Deleted: event.Capability, event.Published: event.Release,
	} {
		text, err := event.Schema(kind, op)
		if err != nil {
			t.Fatal(err)
		}
		all[op] = &Schema{Schema: compile(t, text)}
	}
	return all
}

// Schemas returns what `bridge schema` prints of a stream.
func Schemas(t testing.TB, e Env, stream string) map[event.Op]*Schema {
	t.Helper()
	status, stdout, stderr := Command(t, e, "schema", stream)
	var printed map[string]map[event.Op]json.RawMessage
	if err := json.Unmarshal([]byte(stdout), &printed); err != nil || status != 0 {
		t.Fatalf("status %d, %v: %s%s", status, err, stdout, stderr)
	}
	all := make(map[event.Op]*Schema)
	for op, text := range printed[stream] {
		all[op] = &Schema{compile(t, text), members(t, text)}
	}
	return all
}

// members returns those of data of the document that a schema describes, nil where tables differ.
func members(t testing.TB, schema []byte) map[string]json.RawMessage {
	t.Helper()
	var object struct{ Properties map[string]json.RawMessage }
	if err := json.Unmarshal(schema, &object); err != nil {
		t.Fatal(err)
	}
	switch all := object.Properties; {
	case all["specversion"] != nil:
		return members(t, all["data"])
	case all["meta"] != nil:
		var data struct{ Properties map[string]json.RawMessage }
		if err := json.Unmarshal(all["data"], &data); err != nil {
			t.Fatal(err)
		}
		return data.Properties
	case all == nil:
		return nil
	default:
		// The columns alone: Document adds the others.
		for _, name := range []string{"row", "reason"} {
			if _, column := all[name]; !column {
				all[name] = nil
			}
		}
		return all
	}
}

// unknown returns a member of data that a schema does not have, empty where there is none.
func (s *Schema) unknown(data map[string]json.RawMessage) string {
	for name := range data {
		if _, known := s.members[name]; s.members != nil && !known {
			return name
		}
	}
	return ""
}
