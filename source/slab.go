package source

// slab hands out pieces of memory that stay where they are, and frees all of them at once. The
// zero value is ready for use.
type slab[T any] struct {
	// current is filled, full holds those filled before it, and free those to be filled next. None
	// of them moves.
	current    []T
	full, free [][]T
	// high is about the most that was handed out lately.
	high int
}

const (
	// highFalls is the part of high by which it falls with each reset: by half within a dozen.
	highFalls = 16
	// leastKept is the part of what may be kept that is kept however little is used.
	leastKept = 8
)

// alloc returns n zero values, or n with what they held before where reset did not wipe them. A new
// array has room for size of them.
func (s *slab[T]) alloc(n, size int) []T {
	if cap(s.current)-len(s.current) < n {
		s.next(n, size)
	}
	start := len(s.current)
	s.current = s.current[:start+n]
	return s.current[start : start+n : start+n]
}

func (s *slab[T]) next(n, size int) {
	if s.current != nil {
		s.full = append(s.full, s.current)
	}
	for last := len(s.free) - 1; last >= 0; last-- {
		s.current = s.free[last]
		s.free[last], s.free = nil, s.free[:last]
		if cap(s.current) >= n {
			return
		}
	}
	s.current = make([]T, 0, max(n, size))
}

// reset frees everything that was handed out, and keeps arrays of up to keep values in all, and of
// no more than twice what was handed out lately, save for an eighth of keep.
func (s *slab[T]) reset(keep int, wipe bool) {
	if s.current != nil {
		s.full = append(s.full, s.current)
	}
	used := 0
	for _, array := range s.full {
		used += len(array)
	}
	s.high = max(used, s.high-s.high/highFalls)
	keep = min(keep, max(2*s.high, keep/leastKept))
	all := append(s.free, s.full...)
	s.free = all[:0]
	for _, array := range all {
		if cap(array) > keep {
			continue
		}
		keep -= cap(array)
		if wipe {
			clear(array)
		}
		s.free = append(s.free, array[:0])
	}
	clear(all[len(s.free):])
	clear(s.full)
	s.full, s.current = s.full[:0], nil
}

// empty reports whether the next alloc has to allocate.
func (s *slab[T]) empty() bool { return s.current == nil && len(s.free) == 0 }
