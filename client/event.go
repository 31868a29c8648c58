package client

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"bridge/sink"
)

// Operation says what an event does to its entity.
type Operation uint8

// The operations. Unknown is that of a type that Options.Types should name.
const (
	Unknown Operation = iota
	Added
	Modified
	Deleted
	Published
)

var operations = [...]string{"unknown", "added", "modified", "deleted", "published"}

// String returns the operation in lower case.
func (o Operation) String() string {
	if int(o) < len(operations) {
		return operations[o]
	}
	return operations[Unknown]
}

// Event is one event of a stream. None of its bytes may be changed.
type Event struct {
	// Key is that of the entity, or of the row of a release stream, in the form of docs/events.md.
	// It is empty in messages of JetStream that a bridge without the header bridge-state wrote.
	Key string
	// ID is meta.id: repeats of an event have the same one.
	ID string
	// Type and Version are meta.type and meta.version.
	Type, Version string
	// Operation is Deleted wherever bridge says so, else what the type says.
	Operation Operation
	// Stream is the stream, Shard the physical table, RowID the id of the row.
	Stream, Shard string
	RowID         uint64
	// Published is when bridge made the message, to the millisecond.
	Published time.Time
	// ContentType tells the form of Body.
	ContentType string
	// Body is the whole value of the message, nil in a tombstone of Kafka.
	Body []byte
	// Repeat says that this process has handled an event with this ID not long ago; see Events.
	Repeat bool
}

// Forms of a body, by its content type.
const (
	contentEiffel      = sink.ContentType
	contentCloudEvents = "application/cloudevents+json"
)

// Data returns the columns: the member data of an event, or the whole body where the row is the
// body. It parses the body at each call, and is nil for a tombstone.
func (e *Event) Data() (json.RawMessage, error) {
	if e.Body == nil {
		return nil, nil
	}
	switch e.ContentType {
	case contentEiffel, contentCloudEvents, "":
		var document struct{ Data json.RawMessage }
		if err := json.Unmarshal(e.Body, &document); err != nil {
			return nil, fmt.Errorf("read the event %s: %w", e.ID, err)
		}
		return document.Data, nil
	default:
		return e.Body, nil
	}
}

// Decode parses Data into v as json.Unmarshal does. Integers of 64 bits keep all their digits in
// fields of Go's integer types; an any makes a float64 of them, which does not.
func (e *Event) Decode(v any) error {
	data, err := e.Data()
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("read the data of event %s: %w", e.ID, err)
	}
	return nil
}

// Time returns meta.time: MODIFIED or CREATED of the row, or when it was read. It parses the body,
// and returns Published where that has no time.
func (e *Event) Time() time.Time {
	switch e.ContentType {
	case contentEiffel, "":
		var document struct{ Meta struct{ Time int64 } }
		if json.Unmarshal(e.Body, &document) == nil && document.Meta.Time != 0 {
			return time.UnixMilli(document.Meta.Time).UTC()
		}
	case contentCloudEvents:
		var document struct{ Time time.Time }
		if json.Unmarshal(e.Body, &document) == nil && !document.Time.IsZero() {
			return document.Time.UTC()
		}
	}
	return e.Published
}

// operationOf returns the operation of a type.
func operationOf(typ string, types map[string]Operation) Operation {
	if o, named := types[typ]; named {
		return o
	}
	for o, ending := range map[Operation]string{Added: "AddedEvent", Modified: "ModifiedEvent", Deleted: "DeletedEvent", Published: "PublishedEvent"} {
		if strings.HasSuffix(typ, ending) {
			return o
		}
	}
	return Unknown
}
