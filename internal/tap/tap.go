package tap

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"example.org/bridge/sink"
)

// MaxListeners bounds who listens at a time.
const MaxListeners = 8

// ErrTooMany is returned when MaxListeners listen already.
var ErrTooMany = fmt.Errorf("%d listen already: ask again when one has ended", MaxListeners)

// Event is an event that the bus has acknowledged.
type Event struct {
	// Message is what was published. It refers to no memory of the publisher.
	Message sink.Message
	// Acknowledged is when the publisher was told so, by the host's clock.
	Acknowledged time.Time
	// Timed says that the rows of the table have a time.
	Timed bool
	// DeadLetter says that the bus has refused the event, and holds a dead letter instead.
	DeadLetter bool
}

// Tap hands events to listeners. The zero value is ready, and a nil *Tap has no listeners. It is
// safe for concurrent use.
type Tap struct {
	// listeners is replaced whole, nil when there are none.
	listeners atomic.Pointer[[]*Listener]
	mu        sync.Mutex
}

// Listened reports whether anybody listens.
func (t *Tap) Listened() bool { return t != nil && t.listeners.Load() != nil }

// Offer hands n events of a stream to its listeners, as far as they have room. event is called for
// those that somebody takes, once each. It never blocks for long.
func (t *Tap) Offer(stream string, n int, event func(i int) Event) {
	listeners := t.listeners.Load()
	if listeners == nil {
		return
	}
	made := make([]*Event, n)
	for _, l := range *listeners {
		if l.stream != "" && l.stream != stream {
			continue
		}
		l.offer(n, func(i int) *Event {
			if made[i] == nil {
				e := event(i)
				made[i] = &e
			}
			return made[i]
		})
	}
}

// Listen returns a new listener to a stream, or to all where the name is empty. The error is
// ErrTooMany.
func (t *Tap) Listen(stream string) (*Listener, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []*Listener
	if before := t.listeners.Load(); before != nil {
		all = slices.Clone(*before)
	}
	if len(all) >= MaxListeners {
		return nil, ErrTooMany
	}
	l := &Listener{tap: t, stream: stream, ready: make(chan struct{}, 1)}
	all = append(all, l)
	t.listeners.Store(&all)
	return l, nil
}

// Bounds of the buffer of a listener (invariant 7). An event of any size fits into an empty one.
const (
	maxEvents = 1000
	maxBytes  = 1 << 20
	// eventBytes is what an event takes beside its value and its key.
	eventBytes = 512
)

// Listener has the events that were not drained yet. One goroutine drains it.
type Listener struct {
	tap    *Tap
	stream string
	ready  chan struct{}

	mu     sync.Mutex
	events []*Event
	bytes  int
	// left counts the events behind those that were left out.
	left int
}

// Ready is sent to when there is something to drain.
func (l *Listener) Ready() <-chan struct{} { return l.ready }

// Drain returns the events that have come, in the order of each entity, and how many were left out
// behind them because there was no room.
func (l *Listener) Drain() (events []*Event, left int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	events, left = l.events, l.left
	l.events, l.bytes, l.left = nil, 0, 0
	return events, left
}

// Close ends the listening.
func (l *Listener) Close() {
	l.tap.mu.Lock()
	defer l.tap.mu.Unlock()
	before := l.tap.listeners.Load()
	if before == nil {
		return
	}
	rest := slices.DeleteFunc(slices.Clone(*before), func(one *Listener) bool { return one == l })
	if len(rest) == 0 {
		l.tap.listeners.Store(nil)
		return
	}
	l.tap.listeners.Store(&rest)
}

// offer adds those of n events that there is room for. Once one is left out, so are all until the
// next call of Drain.
func (l *Listener) offer(n int, event func(i int) *Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range n {
		if l.left > 0 || len(l.events) >= maxEvents {
			l.left += n - i
			break
		}
		e := event(i)
		size := len(e.Message.Value) + len(e.Message.Key) + eventBytes
		if len(l.events) > 0 && l.bytes+size > maxBytes {
			l.left += n - i
			break
		}
		l.events, l.bytes = append(l.events, e), l.bytes+size
	}
	select {
	case l.ready <- struct{}{}:
	default:
	}
}

// Born returns the time of the row, which is meta.time of the event. ok is false where the row has
// none: meta.time is then the database's clock at the read.
func (e *Event) Born() (at time.Time, ok bool) {
	m := &e.Message
	if !e.Timed || m.State.Kind == sink.StateAbsent {
		return at, false
	}
	// document is the part of an event that has its time.
	type document struct {
		Meta struct{ Time int64 }
	}
	var doc struct {
		document
		Data document
	}
	switch m.Format {
	case sink.FormatRow, sink.FormatPayload:
		if m.Bare != nil {
			doc.Meta.Time = m.Bare.Time
		}
	case sink.FormatCloudEvents:
		if json.Unmarshal(m.Value, &doc) == nil {
			doc.document = doc.Data
		}
	default:
		_ = json.Unmarshal(m.Value, &doc.document)
	}
	return time.UnixMilli(doc.Meta.Time).UTC(), doc.Meta.Time != 0
}

// Delay is how long it took from the time of the row until the event was acknowledged: the
// difference of two clocks, and 0 where it would be below.
func (e *Event) Delay(born time.Time) time.Duration { return max(0, e.Acknowledged.Sub(born)) }
