package ledger

import (
	"fmt"
	"iter"
	"maps"
	"slices"

	"bridge/source"
)

// IDs is a set of ids, kept and saved in parts as the gaps of a ledger are: one to two bytes for
// each range of them, or a bit an id where they are dense. It serves one goroutine.
type IDs struct {
	leaves leafList
	most   int
}

// NewIDs returns an empty set. Of parts that are saved at most maxBytes stay in memory, with 110
// bytes each; load returns a part as it was saved last. Without load all parts stay in memory.
func NewIDs(maxBytes int, load func(key uint64) ([]byte, error)) *IDs {
	s := &IDs{leaves: newLeafList(), most: maxBytes}
	s.leaves.store.load = load
	return s
}

// RestoreIDs returns the set with saved parts, which must come in the order of their keys. It
// returns the errors of parts as they are; others wrap ErrDamaged.
func RestoreIDs(maxBytes int, load func(key uint64) ([]byte, error), parts iter.Seq2[Chunk, error]) (*IDs, error) {
	s := NewIDs(maxBytes, load)
	l := &s.leaves
	for c, err := range parts {
		if err != nil {
			return nil, err
		}
		leaf, scratch, err := parseLeaf(c.Key, c.Bytes, l.open)
		if l.open = scratch[:0]; err != nil {
			return nil, fmt.Errorf("part %d: %w", c.Key, err)
		}
		if n := len(l.list); n > 0 && c.Key <= l.list[n-1].Last {
			return nil, fmt.Errorf("part %d: %w: it overlaps the part before", c.Key, ErrDamaged)
		}
		l.list = append(l.list, leaf)
		l.forms += len(leaf.form)
		l.trim(s.most)
	}
	return s, nil
}

// Empty reports whether the set is empty.
func (s *IDs) Empty() bool { return len(s.leaves.list) == 0 }

// AnyThrough reports whether an id at or below id is in the set.
func (s *IDs) AnyThrough(id uint64) bool { return !s.Empty() && s.leaves.list[0].First <= id }

// Has reports whether id is in the set.
func (s *IDs) Has(id uint64) bool {
	_, ok := s.leaves.find(id)
	return ok
}

// Add adds the ids of ranges, which must be ascending and disjoint and have no id 0.
func (s *IDs) Add(ranges []source.Range) {
	l := &s.leaves
	l.at = -1
	for i := 0; len(ranges) > 0; i++ {
		i = max(i, l.index(ranges[0].First))
		switch {
		case len(l.list) == 0:
			l.list = append(l.list, leaf{key: ranges[0].First})
			l.rewrite(0, gapsOf(nil, ranges))
			return
		case ranges[0].First < l.list[0].key:
			s.lower(ranges[0].First)
			i = 0
		}
		// Those that belong to leaf i.
		n := len(ranges)
		var rest []source.Range
		if i+1 < len(l.list) {
			next := l.list[i+1].key
			for n > 0 && ranges[n-1].First >= next {
				n--
			}
			if r := ranges[n-1]; r.Last >= next {
				// A range that goes on into the next leaf.
				rest = append([]source.Range{{First: next, Last: r.Last}}, ranges[n:]...)
				ranges = append(slices.Clone(ranges[:n-1]), source.Range{First: r.First, Last: next - 1})
			} else {
				ranges, rest = ranges[:n], ranges[n:]
			}
		}
		before := len(l.list)
		if !l.unite(i, ranges) {
			return
		}
		i += len(l.list) - before
		ranges = rest
	}
}

// lower gives the first leaf a lower key.
func (s *IDs) lower(key uint64) {
	l := &s.leaves
	list := l.decode(0, nil)
	if len(list) == 0 {
		return
	}
	l.changed[l.list[0].key] = struct{}{}
	l.free(0)
	l.list[0] = l.encode(key, list)
}

func gapsOf(dst []gap, ranges []source.Range) []gap {
	for _, r := range ranges {
		if n := len(dst) - 1; n >= 0 && dst[n].Last+1 == r.First {
			dst[n].Last = r.Last
			continue
		}
		dst = append(dst, gap{Range: r})
	}
	return dst
}

// PopThrough removes the lowest ids of the set that are at or below id and returns ranges of them,
// nil when there are none: those of one part. Call it until then. The ranges are valid until the
// next call of a method.
func (s *IDs) PopThrough(id uint64) []source.Range {
	l := &s.leaves
	l.at = -1
	if len(l.list) == 0 || l.list[0].First > id {
		return nil
	}
	list := l.decode(0, nil)
	if len(list) == 0 {
		return nil
	}
	popped := make([]source.Range, 0, len(list))
	for i := range list {
		if list[i].First > id {
			break
		}
		popped = append(popped, list[i].Intersect(source.Range{Last: id}))
	}
	kept := list[len(popped):]
	if last := &list[len(popped)-1]; last.Last > id {
		last.First = id + 1
		kept = list[len(popped)-1:]
	}
	l.rewrite(0, kept)
	return popped
}

// DropThrough removes the ids at or below id. It reads no part but one.
func (s *IDs) DropThrough(id uint64) {
	l := &s.leaves
	l.at = -1
	for len(l.list) > 0 && l.list[0].Last <= id {
		l.free(0)
		l.delete(0)
	}
	s.PopThrough(id)
}

// All calls yield for the ranges of the set, ascending, until it returns false.
func (s *IDs) All(yield func(source.Range) bool) {
	for i := range s.leaves.list {
		if !s.leaves.each(i, func(g gap) bool { return yield(g.Range) }) {
			return
		}
	}
}

// Changed returns the parts that differ from those that the last Changed returned, or that the set
// was restored from, in the order of their keys. No part has the key 0. Save them before the next
// call of a method that changes the set: it may free what is saved.
func (s *IDs) Changed() []Chunk {
	l := &s.leaves
	chunks := make([]Chunk, 0, len(l.changed))
	for _, key := range slices.Sorted(maps.Keys(l.changed)) {
		chunk := Chunk{Key: key}
		if i := l.index(key); i >= 0 && l.list[i].key == key {
			chunk.Bytes = l.form(i)
		}
		chunks = append(chunks, chunk)
	}
	clear(l.changed)
	return chunks
}

// Trim frees parts beyond the bound. Call it once what Changed returned is saved.
func (s *IDs) Trim() { s.leaves.trim(s.most) }

// Bytes is the memory that the set needs.
func (s *IDs) Bytes() int { return s.leaves.size() }

// Err returns why a part could not be loaded. The set must not be used after that.
func (s *IDs) Err() error { return s.leaves.store.err }
