package jetstream

import (
	"fmt"
	"sync"

	"bridge/sink"
)

// anchor is what a stream has acknowledged, to this process or, by an offset, to one before. A
// stream that ends before it has lost messages.
type anchor struct {
	mu sync.Mutex
	// created is the stream's creation time, last its highest sequence that was acknowledged; 0
	// when none was.
	created string
	last    uint64
	// lost is the loss that was found. It stays: only an operator can say what to do.
	lost error
	// watches are those of the offsets that are being verified.
	watches map[*watch]struct{}
}

// advance notes an acknowledgement.
func (a *anchor) advance(seq uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last = max(a.last, seq)
}

// stored notes that an acknowledged message was stored now, not before.
func (a *anchor) stored(seq uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for w := range a.watches {
		w.see(seq)
	}
}

// pin takes over what an offset says.
func (a *anchor) pin(m sink.Offset) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last = max(a.last, m.Last)
	if m.Incarnation != "" {
		a.created = m.Incarnation
	}
}

// offset returns the anchor as an offset.
func (a *anchor) offset(stream string) sink.Offset {
	a.mu.Lock()
	defer a.mu.Unlock()
	return sink.Offset{TP: stream, Incarnation: a.created, Last: a.last}
}

// adopt takes over the making of the stream that was found.
func (a *anchor) adopt(created string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.created = created
}

// lose notes a loss.
func (a *anchor) lose(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lost = err
}

// loss returns the loss that was noted, nil without one.
func (a *anchor) loss() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.lost
}

// behind compares a stream as it is with an offset. A finding that is not sure may be that of a new
// leader of a replicated stream, which for a moment knows less than the old one.
func behind(m sink.Offset, created string, last uint64) (sure bool, err error) {
	switch {
	case m.Last == 0:
		return true, nil
	case m.Incarnation != "" && created != m.Incarnation:
		return true, fmt.Errorf("%w: the stream %s was created at %s, acknowledged was by one created at %s",
			sink.ErrBehind, m.TP, created, m.Incarnation)
	case last < m.Last:
		return false, fmt.Errorf("%w: the stream %s ends with sequence %d, acknowledged was %d", sink.ErrBehind, m.TP, last, m.Last)
	}
	return true, nil
}
