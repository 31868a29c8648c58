package ledger

import (
	"cmp"
	"iter"
	"slices"

	"example.org/bridge/source"
)

// IDs is a set of ids, kept and saved in parts as the gaps of a ledger are: one to two bytes for
// each range of them, or a bit an id where they are dense. It serves one goroutine.
type IDs struct {
	set  *set
	most int
}

// NewIDs returns an empty set. Of parts that are saved at most maxBytes stay in memory, with 110
// bytes each; load returns a part as it was saved last. Without load all parts stay in memory.
func NewIDs(maxBytes int, load func(key uint64) ([]byte, error)) *IDs {
	return &IDs{set: newSet(load), most: maxBytes}
}

// RestoreIDs returns the set with saved parts, which must come in the order of their keys. It
// returns the errors of parts as they are; others wrap ErrDamaged.
func RestoreIDs(maxBytes int, load func(key uint64) ([]byte, error), parts iter.Seq2[Chunk, error]) (*IDs, error) {
	s := NewIDs(maxBytes, load)
	if err := s.set.restore(parts, 1<<64-1, maxBytes); err != nil {
		return nil, err
	}
	return s, nil
}

// AnyThrough reports whether an id at or below id is in the set.
func (s *IDs) AnyThrough(id uint64) bool { return len(s.set.list) > 0 && s.set.list[0].First <= id }

// Has reports whether id is in the set.
func (s *IDs) Has(id uint64) bool { return s.set.has(id) }

// Add adds the ids of ranges, which must be ascending and disjoint and have no id 0.
func (s *IDs) Add(ranges []source.Range) {
	m := s.set
	if len(m.list) == 0 && len(ranges) > 0 {
		m.list = append(m.list, block{key: ranges[0].First})
	}
	for next := uint64(0); len(ranges) > 0; {
		i := max(m.index(max(next, ranges[0].First)), 0)
		end := m.end(i)
		// Below the first block, it gets a lower key.
		key := m.list[i].key
		if i == 0 {
			key = min(key, ranges[0].First)
		}
		all := slices.AppendSeq(m.spare[:0], m.gaps(i))
		for len(ranges) > 0 && ranges[0].First <= end {
			all = append(all, gap{Range: ranges[0].Intersect(source.Range{First: next, Last: end})})
			if ranges[0].Last > end {
				break
			}
			ranges = ranges[1:]
		}
		slices.SortFunc(all, func(a, b gap) int { return cmp.Compare(a.First, b.First) })
		list := all[:1]
		for _, r := range all[1:] {
			if n := len(list) - 1; n >= 0 && r.First <= list[n].Last+1 {
				list[n].Last = max(list[n].Last, r.Last)
				continue
			}
			list = append(list, r)
		}
		m.spare = all
		m.write(i, key, list)
		if next = end + 1; next == 0 {
			return
		}
	}
}

// PopThrough removes the lowest ids of the set that are at or below id and returns ranges of them,
// nil when there are none: those of one part. Call it until then.
func (s *IDs) PopThrough(id uint64) (popped []source.Range) {
	if !s.AnyThrough(id) {
		return nil
	}
	id = min(id, s.set.list[0].Last)
	for g := range s.set.ascend(source.Range{Last: id}) {
		popped = append(popped, g.Range)
	}
	if s.set.err != nil {
		return nil
	}
	s.DropThrough(id)
	return popped
}

// DropThrough removes the ids at or below id. It reads no part but one, and none without such ids.
func (s *IDs) DropThrough(id uint64) {
	if s.AnyThrough(id) {
		s.set.removeAll([]source.Range{{First: 1, Last: id}}, 0)
	}
}

// Changed returns the parts that differ from those that the last Changed returned, or that the set
// was restored from, in the order of their keys. No part has the key 0. Save them before the next
// call of a method that changes the set: it may free what is saved.
func (s *IDs) Changed() []Chunk { return s.set.appendChanged(nil) }

// Trim frees parts beyond the bound. Call it once what Changed returned is saved.
func (s *IDs) Trim() { s.set.saved(s.most) }

// Err returns why a part could not be loaded. The set must not be used after that.
func (s *IDs) Err() error { return s.set.err }
