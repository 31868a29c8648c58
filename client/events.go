package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"example.org/bridge/client/backoff"
	"example.org/bridge/client/bus"
)

// Handler handles one event. Its context ends when another process of the group takes over: what
// it has not handled by then comes again there. The event is valid until it returns.
type Handler func(ctx context.Context, e Event) error

// Events hands the events of a stream to a Handler, at least once, for the processes of a group.
// Run is called once.
type Events struct {
	bus    Bus
	o      Options
	group  string
	handle Handler
	faults faults

	mu    sync.Mutex
	stats EventStats
	// consumed are by TP. They outlive a change of hands: a TP may come back.
	consumed map[string]*consumed
}

// EventStats describe what Events has done.
type EventStats struct {
	// Handled counts events that the Handler took, Repeated the ones among them that it was given
	// as repeats, Failed the errors that it returned.
	Handled, Repeated, Failed uint64
	// Foreign counts messages of others. Expired counts how often the bus had removed messages
	// before they were handed out: a retention that is shorter than an outage of this group.
	// JetStream does not tell.
	Foreign, Expired uint64
}

// NewEvents returns Events. group names the consumer group or the durable consumer: processes with
// the same one share the events, and progress is kept under it by the bus. A stream needs a group
// of its own where others have its topics or subjects: JetStream refuses one of another stream.
func NewEvents(bus Bus, group string, o Options, handle Handler) (*Events, error) {
	if err := o.fill(); err != nil {
		return nil, err
	}
	switch {
	case group == "":
		return nil, errors.New("client: the group is empty: give it the name under which the bus keeps progress")
	case handle == nil:
		return nil, errors.New("client: there is no Handler")
	}
	return &Events{bus: bus, o: o, group: group, handle: handle, consumed: make(map[string]*consumed)}, nil
}

// Run hands out events until ctx ends; it then returns nil. It retries for ever what may heal, and
// returns an error for a message of the stream that cannot be understood, as of a newer bridge.
func (e *Events) Run(ctx context.Context) error {
	return e.bus.Consume(ctx, Subscription{
		Opening: Opening{Destinations: e.o.Destinations, Fault: func(tp string, err error) { e.faults.outage(e.o.Logger, tp, err) }},
		Group:   e.group,
		Of:      "stream " + e.o.Stream + " of " + e.o.Domain,
		Joined:  e.faults.joined,
		Expired: e.expired,
	}, e.each)
}

// Err returns what holds events up at present, nil where nothing does: the bus, or an error of the
// Handler. A fault of the bus that has ended may stay for a minute.
func (e *Events) Err() error { return e.faults.err() }

// Stats returns counts.
func (e *Events) Stats() EventStats {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.stats
}

func (e *Events) add(count *uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	*count++
}

// consumed is one TP as this process consumes it, by one goroutine at a time.
type consumed struct {
	mu      sync.Mutex
	parser  *parser
	repeats repeats
}

func (e *Events) tp(name string) *consumed {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.consumed[name]
	if c == nil {
		c = &consumed{parser: newParser(&e.o)}
		e.consumed[name] = c
	}
	return c
}

// each hands out one message, again and again until it is handled.
func (e *Events) each(ctx context.Context, tp string, stored *bus.Stored) error {
	c := e.tp(tp)
	// A TP that comes back may meet the end of its former call.
	c.mu.Lock()
	defer c.mu.Unlock()
	whose, err := c.parser.parse(stored)
	if err != nil {
		return fmt.Errorf("read %s at offset %d: %w", tp, stored.Offset, err)
	}
	e.faults.end(tp)
	m := &c.parser.m
	if whose == foreign || stored.Value == nil && stored.Key != nil {
		// The event before a tombstone has said that the entity is deleted, unless compaction has
		// removed it.
		e.add(&e.stats.Foreign)
		return nil
	}
	event := m.event(e.o.Stream, string(m.key), stored.Value)
	if event.Format == FormatPayload {
		// NATS does not tell an empty message from none.
		event.Headers, event.Body = ownHeaders(stored), append([]byte{}, stored.Value...)
	}
	if m.deleted {
		event.Operation = Deleted
	}
	_, event.Repeat = c.repeats.get(m.id)
	if err := e.retry(ctx, tp, &event); err != nil {
		return err
	}
	c.repeats.add(m.id, repeatWindow)
	e.add(&e.stats.Handled)
	if event.Repeat {
		e.add(&e.stats.Repeated)
	}
	return nil
}

// retry calls the handler until it succeeds. It returns the cause of ctx when that ends first.
func (e *Events) retry(ctx context.Context, tp string, event *Event) error {
	var pause backoff.Backoff
	// Where the TP is taken away it is another process's fault.
	defer e.faults.end(tp)
	for failed := false; ; failed = true {
		err := e.handle(ctx, *event)
		if err == nil {
			if failed {
				e.o.Logger.Info("the event is handled", "stream", e.o.Stream, "topic_partition", tp, "event", event.ID)
			}
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		e.add(&e.stats.Failed)
		err = fmt.Errorf("handle event %s of %s: %w", event.ID, tp, err)
		e.faults.fail(tp, fault{error: err})
		if !failed {
			e.o.Logger.Warn("an event is tried again, later ones wait", "stream", e.o.Stream, "topic_partition", tp, "error", err)
		}
		if err := pause.Wait(ctx); err != nil {
			return err
		}
	}
}

func (e *Events) expired(tp string, err error) {
	e.add(&e.stats.Expired)
	e.o.Logger.Warn("the bus has removed events before they were handled", "stream", e.o.Stream, "topic_partition", tp, "error", err)
}

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
	// Key is the key of the entity, or of the row of a release stream, in the form of
	// docs/events.md, with Options.ByTable behind Shard and a blank. It is empty in messages of
	// JetStream that a bridge without the header bridge-state wrote.
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
	// Body is the whole value of the message.
	Body []byte
	// Headers are those of HEADERS where Format is FormatPayload, with BRIDGE_TRACE=on traceparent,
	// too; else nil.
	Headers map[string]string
	// Repeat says that this process has handled an event with this ID not long ago; see Events.
	Repeat bool
	// Republished says that somebody has asked bridge for the event again: the bus has, or had, it
	// before, unless bridge began above its row (START). It is older than what came of other keys
	// meanwhile, never than what came of its own key in a capability stream.
	Republished bool

	// time is meta.time in ms where a header has it.
	time int64
}

// Format is EVENT_FORMAT of the stream.
type Format = bus.Format

// The formats: the document {meta, data, links}, a CloudEvent whose data is that document, the
// columns alone, and the column PAYLOAD as it is.
const (
	FormatEiffel      = bus.FormatEiffel
	FormatCloudEvents = bus.FormatCloudEvents
	FormatRow         = bus.FormatRow
	FormatPayload     = bus.FormatPayload
)

type document struct {
	Meta struct{ Time *int64 }
	Data json.RawMessage
}

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
// row, or a column. It parses the body at each call.
func (e *Event) Data() (json.RawMessage, error) {
	if e.Body == nil || e.Format >= FormatRow {
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
	at := &e.time
	if e.Format < FormatRow {
		// A body that cannot be read has no time.
		d, _ := e.document()
		at = d.Meta.Time
	}
	if at == nil {
		return e.Published
	}
	return time.UnixMilli(*at).UTC()
}

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

// window remembers what was put into it last: young what came since the last turn, old what came
// between that and the one before.
type window[K comparable, V any] struct{ young, old map[K]V }

func (w *window[K, V]) get(key K) (value V, known bool) {
	if value, known = w.young[key]; !known {
		value, known = w.old[key]
	}
	return value, known
}

func (w *window[K, V]) put(key K, value V) {
	w.remove(key)
	if w.young == nil {
		w.young = make(map[K]V)
	}
	w.young[key] = value
}

func (w *window[K, V]) remove(key K) {
	delete(w.young, key)
	delete(w.old, key)
}

func (w *window[K, V]) turn() { w.young, w.old = nil, w.young }

func (w *window[K, V]) len() int { return len(w.young) + len(w.old) }

// repeatWindow is how many ids of a TP are remembered at least: some 20 bytes each, and of as many
// others.
const repeatWindow = 1 << 14

// repeats has the ids that were handled last. It serves one goroutine at a time.
type repeats struct{ window[[16]byte, struct{}] }

func (r *repeats) add(id [16]byte, room int) {
	if len(r.young) >= room {
		r.turn()
	}
	r.put(id, struct{}{})
}

const (
	// rememberFor is for how long a deletion is remembered at least, in seconds from when it was
	// read. What a former process of bridge sends after its successor is late by its timeouts:
	// minutes.
	rememberFor = int64(time.Hour / time.Second)
	// fewDeletions are always remembered.
	fewDeletions = 100_000
)

// deletions remembers where entities were deleted, so that an older message in another TP does not
// bring them back. It forgets the oldest ones: after two hours, and where there are more than
// max(200,000, entities).
type deletions struct {
	window[string, position]
	// began is when the last turn was, few how many are remembered however few entities there are.
	began int64
	few   int
	// forgotten counts those that made room for others, perhaps within the hour.
	forgotten uint64
}

func (d *deletions) add(key []byte, at position, now int64, entities int) {
	lasts := now - d.began
	if lasts >= rememberFor || len(d.young) >= max(d.few, entities/2) {
		if lasts < rememberFor {
			d.forgotten += uint64(len(d.old))
		}
		if d.turn(); lasts >= 2*rememberFor {
			d.old = nil
		}
		d.began = now
	}
	d.put(string(key), at)
}
