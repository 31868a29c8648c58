package event_test

import (
	"bytes"
	"os"
	"testing"

	"bridge/event"
)

func TestOperationsOfAnotherKindHaveNoSchema(t *testing.T) {
	for kind, op := range map[event.Kind]event.Op{event.Capability: event.Published, event.Release: event.Deleted, "fact": "lost"} {
		if _, err := event.Schema(kind, op); err == nil {
			t.Errorf("a %s stream has a schema for %s", kind, op)
		}
	}
}

func TestSchemasRefuseWhatIsNoEvent(t *testing.T) {
	files := make(map[string][]byte)
	for _, name := range []string{"added", "modified", "deleted", "absent"} {
		file, err := os.ReadFile(goldenFile("stp_capability_" + name))
		if err != nil {
			t.Fatal(err)
		}
		files[name] = file
	}
	tests := []struct {
		name, old, new string
		op             event.Op
		file           string
	}{
		{"a member in meta", `"version"`, `"host":"h","version"`, event.Added, "added"},
		{"a member in source", `"domainId":"bridge"`, `"domainId":"bridge","host":"h"`, event.Added, "added"},
		{"a member in row", `"table"`, `"schema":"s","table"`, event.Added, "added"},
		{"a member beside meta", `"links":[]`, `"links":[],"extra":1`, event.Added, "added"},
		{"an Eiffel type", `"StpCapability`, `"EiffelStpCapability`, event.Added, "added"},
		{"an Eiffel type in another case", `"StpCapability`, `"eiFFel_StpCapability`, event.Added, "added"},
		{"a type with a blank", `"StpCapability`, `"Stp Capability`, event.Added, "added"},
		{"an id of version 7", `-5`, `-7`, event.Added, "added"},
		{"a time that is text", `"time":1772366400000`, `"time":"1772366400000"`, event.Added, "added"},
		{"a negative row id", `"id":8}}`, `"id":-8}}`, event.Added, "added"},
		{"no row", `"row":{`, `"line":{`, event.Added, "added"},
		{"a reason where nothing was deleted", `"row":{`, `"reason":"TOMBSTONE","row":{`, event.Added, "added"},
		{"no links", `"links"`, `"link"`, event.Added, "added"},
		{"a link without a target", `"links":[]`, `"links":[{"type":"PREVIOUS_VERSION"}]`, event.Added, "added"},
		{"no reason", `"reason":"TOMBSTONE",`, ``, event.Deleted, "deleted"},
		{"a reason where nothing but the state changed", `"row":{`, `"reason":"ABSENT_IN_SNAPSHOT","row":{`, event.Modified, "modified"},
		{"a link of another type", `PREVIOUS_VERSION`, `CAUSE`, event.Modified, "modified"},
		{"a link to an invalid ID", `"target":"`, `"target":"x`, event.Modified, "modified"},
		{"two links", `"links":[`, `"links":[{"type":"PREVIOUS_VERSION","target":"` + earlier + `"},`, event.Deleted, "absent"},
		{"an unknown reason", `TOMBSTONE`, `LOST`, event.Deleted, "deleted"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			body := files[test.file]
			broken := bytes.Replace(body, []byte(test.old), []byte(test.new), 1)
			if bytes.Equal(broken, body) {
				t.Fatalf("%s is not in %s", test.old, body)
			}
			schema := compileSchema(t, event.Capability, test.op)
			if err := schema.Validate(unmarshal(t, body)); err != nil {
				t.Fatalf("the event itself is refused: %v", err)
			}
			if schema.Validate(unmarshal(t, broken)) == nil {
				t.Errorf("taken for valid: %s", broken)
			}
		})
	}
}
