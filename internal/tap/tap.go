package tap

import (
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

func (t *Tap) remove(l *Listener) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.listeners.Load()
	if before == nil {
		return
	}
	rest := slices.DeleteFunc(slices.Clone(*before), func(one *Listener) bool { return one == l })
	if len(rest) == 0 {
		t.listeners.Store(nil)
		return
	}
	t.listeners.Store(&rest)
}
