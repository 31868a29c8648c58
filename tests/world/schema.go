package world

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"example.org/bridge/event"
)

// compile compiles a schema as change makes it.
func compile(t testing.TB, text []byte, change func(schema map[string]any)) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	c := jsonschema.NewCompiler()
	var compiled *jsonschema.Schema
	if err == nil {
		change(doc.(map[string]any))
		err = c.AddResource("schema.json", doc)
	}
	if err == nil {
		compiled, err = c.Compile("schema.json")
	}
	check(t, err)
	return compiled
}

// general returns the schemas that hold for all tables.
func general(t testing.TB) map[event.Op]*jsonschema.Schema {
	t.Helper()
	all := make(map[event.Op]*jsonschema.Schema)
	for op, kind := range map[event.Op]event.Kind{
		event.Added: event.Capability, event.Modified: event.Capability, event.Deleted: event.Capability, event.Published: event.Release,
	} {
		text, err := event.Schema(kind, op)
		check(t, err)
		all[op] = compile(t, text, func(map[string]any) {})
	}
	return all
}

// Schemas returns what `bridge schema` prints of a stream.
func Schemas(t testing.TB, e Env, stream string) map[event.Op]*jsonschema.Schema {
	t.Helper()
	status, stdout, stderr := Command(t, e, "schema", stream)
	var printed map[string]map[event.Op]json.RawMessage
	if err := json.Unmarshal([]byte(stdout), &printed); err != nil || status != 0 {
		t.Fatalf("status %d, %v: %s%s", status, err, stdout, stderr)
	}
	all := make(map[event.Op]*jsonschema.Schema)
	for op, text := range printed[stream] {
		all[op] = compile(t, text, closeData)
	}
	return all
}

// closeData allows no other members of data than those of the table, where they are known.
func closeData(schema map[string]any) {
	properties, _ := schema["properties"].(map[string]any)
	switch data, _ := properties["data"].(map[string]any); {
	case properties["specversion"] != nil || properties["meta"] != nil:
		closeData(data)
	case len(properties) > 0:
		schema["additionalProperties"] = false
	}
}
