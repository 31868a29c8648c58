package kafka

import (
	"fmt"

	"bridge/sink"
)

// watch looks at what a worker is acknowledged while an offset is verified: where a partition has
// lost what an offset stands for, other shards may fill it up past the offset before its end is
// looked at again.
type watch struct {
	offset *sink.Offset
	// taken is the lowest offset up to the offset that a batch got meanwhile, -1 when none did.
	taken int64
}

// see notes the offset that a batch got.
func (w *watch) see(base int64) {
	if base <= int64(w.offset.Last) && (w.taken < 0 || base < w.taken) {
		w.taken = base
	}
}

// watch begins to watch for an offset, which was acknowledged before: whatever is acknowledged from
// then on belongs after it.
func (l *worker) watch(m *sink.Offset) *watch {
	w := &watch{offset: m, taken: -1}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.watches == nil {
		l.watches = make(map[*watch]struct{})
	}
	l.watches[w] = struct{}{}
	return w
}

func (l *worker) unwatch(w *watch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.watches, w)
}

// check returns the loss that w has seen, nil when there was none.
func (l *worker) check(w *watch) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w.taken < 0 {
		return nil
	}
	return behind(w.offset, fmt.Sprintf("what came after it has the offset %d", w.taken))
}
