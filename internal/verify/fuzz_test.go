package verify

import (
	"encoding/json"
	"testing"
	"time"

	"example.org/bridge/event"
	"example.org/bridge/sink"
	"example.org/bridge/source"
)

// FuzzParse reads whatever lies on a bus: it must neither fail nor find what encoding/json does
// not.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		`{"meta":{"id":"7664dad3-81ea-5ff8-b0d8-b5c6f2b9d6ca","type":"T","time":1,"source":{"domainId":"b"}},` +
			`"data":{"a":"\"x\\","b":[1,{"c":"]"}],"row":{"source":"s","table":"t","id":7}},"links":[]}`,
		`{"meta":{"source":{"domainId":"u"}},"data":{"row":{"id":1}},"links":[{"type":"P","target":"7664dad3-81ea-5ff8-b0d8-b5c6f2b9d6ca"},{}]}`,
		`{}`, `[]`, `"x"`, `null`, `{"meta":1,"data":2,"links":3}`, ` { "meta" : { "source" : { "domainId" : "u" } } } `, `{"links":[ 1 , "a" ]}`, ``,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		var e envelope
		if err := e.read(&Message{Stored: sink.Stored{Value: value}}, event.Capability); err != nil {
			return
		}
		var want struct {
			Data map[string]json.RawMessage
		}
		if err := json.Unmarshal(value, &want); err != nil {
			t.Skip("a document whose members have other types")
		}
		for _, m := range e.members {
			if !json.Valid(m.Name) || !json.Valid(m.Value) {
				t.Errorf("member %s is %s", m.Name, m.Value)
			}
		}
	})
}

// FuzzInvert turns members into values: whatever the member, it must not fail.
func FuzzInvert(f *testing.F) {
	f.Add(`"2026-01-02T03:04:05.000006Z"`, uint8(10))
	f.Add(`"AAEC"`, uint8(5))
	f.Add(`-12`, uint8(1))
	f.Fuzz(func(t *testing.T, member string, kind uint8) {
		if !json.Valid([]byte(member)) {
			return
		}
		c := source.Column{Kind: source.Kind(kind%11 + 1)}
		if value, exact, ok := invert(c, time.UTC, []byte(member)); exact && !ok || !ok && value != nil && len(value) > len(member) {
			t.Errorf("%s as %v is %q, %v, %v", member, c.Kind, value, exact, ok)
		}
	})
}
