package acceptance

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"bridge/event"
)

// received is one message as a consumer saw it, in the order of its place.
type received struct {
	place   string
	key     string
	value   []byte
	headers map[string]string
	// at is when it was received, set on a tape only.
	at time.Time
}

// verdict is what a judge found.
type verdict struct {
	rows, repeats int
}

// judge compares what a bus holds with what the table holds: complete, every repeat identical, order per entity by first
// occurrences, every event valid against its schema. entity returns what identifies the entity of an event.
type judge struct {
	t       testing.TB
	kind    event.Kind
	entity  func(data map[string]any) string
	schemas map[event.Op]*jsonschema.Schema
}

func newJudge(t testing.TB, kind event.Kind, members ...string) *judge {
	j := &judge{t: t, kind: kind, schemas: make(map[event.Op]*jsonschema.Schema)}
	j.entity = func(data map[string]any) string {
		var b strings.Builder
		for _, m := range members {
			fmt.Fprintf(&b, "%q,", data[m])
		}
		return b.String()
	}
	ops := []event.Op{event.Published}
	if kind == event.Capability {
		ops = []event.Op{event.Added, event.Modified, event.Deleted}
	}
	for _, op := range ops {
		j.schemas[op] = compileSchema(t, kind, op)
	}
	return j
}

func compileSchema(t testing.TB, kind event.Kind, op event.Op) *jsonschema.Schema {
	t.Helper()
	text, err := event.Schema(kind, op)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// opOf tells the operation by the type's ending.
func opOf(kind string) event.Op {
	for ending, op := range map[string]event.Op{
		"AddedEvent": event.Added, "ModifiedEvent": event.Modified, "DeletedEvent": event.Deleted, "PublishedEvent": event.Published,
	} {
		if strings.HasSuffix(kind, ending) {
			return op
		}
	}
	return ""
}

type first struct {
	id  string
	sum [32]byte
}

// check fails the test for everything that is wrong with messages. must are the rows that have to be there.
func (j *judge) check(messages []received, must map[uint64]bool) verdict {
	j.t.Helper()
	rows := make(map[uint64]first)
	ids := make(map[string]uint64)
	newest := make(map[string]uint64)
	v := verdict{}
	for _, m := range messages {
		sum := sha256.Sum256(m.value)
		var e struct {
			Meta struct{ ID, Type string }
			Data map[string]any
		}
		decoder := json.NewDecoder(bytes.NewReader(m.value))
		decoder.UseNumber()
		if err := decoder.Decode(&e); err != nil {
			j.t.Fatalf("not JSON: %v: %s", err, m.value)
		}
		row := rowID(j.t, e.Data)
		if was, ok := rows[row]; ok {
			v.repeats++
			if was.id != e.Meta.ID || was.sum != sum {
				j.t.Fatalf("row %d was repeated as another event: %s", row, m.value)
			}
			continue
		}
		if other, ok := ids[e.Meta.ID]; ok {
			j.t.Fatalf("rows %d and %d share the id %s", other, row, e.Meta.ID)
		}
		rows[row], ids[e.Meta.ID] = first{e.Meta.ID, sum}, row
		entity := j.entity(e.Data)
		if newest[entity] > row {
			j.t.Fatalf("entity %s: row %d came after row %d", entity, row, newest[entity])
		}
		newest[entity] = row
		j.checkEvent(m, e.Meta.ID, e.Meta.Type, row)
	}
	v.rows = len(rows)
	missing := 0
	for id := range must {
		if _, ok := rows[id]; !ok {
			if missing++; missing <= 10 {
				j.t.Errorf("row %d is missing", id)
			}
		}
	}
	if missing > 0 {
		j.t.Fatalf("%d of %d rows are missing", missing, len(must))
	}
	return v
}

func (j *judge) checkEvent(m received, id, kind string, row uint64) {
	j.t.Helper()
	schema := j.schemas[opOf(kind)]
	if schema == nil {
		j.t.Fatalf("row %d has an event of the type %s", row, kind)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(m.value))
	if err != nil {
		j.t.Fatal(err)
	}
	if err := schema.Validate(doc); err != nil {
		j.t.Fatalf("row %d is not valid: %v\n%s", row, err, m.value)
	}
	for name, want := range map[string]string{
		"eiffel-id": id, "eiffel-type": kind, "bridge-row-id": fmt.Sprint(row), "content-type": "application/json", "bridge-origin": "tail",
	} {
		if got := m.headers[name]; got != want {
			j.t.Fatalf("row %d: header %s is %q, want %q", row, name, got, want)
		}
	}
}

func rowID(t testing.TB, data map[string]any) uint64 {
	t.Helper()
	row, _ := data["row"].(map[string]any)
	var id uint64
	if _, err := fmt.Sscan(fmt.Sprint(row["id"]), &id); err != nil {
		t.Fatalf("no row id in %v", data)
	}
	return id
}
