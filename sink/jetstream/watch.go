package jetstream

import (
	"fmt"

	"bridge/sink"
)

// watch looks at what a stream stores while an offset is verified: where it has lost what the
// offset stands for, other shards may fill it up past the offset before it is looked at again.
type watch struct {
	offset sink.Offset
	// taken is the lowest sequence up to the offset that a message got meanwhile, 0 when none did.
	taken uint64
}

// see notes the sequence that a message got.
func (w *watch) see(seq uint64) {
	if seq <= w.offset.Last && (w.taken == 0 || seq < w.taken) {
		w.taken = seq
	}
}

// watch begins to watch for an offset, which was acknowledged before: whatever is stored from then
// on belongs after it.
func (a *anchor) watch(m sink.Offset) *watch {
	w := &watch{offset: m}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.watches == nil {
		a.watches = make(map[*watch]struct{})
	}
	a.watches[w] = struct{}{}
	return w
}

func (a *anchor) unwatch(w *watch) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.watches, w)
}

// check returns the loss that w has seen, nil when there was none.
func (a *anchor) check(w *watch) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if w.taken == 0 {
		return nil
	}
	return fmt.Errorf("%w: of the stream %s sequence %d was acknowledged, but what came after it has the sequence %d",
		sink.ErrBehind, w.offset.TP, w.offset.Last, w.taken)
}
