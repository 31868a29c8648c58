package client

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
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
	// Published is when bridge made the message, or on JetStream when that was stored, to the
	// millisecond.
	Published time.Time
	// Format tells what Body is.
	Format Format
	// Body is the whole value of the message, nil in a tombstone of Kafka.
	Body []byte
	// Repeat says that this process has handled an event with this ID not long ago; see Events.
	Repeat bool

	// time is meta.time in ms where a header has it.
	time int64
}

// Format is EVENT_FORMAT of the stream.
type Format uint8

// The formats: the document {meta, data, links}, a CloudEvent whose data is that document, and the
// columns alone.
const (
	FormatEiffel Format = iota
	FormatCloudEvents
	FormatRow
)

// document is what is read of an Eiffel document.
type document struct {
	Meta struct{ Time int64 }
	Data json.RawMessage
}

// document returns the Eiffel document of the event.
func (e *Event) document() (d document, err error) {
	if e.Format == FormatCloudEvents {
		var envelope struct{ Data document }
		err = json.Unmarshal(e.Body, &envelope)
		d = envelope.Data
	} else {
		err = json.Unmarshal(e.Body, &d)
	}
	if err != nil {
		return document{}, fmt.Errorf("read the event %s: %w", e.ID, err)
	}
	return d, nil
}

// Data returns the columns: the member data of the document, or the whole body where that is the
// row. It parses the body at each call, and is nil for a tombstone.
func (e *Event) Data() (json.RawMessage, error) {
	if e.Body == nil || e.Format == FormatRow {
		return e.Body, nil
	}
	d, err := e.document()
	return d.Data, err
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

// Time returns meta.time: MODIFIED or CREATED of the row, or when it was read. It parses the body
// where that has it, and returns Published where there is none.
func (e *Event) Time() time.Time {
	at := e.time
	if at == 0 && e.Format != FormatRow {
		// A body that cannot be read has no time.
		d, _ := e.document()
		at = d.Meta.Time
	}
	if at == 0 {
		return e.Published
	}
	return time.UnixMilli(at).UTC()
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
