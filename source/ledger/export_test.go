package ledger

import (
	"slices"

	"example.org/bridge/source"
)

// SavedBytes is the size of the parts of l in a checkpoint, without its head.
func (l *Ledger) SavedBytes() (n int) {
	l.state.missing.seal()
	for _, b := range l.state.missing.list {
		n += b.size
	}
	return n
}

// All returns the parts of the whole ledger, for a store that has none of it, as Changed does.
func (l *Ledger) All() []Chunk {
	m := l.state.missing
	m.seal()
	for i := range m.list {
		if !m.list[i].wide {
			m.changed[m.list[i].key] = struct{}{}
		}
	}
	return slices.DeleteFunc(l.Changed(), func(c Chunk) bool { return c.Bytes == nil })
}

// All calls yield for the ranges of the set, ascending, until it returns false.
func (s *IDs) All(yield func(source.Range) bool) {
	for g := range s.set.ascend(source.Range{Last: 1<<64 - 1}) {
		if !yield(g.Range) {
			return
		}
	}
}
