package world

import (
	"encoding/json"
	"fmt"
	"strconv"

	"example.org/bridge/event"
)

// Document returns the Eiffel document that a message holds, in whichever format: the value itself,
// the data of a CloudEvent, or what value and headers say together.
func Document(m Message) ([]byte, error) {
	switch {
	case m.Headers["content-type"] == "application/cloudevents+json":
		return cloudEvent(m)
	case m.Headers["eiffel-time"] != "":
		return bareRow(m)
	default:
		return m.Value, nil
	}
}

// TypeOf returns meta.type of a message: a document says it itself. It is empty where nothing says
// it.
func TypeOf(m Message) string {
	if kind, there := m.Headers["eiffel-type"]; there {
		return kind
	}
	var of struct{ Meta struct{ Type string } }
	if document, err := Document(m); err != nil || json.Unmarshal(document, &of) != nil {
		return ""
	}
	return of.Meta.Type
}

// cloudEvent returns the data of a CloudEvent, whose attributes must say what the data says.
func cloudEvent(m Message) ([]byte, error) {
	var e struct {
		SpecVersion, ID, Source, Type, Subject, DataContentType string
		Data                                                    json.RawMessage
	}
	if err := json.Unmarshal(m.Value, &e); err != nil {
		return nil, err
	}
	var of struct {
		Meta struct {
			ID, Type string
			Source   struct{ DomainID string }
		}
	}
	if err := json.Unmarshal(e.Data, &of); err != nil {
		return nil, err
	}
	source := string(event.AppendURI(nil, of.Meta.Source.DomainID, m.Headers["bridge-stream"]))
	if e.SpecVersion != "1.0" || e.ID != of.Meta.ID || e.Type != of.Meta.Type || e.Source != source || e.DataContentType != "application/json" {
		return nil, fmt.Errorf("its attributes are %q, %q, %q, %q, %q", e.SpecVersion, e.ID, e.Type, e.Source, e.DataContentType)
	}
	if m.Key != "" && e.Subject != m.Key {
		return nil, fmt.Errorf("its subject is %q, its key %q", e.Subject, m.Key)
	}
	return e.Data, nil
}

// bareRow makes a document of the members of a row and what the headers say.
func bareRow(m Message) ([]byte, error) {
	var columns map[string]json.RawMessage
	if err := json.Unmarshal(m.Value, &columns); err != nil {
		return nil, err
	}
	data := make(map[string]any, len(columns)+2)
	for name, value := range columns {
		data[name] = value
	}
	row, err := strconv.ParseUint(m.Headers["bridge-row-id"], 10, 64)
	if err != nil {
		return nil, err
	}
	at, err := strconv.ParseInt(m.Headers["eiffel-time"], 10, 64)
	if err != nil {
		return nil, err
	}
	data["row"] = map[string]any{"table": m.Headers["bridge-shard"], "id": row}
	if reason := m.Headers["bridge-reason"]; reason != "" {
		data["reason"] = reason
	}
	links := []map[string]string{}
	if previous := m.Headers["eiffel-previous"]; previous != "" {
		links = append(links, map[string]string{"type": "PREVIOUS_VERSION", "target": previous})
	}
	return json.Marshal(map[string]any{
		"meta": map[string]any{
			"id": m.Headers["eiffel-id"], "type": m.Headers["eiffel-type"], "version": m.Headers["eiffel-version"], "time": at,
			"source": map[string]any{"domainId": m.Headers["bridge-domain"]},
		},
		"data": data, "links": links,
	})
}
