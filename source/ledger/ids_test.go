package ledger_test

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"example.org/bridge/source"
	"example.org/bridge/source/ledger"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testall"
)

// TestIDsAgreeWithAPlainSet compares them with a map, through parts that are only on the disk, and
// kills.
func TestIDsAgreeWithAPlainSet(t *testing.T) {
	limits := testall.Cases([]uint64{50, 3000}, []uint64{50, 5000, 60_000})
	rapid.Check(t, func(t *rapid.T) {
		d := disk{}
		s, plain := ledger.NewIDs(1000, d.load), map[uint64]bool{}
		saved := []uint64(nil)
		limit := rapid.SampledFrom(limits).Draw(t, "limit")
		sorted := func() (ids []uint64) {
			for id := range plain {
				ids = append(ids, id)
			}
			slices.Sort(ids)
			return ids
		}
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				step := rapid.SampledFrom([]uint64{2, 3, 20, 900}).Draw(t, "step")
				var ranges []source.Range
				for id := rapid.Uint64Range(1, limit).Draw(t, "from"); id < limit && len(ranges) < 3000; {
					r := source.Range{First: id, Last: id + rapid.SampledFrom([]uint64{0, 0, 0, 1, 7, 2000}).Draw(t, "more")}
					ranges = append(ranges, r)
					for ; id <= r.Last; id++ {
						plain[id] = true
					}
					id += rapid.Uint64Range(0, step).Draw(t, "between")
				}
				s.Add(ranges)
			},
			"pop": func(t *rapid.T) {
				through := rapid.Uint64Range(0, limit).Draw(t, "through")
				for ranges := s.PopThrough(through); ranges != nil; ranges = s.PopThrough(through) {
					for _, r := range ranges {
						for id := r.First; id <= r.Last; id++ {
							if !plain[id] || id > through {
								t.Fatalf("%d is there", id)
							}
							delete(plain, id)
						}
					}
				}
				for id := range plain {
					if id <= through {
						t.Fatalf("%d is left", id)
					}
				}
			},
			"drop": func(t *rapid.T) {
				through := rapid.Uint64Range(0, limit).Draw(t, "through")
				s.DropThrough(through)
				for id := range plain {
					if id <= through {
						delete(plain, id)
					}
				}
			},
			"save": func(*rapid.T) {
				d.save(s.Changed())
				s.Trim()
				saved = sorted()
			},
			"kill": func(t *rapid.T) {
				var err error
				if s, err = ledger.RestoreIDs(1000, d.load, inOrder(d.chunks())); err != nil {
					t.Fatal(err)
				}
				clear(plain)
				for _, id := range saved {
					plain[id] = true
				}
			},
			"": func(t *rapid.T) {
				var got []uint64
				for r := range s.All {
					for id := r.First; id <= r.Last; id++ {
						got = append(got, id)
					}
				}
				want := sorted()
				if !slices.Equal(got, want) || s.AnyThrough(1<<63) != (len(want) > 0) {
					t.Fatalf("%d ids, want %d", len(got), len(want))
				}
				if len(want) > 0 && (s.AnyThrough(want[0]-1) || !s.AnyThrough(want[0])) {
					t.Fatalf("%d is not known to be the lowest", want[0])
				}
				for range 10 {
					if id := rapid.Uint64Range(1, limit+10).Draw(t, "id"); s.Has(id) != plain[id] {
						t.Fatalf("Has(%d) is %t", id, !plain[id])
					}
				}
				if s.Err() != nil {
					t.Fatal(s.Err())
				}
			},
		})
	})
}

func TestIDsBelowTheLowestNeedNoPart(t *testing.T) {
	d := disk{}
	s := ledger.NewIDs(1000, d.load)
	s.Add([]source.Range{{First: 5, Last: 9}})
	d.save(s.Changed())
	part := ledger.Chunk{Key: 5, Bytes: d[5]}
	for name, parts := range map[string][]ledger.Chunk{"below its key": {{Key: 6, Bytes: part.Bytes}}, "twice": {part, part}} {
		if _, err := ledger.RestoreIDs(1000, d.load, inOrder(parts)); !errors.Is(err, ledger.ErrDamaged) {
			t.Errorf("a part is restored %s: %v", name, err)
		}
	}
	s = must.Get(ledger.RestoreIDs(0, func(uint64) ([]byte, error) { return nil, errors.New("unreadable") }, inOrder(d.chunks())))(t)
	s.DropThrough(4)
	if s.Err() != nil || !s.AnyThrough(5) {
		t.Errorf("a part is read: %v", s.Err())
	}
	// What a part has that cannot be read is not taken from the set.
	if popped := s.PopThrough(7); popped != nil || s.Err() == nil || !s.AnyThrough(5) {
		t.Errorf("popped %v, %v", popped, s.Err())
	}
	if popped := s.PopThrough(9); popped != nil || !s.AnyThrough(5) {
		t.Errorf("popped %v", popped)
	}
}
