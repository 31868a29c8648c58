package ledger

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"sort"

	"example.org/bridge/internal/form"
	"example.org/bridge/source"
)

// set is a set of ids in ascending blocks. The missing ids of a ledger lie in segments, one above
// the other, each but the lowest with a wide gap at its low end. Within a segment the times of the
// gaps never descend, and ids join at the upper end only.
type set struct {
	blocks
	segments []segment
}

func newSet(load func(key uint64) ([]byte, error)) *set {
	return &set{blocks: blocks{at: -1, load: load, changed: make(map[uint64]struct{})}, segments: make([]segment, 1)}
}

// blocks have the gaps of a set: one to two bytes for each range of ids, or a bit an id where they
// are dense. One block at a time is open: decoded, and changed in place until seal encodes it
// again. So ids that come in ascending order open each block once.
type blocks struct {
	list []block
	// open are the gaps of list[at]; altered says that they are newer than its form. at is -1 where
	// no block is open.
	open    []gap
	at      int
	altered bool
	// changed has the keys of the blocks that were made, altered or deleted since appendChanged.
	changed map[uint64]struct{}
	// load returns a saved block; nil where all stay in memory. After err the set changes no more.
	load func(key uint64) ([]byte, error)
	err  error
	// forms is the size of all forms in memory.
	forms   int
	scratch []byte
	spare   []gap
}

// size is the memory of the set in bytes.
func (s *blocks) size() int {
	return s.forms + len(s.list)*blockSize + (cap(s.open)+cap(s.spare))*24 + cap(s.scratch) + len(s.changed)*16
}

// index returns the index of the only block that may have id, -1 when there is none.
func (s *blocks) index(id uint64) int {
	return sort.Search(len(s.list), func(i int) bool { return s.list[i].key > id }) - 1
}

// end returns the last id that block i may have.
func (s *blocks) end(i int) uint64 {
	if i+1 < len(s.list) {
		return s.list[i+1].key - 1
	}
	return 1<<64 - 1
}

// form returns the form of block i, nil where it cannot be read.
func (s *blocks) form(i int) []byte {
	b := &s.list[i]
	if b.form != nil {
		return b.form
	}
	saved, err := s.load(b.key)
	if err == nil {
		// The gaps were checked when they were written: the checksum is enough.
		err = damaged(form.Open(saved, formVersion).Err)
	}
	if err != nil {
		if s.err == nil {
			s.err = fmt.Errorf("read part %d of the gap ledger: %w", b.key, err)
		}
		return nil
	}
	return saved
}

// gaps returns the gaps of block i, which must not be altered, in ascending order.
func (s *blocks) gaps(i int) iter.Seq[gap] {
	return func(yield func(gap) bool) {
		b := &s.list[i]
		switch {
		case b.wide:
			yield(gap{b.Range, b.oldest})
		case b.gaps > 0:
			if bytes := s.form(i); bytes != nil {
				f := reader{form.Reader{Rest: bytes[1 : len(bytes)-form.SealBytes]}}
				_ = f.gaps(yield)
			}
		}
	}
}

func (s *blocks) decode(i int) {
	s.seal()
	s.at, s.open = i, s.open[:0]
	for g := range s.gaps(i) {
		s.open = append(s.open, g)
	}
}

// seal encodes the open block where it was altered, and leaves it open.
func (s *blocks) seal() {
	if s.altered {
		at := s.at
		s.write(at, s.list[at].key, s.open)
		s.at = at
	}
}

// write makes list the gaps of block i, whose key becomes key, and leaves no block open. What is
// too much for a block becomes further ones above it; without gaps the block goes.
func (s *blocks) write(i int, key uint64, list []gap) {
	if s.err != nil {
		return
	}
	s.at, s.altered = -1, false
	s.forms -= len(s.list[i].form)
	s.changed[s.list[i].key] = struct{}{}
	if len(list) == 0 {
		s.list[i].form = nil
		s.remove(i)
		return
	}
	for n := len(list); n > 0; n = len(list) {
		if n > 2*blockGaps {
			n = blockGaps
		}
		b := block{key: key}
		for _, g := range list[:n] {
			b.count(g)
		}
		s.scratch = appendGaps(s.scratch[:0], list[:n])
		b.form, b.size = slices.Clone(s.scratch), len(s.scratch)
		s.forms += b.size
		s.changed[key] = struct{}{}
		s.list[i] = b
		if list = list[n:]; len(list) > 0 {
			i, key = i+1, list[0].First
			s.list = slices.Insert(s.list, i, block{})
		}
	}
}

// remove removes block i. No block may be altered.
func (s *blocks) remove(i int) {
	s.at = -1
	s.forms -= len(s.list[i].form)
	if !s.list[i].wide {
		s.changed[s.list[i].key] = struct{}{}
	}
	if i > 0 {
		s.list = slices.Delete(s.list, i, i+1)
		return
	}
	s.list[0] = block{}
	s.list = s.list[1:]
}

// find returns the index of the block that may have id, and of the first gap there that ends at or
// above id; ok says that id is in this gap. The block is open then, unless it is wide.
func (s *blocks) find(id uint64) (i, j int, ok bool) {
	i = s.at
	if i < 0 || id < s.list[i].key || id > s.end(i) {
		i = s.index(id)
		if i < 0 || id > s.list[i].Last || s.list[i].wide {
			return i, 0, i >= 0 && id <= s.list[i].Last
		}
		s.decode(i)
	}
	j = sort.Search(len(s.open), func(j int) bool { return s.open[j].Last >= id })
	return i, j, j < len(s.open) && s.open[j].First <= id
}

func (s *blocks) has(id uint64) bool {
	_, _, ok := s.find(id)
	return ok
}

// gapOf returns the gap that has id, the last id before it that is in the set, and whether id is.
func (s *blocks) gapOf(id uint64) (g source.Range, before uint64, ok bool) {
	s.seal()
	i, j, ok := s.find(id)
	if !ok {
		return source.Range{First: 1}, 0, false
	}
	if i > 0 {
		before = s.list[i-1].Last
	}
	if s.list[i].wide {
		return s.list[i].Range, before, true
	}
	if j > 0 {
		before = s.open[j-1].Last
	}
	return s.open[j].Range, before, true
}

func (s *blocks) any(r source.Range) bool {
	if r.Empty() {
		return false
	}
	i, j, ok := s.find(r.First)
	if !ok && i >= 0 && i == s.at && j < len(s.open) {
		return s.open[j].First <= r.Last
	}
	s.seal()
	return ok || i+1 < len(s.list) && s.list[i+1].First <= r.Last
}

// fill removes id at t. rest are the missing ids that follow in its gap; ok says that it was there.
func (s *set) fill(id uint64, t int64) (rest source.Range, ok bool) {
	none := source.Range{First: 1}
	i, j, ok := s.find(id)
	switch {
	case !ok:
		return none, false
	case s.list[i].wide:
		return s.removeWide(i, source.Range{First: id, Last: id}, t), true
	}
	s.altered = true
	g := &s.open[j]
	rest = source.Range{First: id + 1, Last: g.Last}
	switch {
	case g.First == g.Last:
		if s.open = slices.Delete(s.open, j, j+1); len(s.open) == 0 {
			s.write(i, s.list[i].key, nil)
		}
		return none, true
	case id == g.Last:
		g.Last--
		return none, true
	case id == g.First:
		g.First++
	default:
		above := gap{rest, g.missed}
		g.Last = id - 1
		if s.open = slices.Insert(s.open, j+1, above); len(s.open) > 2*blockGaps {
			s.write(i, s.list[i].key, s.open)
		}
	}
	return rest, true
}

// removeAll removes ascending, disjoint ranges. It reads the blocks that lose some of their ids.
func (s *set) removeAll(ranges []source.Range, t int64) {
	for next := uint64(0); len(ranges) > 0; {
		s.seal()
		i := max(s.index(max(next, ranges[0].First)), 0)
		if i == len(s.list) {
			return
		}
		first, end := ranges[0], s.end(i)
		switch b := &s.list[i]; {
		case first.First > b.Last:
		case b.wide:
			end = min(first.Last, b.Last)
			if ids := first.Intersect(b.Range); !ids.Empty() {
				// Block i may become several.
				s.removeWide(i, ids, t)
			}
		case first.First <= b.First && first.Last >= b.Last:
			s.remove(i)
		default:
			s.subtract(i, ranges)
		}
		if next = end + 1; next == 0 {
			return
		}
		for len(ranges) > 0 && ranges[0].Last < next {
			ranges = ranges[1:]
		}
	}
}

func (s *set) subtract(i int, ranges []source.Range) {
	list, removed := s.spare[:0], false
	for g := range s.gaps(i) {
		for len(ranges) > 0 && ranges[0].Last < g.First {
			ranges = ranges[1:]
		}
		if len(ranges) == 0 || ranges[0].First > g.Last {
			list = append(list, g)
			continue
		}
		removed = true
		split(g.Range, ranges, func(part source.Range, inside bool) {
			if !inside {
				list = append(list, gap{part, g.missed})
			}
		})
	}
	if s.spare = list; removed {
		s.write(i, s.list[i].key, list)
	}
}

// The functions that return an iter.Seq go through the gaps while the set does not change.

// ascend returns the parts of gaps that lie in r, in ascending order.
func (s *blocks) ascend(r source.Range) iter.Seq[gap] {
	return func(yield func(gap) bool) {
		s.seal()
		for i := max(s.index(r.First), 0); i < len(s.list) && s.list[i].First <= r.Last; i++ {
			if s.list[i].Last < r.First {
				continue
			}
			for g := range s.gaps(i) {
				if g.First > r.Last {
					return
				}
				if g.Range = g.Intersect(r); !g.Empty() && !yield(g) {
					return
				}
			}
		}
	}
}

// descend returns the gaps that begin in r, in descending order.
func (s *blocks) descend(r source.Range) iter.Seq[gap] {
	return func(yield func(gap) bool) {
		s.seal()
		var list []gap
		for i := s.index(r.Last); i >= 0 && s.list[i].Last >= r.First; i-- {
			list = slices.AppendSeq(list[:0], s.gaps(i))
			for _, g := range slices.Backward(list) {
				if g.First < r.First || g.First <= r.Last && !yield(g) {
					return
				}
			}
		}
	}
}

func (s *blocks) count(r source.Range) (ids uint64, gaps int) {
	if r.Empty() {
		return 0, 0
	}
	s.seal()
	for i := max(s.index(r.First), 0); i < len(s.list) && s.list[i].First <= r.Last; i++ {
		switch b := &s.list[i]; {
		case b.Last < r.First:
		case b.First >= r.First && b.Last <= r.Last:
			ids, gaps = ids+b.ids, gaps+b.gaps
		default:
			for g := range s.gaps(i) {
				if both := (gap{Range: g.Intersect(r)}); !both.Empty() {
					ids, gaps = ids+both.size(), gaps+1
				}
			}
		}
	}
	return ids, gaps
}

func (s *blocks) appendChanged(chunks []Chunk) []Chunk {
	s.seal()
	for _, key := range slices.Sorted(maps.Keys(s.changed)) {
		chunk := Chunk{Key: key}
		if i := s.index(key); i >= 0 && s.list[i].key == key && !s.list[i].wide {
			chunk.Bytes = s.form(i)
		}
		chunks = append(chunks, chunk)
	}
	clear(s.changed)
	return chunks
}

// saved notes that the store can give back all that appendChanged returned, and frees forms that
// are there, those of the lowest ids first, once they take more than most bytes.
func (s *blocks) saved(most int) {
	if s.load == nil || s.forms <= most {
		return
	}
	s.seal()
	for i := range s.list {
		if s.forms <= most*3/4 {
			return
		}
		b := &s.list[i]
		if _, changed := s.changed[b.key]; !changed && i != s.at {
			s.forms -= len(b.form)
			b.form = nil
		}
	}
}

// restore adds blocks with ids up to last, and keeps at most most bytes where load has them.
func (s *set) restore(parts iter.Seq2[Chunk, error], last uint64, most int) error {
	for c, err := range parts {
		if err != nil {
			return err
		}
		b, err := parseBlock(c)
		i := s.index(c.Key) + 1
		switch {
		case err != nil:
		case i > 0 && c.Key <= s.list[i-1].Last || i < len(s.list) && b.Last >= s.list[i].First:
			err = fmt.Errorf("%w: it overlaps the part before or a wide gap", ErrDamaged)
		case i > 0 && b.oldest < s.list[i-1].newest && s.segmentOf(b.First) == s.segmentOf(s.list[i-1].First):
			err = fmt.Errorf("%w: it is older than the part before", ErrDamaged)
		case b.Last > last:
			err = fmt.Errorf("%w: it goes beyond the position", ErrDamaged)
		}
		if err != nil {
			return fmt.Errorf("part %d: %w", c.Key, err)
		}
		s.list = slices.Insert(s.list, i, b)
		s.forms += b.size
		s.saved(most)
	}
	return nil
}

// split yields the parts of r, ascending, inside and outside of ascending, disjoint ranges.
func split(r source.Range, by []source.Range, yield func(part source.Range, inside bool)) {
	i := 0
	if len(by) > 0 && by[0].Last < r.First {
		i = sort.Search(len(by), func(i int) bool { return by[i].Last >= r.First })
	}
	for ; i < len(by) && by[i].First <= r.Last; i++ {
		if by[i].First > r.First {
			yield(source.Range{First: r.First, Last: by[i].First - 1}, false)
			r.First = by[i].First
		}
		if by[i].Last >= r.Last {
			yield(r, true)
			return
		}
		yield(source.Range{First: r.First, Last: by[i].Last}, true)
		r.First = by[i].Last + 1
	}
	yield(r, false)
}

func outside(dst, ranges, by []source.Range) []source.Range {
	for _, r := range ranges {
		split(r, by, func(part source.Range, inside bool) {
			if !inside {
				dst = append(dst, part)
			}
		})
	}
	return dst
}
