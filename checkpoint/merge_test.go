package checkpoint_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"bridge/checkpoint"
	"bridge/checkpoint/checkpointtest"
	"bridge/checkpoint/memory"
	"bridge/source"
	"bridge/source/ledger"
)

// drawSave makes a state as a saver does.
func drawSave(r *rand.Rand, n int) checkpoint.State {
	s := checkpointtest.State(n)
	s.View = checkpointtest.RandomChanges(r, r.IntN(30))
	s.ReplaceLedger, s.ReplacePublished = r.IntN(5) == 0, r.IntN(5) == 0
	s.Ledger, s.Published = drawParts(r, n), drawParts(r, n)
	switch r.IntN(4) {
	case 0:
		s.Meaning = &checkpoint.Meaning{Kind: "release", Table: fmt.Sprint("shop.t", n), ID: "id", Key: []string{"a", "b"}[:1+r.IntN(2)]}
	case 1:
		s.Meaning = &checkpoint.Meaning{}
	}
	draw := func() (ranges []source.Range) {
		for range r.IntN(3) {
			first := r.Uint64N(60)
			ranges = append(ranges, source.Range{First: first, Last: first + r.Uint64N(8)})
		}
		return ranges
	}
	s.Given, s.Found = draw(), draw()
	if r.IntN(2) == 0 {
		// What is left of a batch may come behind the journal of the next one.
		s.Journals = append(s.Journals, checkpointtest.Journal(max(0, n-r.IntN(3))))
	}
	if r.IntN(3) > 0 {
		s.Keep = uint64(r.IntN(n + 3))
	}
	return s
}

func drawParts(r *rand.Rand, n int) (parts []ledger.Chunk) {
	for key := range uint64(6) {
		if part := (ledger.Chunk{Key: key, Bytes: []byte{byte(n), byte(key)}}); r.IntN(2) == 0 {
			if r.IntN(3) == 0 {
				part.Bytes = nil
			}
			parts = append(parts, part)
		}
	}
	return parts
}

// TestMergeStates: one save of what was merged does what the saves would have done one by one.
func TestMergeStates(t *testing.T) {
	key := checkpoint.Key{Stream: "orders", Shard: "a"}
	type content struct {
		state checkpoint.State
		rows  []checkpoint.Entity
		given []source.Range
	}
	read := func(s checkpoint.Store) (c content) {
		var errs [3]error
		c.state, errs[0] = s.Load(context.Background(), key)
		c.rows, errs[1] = s.ByRow(context.Background(), key, 0, 10_000, nil)
		c.given, errs[2] = s.GivenUp(context.Background(), key, 0, 10_000, nil)
		for _, err := range errs {
			if err != nil {
				t.Fatal(err)
			}
		}
		return c
	}
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		each, merged := memory.New(), memory.New()
		for round := range 3 {
			var all checkpoint.State
			for n := range 1 + r.IntN(4) {
				s := drawSave(r, 10*round+n)
				if err := each.Save(t.Context(), key, s); err != nil {
					t.Fatal(err)
				}
				if n == 0 {
					all = s
				} else {
					all = checkpoint.MergeStates(all, s)
				}
			}
			if err := merged.Save(t.Context(), key, all); err != nil {
				t.Fatal(err)
			}
			if got, want := read(merged), read(each); !reflect.DeepEqual(got, want) {
				t.Fatalf("seed %d, round %d: merged\n%+v, one by one\n%+v", seed, round, got, want)
			}
		}
	}
}

func TestUnionAndWithout(t *testing.T) {
	const ids = 64
	set := func(ranges []source.Range) (in [ids]bool) {
		for _, r := range ranges {
			for id := r.First; id <= r.Last; id++ {
				in[id] = true
			}
		}
		return in
	}
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 2))
		draw := func() (ranges []source.Range) {
			for range r.IntN(8) {
				first := r.Uint64N(ids)
				ranges = append(ranges, source.Range{First: first, Last: min(first+r.Uint64N(9), ids-1)})
			}
			return ranges
		}
		a, b := draw(), draw()
		want := set(a)
		if got := set(checkpoint.Union(a...)); got != want {
			t.Fatalf("the union of %v is %v", a, checkpoint.Union(a...))
		}
		for id, in := range set(b) {
			want[id] = want[id] && !in
		}
		left := checkpoint.Without(a, b)
		if set(left) != want {
			t.Fatalf("%v without %v is %v", a, b, left)
		}
		for i := 1; i < len(left); i++ {
			if left[i].First <= left[i-1].Last+1 {
				t.Fatalf("%v is not joined", left)
			}
		}
	}
	all := []source.Range{{First: 0, Last: 1<<64 - 1}}
	if got := checkpoint.Union(source.Range{First: 5, Last: 1<<64 - 1}, all[0]); !reflect.DeepEqual(got, all) {
		t.Errorf("the union with all ids is %v", got)
	}
	if got := checkpoint.Without(all, []source.Range{{First: 1 << 63, Last: 1<<64 - 1}}); !reflect.DeepEqual(got, []source.Range{{First: 0, Last: 1<<63 - 1}}) {
		t.Errorf("all ids without the upper half are %v", got)
	}
}
