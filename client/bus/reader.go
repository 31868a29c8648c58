package bus

import (
	"context"
	"errors"
	"fmt"
	"math"
)

// Errors of a Reader. Test with errors.Is.
var (
	// ErrClosed is returned when a call begins on, or is cut short by, a closed reader.
	ErrClosed = errors.New("sink is closed")
	// ErrBehind is returned when a TP ends before an offset: the bus has lost messages, or was
	// restored to an earlier state or created again.
	ErrBehind = errors.New("the bus has lost acknowledged messages")
	// ErrUnreadable is returned when the bus does not let its messages be read. The wrapping error
	// names the right that is missing.
	ErrUnreadable = errors.New("the messages on the bus cannot be read")
	// ErrGone is returned when a TP does not exist, or was made again since the incarnation that
	// was asked for.
	ErrGone = errors.New("the topic-partition or stream is gone")
	// ErrHeldUp is within the error of a fault while an open transaction of a producer hides the
	// end of a topic.
	ErrHeldUp = errors.New("an open transaction holds back what follows it")
	// ErrExpired is returned, within an [ExpiredError], when the bus has removed messages from the
	// front of a TP before they were read.
	ErrExpired = errors.New("messages have expired before they were read")
)

// Reader is a bus whose messages can be read back: for catching up, for an outside check and for
// dead letters. It is safe for concurrent use.
//
// Both methods retry by themselves what may heal (lost connections, moved leaders, restarts),
// for as long as the implementation's options say, at first for ever. A right that is missing, and
// a TP that keeps no messages for readers, is an error at once that wraps ErrUnreadable.
type Reader interface {
	// TPs returns the TPs that hold or take messages of destinations: all partitions of topics, in
	// the order of destinations and by number, or the streams whose subjects overlap with
	// destinations, by name (these may hold wildcards). The bounds are those of the leader, at a
	// moment after the call began. A destination without a TP is left out.
	TPs(ctx context.Context, destinations []string) ([]TP, error)
	// Read calls each with every committed message of a TP at or above span.From and below span.To,
	// in their order, each once, and returns when there is no further one. It waits for messages
	// where the TP ends before span.To. Messages of others are among them; control
	// batches, aborted transactions and offsets that hold nothing any more are passed over. A
	// reader whose options name subjects passes over those of others.
	//
	// All messages below next have been handed out or are not there: another Read can go on from
	// next, whatever the error. That is the error of each (next then lies behind the message it was
	// called with), the cause of ctx, ErrClosed, ErrUnreadable, ErrGone, ErrBehind where the TP
	// ends before span.From, or an [ExpiredError] where span.From has expired or expires before it
	// is read. Reading takes a few MiB, plus a batch or message of any size.
	Read(ctx context.Context, span Span, each func(*Stored) error) (next uint64, err error)
}

// Within returns a context that ends with ctx and, with the cause ErrClosed, with life.
func Within(ctx, life context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(life, func() { cancel(ErrClosed) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// A Fault reports a transient fault that is retried. It is called from several goroutines. As
// [Faults] it is told nothing else. Nil ignores faults.
type Fault func(tp string, err error)

// Fail implements [Faults].
func (f Fault) Fail(_, scope string, err error) {
	if f != nil {
		f(scope, err)
	}
}

// OK implements [Faults].
func (Fault) OK(string) {}

// Drop implements [Faults].
func (Fault) Drop(string) {}

// Faults is told of what a [Reader] waits out. It is safe for concurrent use.
type Faults interface {
	// Fail says that who is held up by a transient fault of a scope: a TP, a topic or the bus.
	Fail(who, scope string, err error)
	// OK says that who is not held up any more.
	OK(who string)
	// Drop says that who has given up; whether the fault lasts is not known.
	Drop(who string)
}

// TP describes a topic-partition of Kafka or a stream of JetStream.
type TP struct {
	// Name is "topic/3" or the name of the stream.
	Name string
	// Destination is the topic; empty where messages of all destinations lie in one order.
	Destination string
	// Incarnation differs when the TP was created again: the id of a topic, the creation time of a
	// stream. Empty if the bus does not tell.
	Incarnation string
	// First is the offset of the first message that is left. End is the one that the next message
	// gets: the high watermark of Kafka, the last sequence of JetStream plus one. An empty TP has
	// First == End.
	First, End uint64
	// Stable is End, or on Kafka the last stable offset where that is lower: what lies between
	// waits for the end of a transaction, and so does a Read up to End.
	Stable uint64
	// Expired says that messages before First may be gone by the rules of the bus.
	Expired bool
	// Thinned says that single messages may be gone by the rules of the bus, as far as that is
	// known without reading: a limit per subject. Compaction shows by holes between offsets.
	Thinned bool
}

// Span is what to read of a TP.
type Span struct {
	TP string
	// Incarnation is the incarnation of the TP; ErrGone is returned where it is another. Empty:
	// whichever is there when Read begins.
	Incarnation string
	// From is the first offset to read. To is the first one not to be read any more; [NoEnd] means
	// to read on until the context ends.
	From, To uint64
	// Empty, when not nil, is called in the order of offsets where those from one to below another
	// hold no message because of a transaction: its marker, or records that were aborted.
	Empty func(from, to uint64)
}

// NoEnd is a Span.To that is never reached.
const NoEnd = math.MaxUint64

// Done reports whether nothing of s is left at next.
func (s *Span) Done(next uint64) bool { return next >= s.To }

// Stored is one message as a bus holds it. All of it is valid until the call that hands it out
// returns, and none of it may be changed.
type Stored struct {
	// Offset is the offset, or the sequence of JetStream.
	Offset uint64
	// Destination is the topic or subject.
	Destination string
	// Key is nil where the message has none.
	Key []byte
	// Value is nil where the message has none.
	Value []byte
	// Headers are in the order of the bus, which may be any.
	Headers []Header
	// Time is when the bus has stored the message, on Kafka as the topic has it: also when it was
	// made. In ms since 1970; 0 where the bus does not tell.
	Time int64
	// Transactional says that it was stored in a transaction of Kafka.
	Transactional bool
}

// Header is one header of a stored message.
type Header struct {
	Name  string
	Value []byte
}

// Header returns the first header with this name, nil if there is none.
func (m *Stored) Header(name string) []byte {
	for i := range m.Headers {
		if m.Headers[i].Name == name {
			return m.Headers[i].Value
		}
	}
	return nil
}

// Size returns the bytes of key, value and headers.
func (m *Stored) Size() int {
	n := len(m.Key) + len(m.Value)
	for i := range m.Headers {
		n += len(m.Headers[i].Name) + len(m.Headers[i].Value)
	}
	return n
}

// ExpiredError says that messages of a TP may have expired before they were read. It wraps
// ErrExpired.
type ExpiredError struct {
	TP string
	// From is the first offset that was not read, First the first one that is left.
	From, First uint64
}

func (e *ExpiredError) Error() string {
	return fmt.Sprintf("%s begins at offset %d, wanted was %d: %v", e.TP, e.First, e.From, ErrExpired)
}

// Unwrap returns ErrExpired.
func (*ExpiredError) Unwrap() error { return ErrExpired }
