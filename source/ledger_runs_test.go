package source

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestRunsAgreeWithAPlainSet holds the compact set against a map under every operation.
func TestRunsAgreeWithAPlainSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, plain := newRuns(), map[uint64]int64{}
		next, missed := uint64(1), int64(0)
		saved := map[uint64][]byte{}
		draw := func(name string) uint64 { return rapid.Uint64Range(0, next+3).Draw(t, name) }
		drawRange := func() Range {
			first := draw("first")
			return Range{first, rapid.Uint64Range(first, next+3).Draw(t, "last")}
		}
		t.Repeat(map[string]func(*rapid.T){
			"add many": func(t *rapid.T) {
				width, seen := rapid.Uint64Range(1, 4).Draw(t, "width"), rapid.Uint64Range(0, 3).Draw(t, "seen")
				for range rapid.IntRange(1, 400).Draw(t, "runs") {
					first := next + seen
					s.add(run{first: first, last: first + width - 1, missed: missed})
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
					rest, got := s.remove(id)
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
					s.remove(id)
					delete(plain, id)
				}
			},
			"remove a range": func(t *rapid.T) {
				r := drawRange()
				n := uint64(0)
				for _, gone := range s.removeRange(nil, r) {
					n += gone.ids()
				}
				want := uint64(0)
				for id := range plain {
					if id >= r.First && id <= r.Last {
						delete(plain, id)
						want++
					}
				}
				if n != want {
					t.Fatalf("removed %d ids, want %d", n, want)
				}
			},
			"save": func(*rapid.T) {
				s.seal()
				for key := range s.changed {
					delete(saved, key)
					if i := s.leafOf(key); i >= 0 && s.leaves[i].key == key {
						saved[key] = s.leaves[i].form
					}
				}
				clear(s.changed)
				if len(saved) != len(s.leaves) {
					t.Fatalf("%d leaves saved of %d", len(saved), len(s.leaves))
				}
			},
			"": func(t *rapid.T) {
				checkRuns(t, s, plain)
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
				if got := s.any(r); got != (n > 0) {
					t.Fatalf("any(%v) = %t, want %t", r, got, n > 0)
				}
				if got := s.through(at); got != through {
					t.Fatalf("through(%d) = %d, want %d", at, got, through)
				}
				if _, want := plain[r.First]; s.has(r.First) != want {
					t.Fatalf("has(%d) = %t", r.First, !want)
				}
			},
		})
	})
}

func checkRuns(t *rapid.T, s *runs, plain map[uint64]int64) {
	var up, down []run
	s.ascend(0, func(r run) bool { up = append(up, r); return true })
	s.descend(1<<64-1, func(r run) bool { down = append(down, r); return true })
	slices.Reverse(down)
	if !slices.Equal(up, down) {
		t.Fatalf("ascending and descending differ:\n%v\n%v", up, down)
	}
	n := 0
	for i, r := range up {
		if i > 0 && (r.first <= up[i-1].last || r.missed < up[i-1].missed) {
			t.Fatalf("run %v after %v", r, up[i-1])
		}
		for id := r.first; id <= r.last; id++ {
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
	for _, l := range s.leaves {
		forms += len(l.form)
		again, err := parseLeaf(l.key, l.form)
		if err != nil || again.first != l.first || again.last != l.last || again.ids != l.ids || again.widest != l.widest ||
			again.runs != l.runs || again.oldest != l.oldest || again.newest != l.newest {
			t.Fatalf("leaf %+v is restored as %+v, %v", l, again, err)
		}
	}
	if forms != s.forms {
		t.Fatalf("forms take %d bytes, counted %d", forms, s.forms)
	}
}
