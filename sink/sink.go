package sink

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"time"

	"example.org/bridge/client/bus"
	"example.org/bridge/internal/inspect"
	"example.org/bridge/internal/option"
)

// Errors of a sink. Test with errors.Is.
var (
	// ErrUnknownOutcome is returned by a Transactional sink that cannot tell whether a batch is on
	// the bus: Fence, then read what is there.
	ErrUnknownOutcome = errors.New("the outcome of a transaction is unknown")
	// ErrFenced is returned by a Transactional sink once another process has taken over.
	ErrFenced = errors.New("another process publishes instead of this one")
)

// Sink is a bus. It is safe for concurrent use; batches published concurrently have no order among
// each other.
type Sink interface {
	// Publish sends batch in its order and blocks until every message of it is durably acknowledged
	// or rejected, however long that takes. It retries transient faults by itself. It keeps no
	// reference to batch after it returns.
	//
	// The error is nil unless ctx was cancelled, the sink closed, or the bus is broken for good (a
	// pipe without a reader); the outcome is valid in any case. A TP that was created again, or has
	// lost messages, takes what is published like any other: what that means is for the caller, by
	// the offsets. No message overtakes a rejected one with the same key and
	// destination: later ones of the batch stay pending, and the caller decides whether to send
	// them again. A sink may leave all later messages of the same TP pending.
	Publish(ctx context.Context, batch []Message) (Outcome, error)
	// Ready returns nil if the bus can be reached and no publish is held up. Otherwise the error
	// tells an operator what is wrong. It returns within a few seconds.
	Ready(ctx context.Context) error
	// Close releases all connections and ends the Publish calls that are under way with ErrClosed.
	Close() error
}

// Transactional is a bus that takes a batch as a whole or not at all. Publish returns with all
// messages acknowledged, with none of them and some rejected, or with an error and none
// acknowledged: the error may also be ErrUnknownOutcome or ErrFenced.
type Transactional interface {
	Sink
	// Fence ends what this process and former ones have begun: when it returns nil, whatever of it
	// is not below the ends of the TPs by then will never be on the bus. The first call takes over
	// from former processes. Later ones do nothing unless an outcome is unknown, and return
	// ErrFenced once another process has taken over. It waits for the bus, however long that takes.
	Fence(ctx context.Context) error
}

// Outcome says what became of a batch.
type Outcome struct {
	// Status has one entry per message, in the order of the batch.
	Status []Status
	// Rejected says why messages were refused for good, in the order of the batch.
	Rejected []Rejection
	// At has one entry per message, in the order of the batch: where the bus has put it. It is zero
	// for messages that are not acknowledged, and where the bus tells no offset. At is empty where
	// all entries are zero.
	At []At
	// TPs are the TPs that messages of the batch were sent to, each once: a TP that was created
	// again meanwhile may be there with both incarnations. Entries of At index them.
	TPs []TPRef
	// Duplicates counts messages that the bus dropped as repeats though this call sent them for the
	// first time.
	Duplicates int
}

// Status is what became of one message.
type Status uint8

// The states of a message.
const (
	// Pending: not acknowledged. The message may be on the bus or not.
	Pending Status = iota
	// Acked: durably acknowledged by the bus.
	Acked
	// Rejected: refused for good. The message is not on the bus.
	Rejected
)

// Rejection is one message that the bus refuses for good, because it is too large, for example.
type Rejection struct {
	// Index is the message's index in the batch.
	Index int
	// Reason is the bus's answer in words for an operator.
	Reason string
}

// AllAcked reports whether every message was acknowledged.
func (o *Outcome) AllAcked() bool { return o.Acked() == len(o.Status) }

// Acked counts the messages that were acknowledged.
func (o *Outcome) Acked() int {
	n := 0
	for _, s := range o.Status {
		if s == Acked {
			n++
		}
	}
	return n
}

// Origin says why a row was read and published.
type Origin string

// The origins: the tail, a late row, the second cursor, a reconcile, the snapshot of a stream that
// starts at the latest row or after an id, and a person who asked for what was published before.
const (
	FromTail      Origin = "tail"
	FromLate      Origin = "late"
	FromModified  Origin = "modified"
	FromReconcile Origin = "reconcile"
	FromSnapshot  Origin = "snapshot"
	FromRepublish Origin = bus.RepublishOrigin
)

// Message is an event with its destination, key and headers.
type Message struct {
	// Destination is the topic or subject.
	Destination string
	// TP names the TP where Key does not: a sink whose destinations have several takes it.
	TP string
	// Key orders: messages with the same key and destination never overtake one another. Kafka
	// partitions by it. It holds no control characters.
	Key []byte
	// Value is the event, a JSON document in Format. It is nil in a tombstone: a message behind a
	// deleted event, with its key and headers, by which a compacted topic of Kafka forgets the
	// entity. Bare is not nil where Format is FormatRow or FormatPayload, whose value may be
	// anything.
	Value  []byte
	Format Format
	Bare   *Bare
	// ID is the event's meta.id.
	ID string
	// Again says that a bus that drops repeats is to store the message all the same; see
	// [Message.DedupID].
	Again bool
	// Type and Version are the event's meta.type and meta.version.
	Type, Version string
	// Schema is the hash of what events of the table look like, in 12 hexadecimal digits.
	Schema string
	// Domain, Stream and Shard say where the row came from.
	Domain, Stream, Shard string
	// RowID is the row's id.
	RowID uint64
	// Origin says why the row was read.
	Origin Origin
	// Form is that of the digest in State, and Born the hash of the row's CREATED, 0 where there is
	// none: an event.Encoder makes both. Form 0: the message says nothing of a row.
	Form, Born uint32
	// Server says where the rows of a batch were read, as AppendServer writes it; empty: unknown.
	// First says that the message is the first one of its batch in its TP, which a sink notes.
	Server string
	First  bool
	// Time is when the message was made, by the host's clock. It differs between two sends of the
	// same event.
	Time time.Time
	// List is HeaderList of a message that [ListBoundary] has made, which says nothing of a row;
	// empty in all others.
	List string
	// TraceParent is the header by which consumers continue a trace (W3C Trace Context); empty:
	// none. It is that of the batch, so a repeat has another one.
	TraceParent string
	// State is what recovery reads back. Its Key is set in dead letters alone: a sink whose bus has
	// no keys writes Key there.
	State State
}

// RejectedError says that the bus refuses a message for good, and that no dead-letter destination
// is set or that it refuses the dead letter, too.
type RejectedError struct {
	Message Message
	Reason  string
	// DeadLetter is the dead-letter destination that refuses, too. Entity is the key of the entity
	// that the dead letter is about, empty where there is none.
	DeadLetter string
	Entity     []byte
}

func (e *RejectedError) Error() string { return e.Named(option.Short) }

// Named returns the text of Error with the setting as naming has it.
func (e *RejectedError) Named(naming option.Naming) string {
	text := fmt.Sprintf("%.200s refuses row %d of %s (event %s, %d bytes): %s: ",
		e.Message.Destination, e.Message.RowID, e.Message.Shard, e.Message.ID, len(e.Message.Value), e.Reason)
	if e.DeadLetter == "" {
		return text + fmt.Sprintf("give the bus a higher limit, or set %s to put such rows aside, then restart bridge", naming(option.DeadLetter))
	}
	text += fmt.Sprintf("the dead-letter destination %.200s refuses it too", e.DeadLetter)
	more := ""
	if len(e.Entity) > MinDeadLetter {
		text += fmt.Sprintf(", which has to have the key of the entity, %d bytes", len(e.Entity))
		more = fmt.Sprintf(", set %s to shorter columns", naming(option.Key))
	}
	return text + fmt.Sprintf(": give the bus a higher limit%s, or leave the row out with %s, then restart bridge", more, naming(option.Filter))
}

// At says where on the bus an acknowledged message lies. The zero value says that this is not
// known.
//
// On Kafka the offset is the base offset of the broker's answer plus the index of the message among
// the records that it took with it. A batch whose answer was lost is sent again with the same
// sequence, and the broker answers with the offset that the batch got at first. A broker that only
// knows that it has the batch (DUPLICATE_SEQUENCE_NUMBER), or answers with offset -1, tells no
// offset. On JetStream it is the sequence of the acknowledgement; a message that asked for none was
// stored under a condition that names its sequence.
//
// A message that a retry has stored twice lies at the offset that was acknowledged; the other copy
// lies before or after it. An offset is what the bus said: another message may lie there (decision
// 17, rules 2 and 23).
type At struct {
	// Offset is the offset of Kafka or the sequence of JetStream.
	Offset uint64
	// TP is an index into Outcome.TPs.
	TP int32
	// Known: the bus told the offset. Without it all other fields are zero.
	Known bool
	// Duplicate: JetStream dropped the message, because within its duplicate window it has stored
	// one with the same DedupID, at Offset. That may be an earlier attempt of this call, another
	// message, or be removed since.
	Duplicate bool
	// Marker: the offset before this one holds the end of a transaction of this sink, and no
	// message.
	Marker bool
}

// TPRef names a TP of an outcome.
type TPRef struct {
	// Name and Incarnation are those of [TP]. Incarnation is what the sink knew before it sent: a
	// TP that was created again since has the former one until the sink notices.
	Name, Incarnation string
}

// DedupID returns the id by which a bus drops repeats of m: ID, a hash of domain and destination,
// since two installations may give one id to two facts, and where Again is set the stamp (decision
// 17, rule 23).
func (m *Message) DedupID() string {
	// FNV-1a of 64 bits.
	hash := uint64(14695981039346656037)
	for _, part := range [...]string{m.Domain, "\x00", m.Destination} {
		for i := range len(part) {
			hash = (hash ^ uint64(part[i])) * 1099511628211
		}
	}
	var sum [8]byte
	binary.BigEndian.PutUint64(sum[:], hash)
	text := make([]byte, 0, 64)
	text = digestText.AppendEncode(append(append(text, m.ID...), '/'), sum[:])
	if m.Again {
		text = strconv.AppendUint(append(text, '/'), m.State.Epoch, 16)
		text = strconv.AppendUint(append(text, '.'), m.State.Seq, 16)
	}
	return string(text)
}

// ErrHidden is returned when the login may not see how a destination is configured. The wrapping
// error names the right that is missing.
var ErrHidden = errors.New("the configuration of the destination does not show")

// Compaction says what a destination keeps.
type Compaction struct {
	// On: the last message of each key alone, and of one without a body not even that.
	On bool
	// Tombstones is how long a message without a body stays at least, below 0: for ever.
	Tombstones time.Duration
}

// Compactor is a Sink whose destinations may be compacted.
type Compactor interface {
	// Compaction returns that of a destination. It waits for a bus that is away and for a
	// destination that does not exist, as long as the implementation's options say, at first for
	// ever. Other errors are ErrHidden, with which Tombstones is the default of the bus, ErrClosed,
	// and the cause of ctx.
	Compaction(ctx context.Context, destination string) (Compaction, error)
}

// Inspector is a Sink that can look at its bus for what is unsafe, unwise, or keeps it from taking
// messages. It publishes and creates nothing.
type Inspector interface {
	// Inspect looks at the bus and at the destinations that the sink was opened with. It does not
	// fail: what keeps it from looking is a finding. It returns soon after ctx ends.
	Inspect(ctx context.Context) inspect.Report
}

// What a message on a bus looks like and how it is read is the client's, which consumers import,
// too: see [bus].
type (
	Reader       = bus.Reader
	TP           = bus.TP
	Span         = bus.Span
	Stored       = bus.Stored
	Header       = bus.Header
	Fields       = bus.Fields
	State        = bus.State
	StateKind    = bus.StateKind
	Format       = bus.Format
	ExpiredError = bus.ExpiredError
	Fault        = bus.Fault
)

// Errors of a [Reader]; ErrClosed is also that of a closed [Sink].
var (
	ErrClosed     = bus.ErrClosed
	ErrBehind     = bus.ErrBehind
	ErrUnreadable = bus.ErrUnreadable
	ErrGone       = bus.ErrGone
	ErrExpired    = bus.ErrExpired
	ErrHeldUp     = bus.ErrHeldUp
	ErrNewerForm  = bus.ErrNewerForm
)

// NoEnd is a Span.To that is never reached.
const NoEnd = bus.NoEnd

// The kinds of a state and the formats of a value.
const (
	StateLive         = bus.StateLive
	StateTombstone    = bus.StateTombstone
	StateAbsent       = bus.StateAbsent
	FormatEiffel      = bus.FormatEiffel
	FormatCloudEvents = bus.FormatCloudEvents
	FormatRow         = bus.FormatRow
	FormatPayload     = bus.FormatPayload
)

// The headers of messages and some of their values.
const (
	HeaderContentType = bus.HeaderContentType
	HeaderID          = bus.HeaderID
	HeaderType        = bus.HeaderType
	HeaderVersion     = bus.HeaderVersion
	HeaderSchema      = bus.HeaderSchema
	HeaderDomain      = bus.HeaderDomain
	HeaderStream      = bus.HeaderStream
	HeaderShard       = bus.HeaderShard
	HeaderRowID       = bus.HeaderRowID
	HeaderOrigin      = bus.HeaderOrigin
	HeaderPublishedAt = bus.HeaderPublishedAt
	HeaderForm        = bus.HeaderForm
	HeaderServer      = bus.HeaderServer
	HeaderState       = bus.HeaderState
	HeaderList        = bus.HeaderList
	HeaderFormat      = bus.HeaderFormat
	PayloadFormat     = bus.PayloadFormat
	HeaderTime        = bus.HeaderTime
	HeaderPrevious    = bus.HeaderPrevious
	HeaderReason      = bus.HeaderReason
	HeaderTraceParent = bus.HeaderTraceParent

	PublishedAtFormat = bus.PublishedAtFormat
	ContentType       = bus.ContentType
	ContentTypeCloud  = bus.ContentTypeCloud
	DeadLetterType    = bus.DeadLetterType
	ListType          = bus.ListType
	ListBegins        = bus.ListBegins
	ListEnds          = bus.ListEnds

	MaxEpoch = bus.MaxEpoch
)

// ParseState reads the value of HeaderState, AppendState writes it.
var (
	ParseState  = bus.ParseState
	AppendState = bus.AppendState
)
