package verify

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestNumbers compares the set with a plain one, over numbers that come as several partitions have
// them, some twice and some never.
func TestNumbers(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 1))
		limit := uint64(random.IntN(5 * perBlock))
		var list []uint64
		for n := range limit {
			if seed%3 == 0 || random.IntN(700) > 0 {
				list = append(list, n)
			}
		}
		partitions := 1 + random.IntN(4)
		slices.SortStableFunc(list, func(a, b uint64) int { return int(a)%partitions - int(b)%partitions })
		set, plain, left := numbers{blocks: make(map[uint64]*block)}, make(map[uint64]bool), 1<<20
		for _, n := range list {
			for range 1 + random.IntN(20)/19 {
				if was := set.add(n, &left); was != plain[n] {
					t.Fatalf("seed %d: %d was there: %v", seed, n, was)
				}
				plain[n] = true
			}
		}
		var got, missing []uint64
		set.missing(limit+2000, func(first, last uint64) {
			for n := first; n <= last; n++ {
				got = append(got, n)
			}
		})
		for n := range limit + 2000 {
			if !plain[n] {
				missing = append(missing, n)
			}
		}
		if !slices.Equal(got, missing) {
			t.Fatalf("seed %d: missing are %v, want %v", seed, got, missing)
		}
		if whole := seed%3 == 0; whole && left < 1<<20-blockBytes {
			t.Errorf("seed %d: a whole set takes %d bytes", seed, 1<<20-left)
		}
	}
}
