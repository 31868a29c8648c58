package ledger

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"bridge/source"
)

// TestAGapSetAgreesWithAPlainSet compares the compact set with a map under every operation.
func TestAGapSetAgreesWithAPlainSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, plain := newGapSet(), map[uint64]int64{}
		next, missed := uint64(1), int64(0)
		saved := map[uint64][]byte{}
		draw := func(name string) uint64 { return rapid.Uint64Range(0, next+3).Draw(t, name) }
		drawRange := func() source.Range {
			first := draw("first")
			return source.Range{First: first, Last: rapid.Uint64Range(first, next+3).Draw(t, "last")}
		}
		t.Repeat(map[string]func(*rapid.T){
			"add many": func(t *rapid.T) {
				width, seen := rapid.Uint64Range(1, 4).Draw(t, "width"), rapid.Uint64Range(0, 3).Draw(t, "seen")
				for range rapid.IntRange(1, 400).Draw(t, "gaps") {
					first := next + seen
					s.add(gap{source.Range{First: first, Last: first + width - 1}, missed})
					for id := first; id < first+width; id++ {
						plain[id] = missed
					}
					next = first + width
				}
				missed += rapid.Int64Range(0, 5).Draw(t, "later")
			},
			"remove": func(t *rapid.T) {
				for range rapid.IntRange(1, 50).Draw(t, "ids") {
					id := draw("id")
					_, want := plain[id]
					rest, got := s.remove(id, missed)
					delete(plain, id)
					if got != want || rest.First <= rest.Last && rest.First != id+1 {
						t.Fatalf("remove(%d) = %v, %t, want %t", id, rest, got, want)
					}
					for above := rest.First; above <= rest.Last; above++ {
						if _, ok := plain[above]; !ok {
							t.Fatalf("remove(%d) says that %v is left, %d is not", id, rest, above)
						}
					}
				}
			},
			"remove the middle of everything": func(t *rapid.T) {
				for id := uint64(2); id < next; id += rapid.Uint64Range(2, 5).Draw(t, "step") {
					s.remove(id, missed)
					delete(plain, id)
				}
			},
			"remove ranges": func(t *rapid.T) {
				var ranges []source.Range
				for id := draw("from"); id < next && len(ranges) < 2000; {
					r := source.Range{First: id, Last: id + rapid.Uint64Range(0, 3).Draw(t, "more")}
					if rapid.IntRange(0, 20).Draw(t, "long") == 0 {
						r.Last += 3000
					}
					ranges = append(ranges, r)
					id = r.Last + 1 + rapid.Uint64Range(0, 8).Draw(t, "between")
				}
				s.removeAll(ranges, missed)
				for _, r := range ranges {
					for id := r.First; id <= r.Last; id++ {
						delete(plain, id)
					}
				}
			},
			"save": func(*rapid.T) {
				l := &s.leaves
				l.seal()
				for key := range l.changed {
					delete(saved, key)
					if i := l.index(key); i >= 0 && l.list[i].key == key {
						saved[key] = l.list[i].form
					}
				}
				clear(l.changed)
				if len(saved) != len(l.list) {
					t.Fatalf("%d leaves saved of %d", len(saved), len(l.list))
				}
			},
			"": func(t *rapid.T) {
				checkGaps(t, s, plain)
				r := drawRange()
				n, at := uint64(0), rapid.Int64Range(-1, missed+1).Draw(t, "at")
				through := uint64(0)
				for id, m := range plain {
					if id >= r.First && id <= r.Last {
						n++
					}
					if m <= at {
						through = max(through, id)
					}
				}
				if got := s.count(r); got != n {
					t.Fatalf("count(%v) = %d, want %d", r, got, n)
				}
				if got := s.gaps(r); got > s.maxGaps(r) || uint64(got) > n || (got > 0) != (n > 0) {
					t.Fatalf("gaps(%v) = %d, at most %d, of %d ids", r, got, s.maxGaps(r), n)
				}
				if got := s.any(r); got != (n > 0) {
					t.Fatalf("any(%v) = %t, want %t", r, got, n > 0)
				}
				if got := s.missedBy(0, at); got != through {
					t.Fatalf("missedBy(%d) = %d, want %d", at, got, through)
				}
				if _, want := plain[r.First]; s.has(r.First) != want {
					t.Fatalf("has(%d) = %t", r.First, !want)
				}
			},
		})
	})
}

func checkGaps(t *rapid.T, s *gapSet, plain map[uint64]int64) {
	var up, down []gap
	s.ascend(0, func(r gap) bool { up = append(up, r); return true })
	s.descend(1<<64-1, func(r gap) bool { down = append(down, r); return true })
	slices.Reverse(down)
	if !slices.Equal(up, down) {
		t.Fatalf("ascending and descending differ:\n%v\n%v", up, down)
	}
	n := 0
	for i, r := range up {
		if i > 0 && (r.First <= up[i-1].Last || r.missed < up[i-1].missed) {
			t.Fatalf("gap %v after %v", r, up[i-1])
		}
		for id := r.First; id <= r.Last; id++ {
			if m, ok := plain[id]; !ok || m != r.missed {
				t.Fatalf("id %d missed at %d, want %d, %t", id, r.missed, m, ok)
			}
			n++
		}
	}
	if n != len(plain) {
		t.Fatalf("%d ids, want %d", n, len(plain))
	}
	forms := 0
	for _, l := range s.leaves.list {
		forms += len(l.form)
		again, _, err := parseLeaf(l.key, l.form, nil)
		if err != nil || again.Range != l.Range || again.ids != l.ids || again.widest != l.widest ||
			again.gaps != l.gaps || again.size != l.size || again.oldest != l.oldest || again.newest != l.newest {
			t.Fatalf("leaf %+v is restored as %+v, %v", l, again, err)
		}
	}
	if forms != s.leaves.forms {
		t.Fatalf("forms take %d bytes, counted %d", forms, s.leaves.forms)
	}
}
