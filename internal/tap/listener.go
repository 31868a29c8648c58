package tap

import "sync"

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
func (l *Listener) Close() { l.tap.remove(l) }

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
