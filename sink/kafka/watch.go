package kafka

import (
	"fmt"

	"bridge/sink"
)

// watch looks at what a lane is acknowledged while a mark is verified: where a partition has lost what a mark stands for, other shards may
// fill it up past the mark before its end is looked at again.
type watch struct {
	mark *sink.Mark
	// taken is the lowest offset up to the mark that a batch got meanwhile, -1 when none did.
	taken int64
}

// see notes the offset that a batch got.
func (w *watch) see(base int64) {
	if base <= int64(w.mark.Last) && (w.taken < 0 || base < w.taken) {
		w.taken = base
	}
}

// watch begins to watch for a mark, which was acknowledged before: whatever is acknowledged from then on belongs behind it.
func (l *lane) watch(m *sink.Mark) *watch {
	w := &watch{mark: m, taken: -1}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.watches == nil {
		l.watches = make(map[*watch]struct{})
	}
	l.watches[w] = struct{}{}
	return w
}

func (l *lane) unwatch(w *watch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.watches, w)
}

// judge returns the loss that w has seen, nil when there was none.
func (l *lane) judge(w *watch) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w.taken < 0 {
		return nil
	}
	return behind(w.mark, fmt.Sprintf("what came after it has the offset %d", w.taken))
}
