package source

// slab allocates slices that do not move, and frees all of them at once. The zero value is ready
// for use.
type slab[T any] struct {
	// current is being filled, full holds the arrays filled before it, and free those to be filled
	// next. No array moves.
	current    []T
	full, free [][]T
	// high is roughly the largest recent use.
	high int
}

const (
	// highFalls is the divisor by which high falls with each reset: to a half within a dozen.
	highFalls = 16
	// leastKept is the divisor of what is kept at least, however little is used.
	leastKept = 8
)

// alloc returns n values. They are zero, or what they held before if reset did not wipe them. A new
// array has room for size values.
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

// reset frees all slices. It keeps arrays of up to keep values, and no more than twice the recent
// use, except for an eighth of keep.
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
