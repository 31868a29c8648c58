package bolt

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestIndexIsAMap: under random changes, of hashes that are near to one another, at the end or anywhere, it is what a map is.
func TestIndexIsAMap(t *testing.T) {
	for name, hash := range map[string]func(*rand.Rand) uint32{
		"anywhere":   func(r *rand.Rand) uint32 { return r.Uint32() },
		"one slot":   func(r *rand.Rand) uint32 { return 1 + r.Uint32N(500) },
		"at the end": func(r *rand.Rand) uint32 { return 1<<32 - 1 - r.Uint32N(2000) },
	} {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(3, 4))
			x, want, number := index{}, map[uint32]place{}, uint64(1)
			for step := range 20_000 {
				h := hash(r)
				if r.IntN(3) > 0 {
					number += uint64(r.IntN(2))
					x.put(h, placeOf(number, step))
					want[h] = placeOf(number, step)
				}
				if p, ok := x.get(h); ok != (want[h] != 0) || p != want[h] {
					t.Fatalf("step %d: hash %d is at %d, want %d", step, h, p, want[h])
				}
				if step%3000 == 2999 {
					through := number - uint64(r.IntN(2000))
					x.drop(through)
					maps.DeleteFunc(want, func(_ uint32, p place) bool { return p.number() <= through })
				}
				if x.count != len(want) {
					t.Fatalf("step %d: it has %d places, want %d", step, x.count, len(want))
				}
			}
			if !slices.Equal(slices.Sorted(x.all()), slices.Sorted(maps.Values(want))) {
				t.Error("it does not go through all places")
			}
			for h, p := range want {
				if got, ok := x.get(h); !ok || got != p {
					t.Fatalf("hash %d is at %d, want %d", h, got, p)
				}
			}
		})
	}
}

func TestIndexTakesTheHashZeroForOne(t *testing.T) {
	var x index
	x.put(0, placeOf(1, 1))
	for hash, want := range []place{placeOf(1, 1), placeOf(1, 1), 0} {
		if p, ok := x.get(uint32(hash)); p != want || ok != (want != 0) {
			t.Errorf("hash %d is at %d, want %d", hash, p, want)
		}
	}
	x.put(1, placeOf(1, 2))
	x.drop(0)
	if p, _ := x.get(0); p != placeOf(1, 2) || x.count != 1 {
		t.Errorf("hash 0 is at %d of %d places, want %d of 1", p, x.count, placeOf(1, 2))
	}
}
