package source

import "testing"

func (s *slab[T]) kept() (n int) {
	for _, array := range s.arrays {
		n += cap(array)
	}
	return n
}

func TestASlabFreesUnusedMemory(t *testing.T) {
	const keep, size, large = 1 << 20, 16 << 10, 600 << 10
	var s slab[byte]
	fill := func(n int) {
		for ; n > 0; n -= size {
			s.alloc(min(n, size), size)
		}
		s.reset(keep, false)
	}

	fill(large)
	if got := s.kept(); got < large || got > keep {
		t.Fatalf("%d are kept of %d that were used", got, large)
	}
	for range 12 {
		fill(large)
	}
	before := s.kept()
	if got := testing.AllocsPerRun(100, func() { fill(large) }); got > 0 || s.kept() != before {
		t.Errorf("the same again takes %v allocations, %d are kept of %d", got, s.kept(), before)
	}

	fill(1000)
	if got := s.kept(); got < large {
		t.Errorf("%d are kept after one small use", got)
	}
	for range 100 {
		fill(1000)
	}
	if got := s.kept(); got > keep/leastKept || got == 0 {
		t.Errorf("%d are kept after many small uses", got)
	}
	if got := testing.AllocsPerRun(100, func() { fill(1000) }); got > 0 {
		t.Errorf("a small use takes %v allocations", got)
	}
	for range 100 {
		fill(0)
	}
	if got := s.kept(); got > keep/leastKept {
		t.Errorf("%d are kept after many uses of nothing", got)
	}
	fill(2 * keep)
	if got := s.kept(); got > keep {
		t.Errorf("%d are kept, %d may be", got, keep)
	}
}
