package bolt

import (
	"math/rand/v2"
	"testing"
)

// BenchmarkIndex looks for hashes that are mostly not there, as those of a backlog, among those of half a million entities.
func BenchmarkIndex(b *testing.B) {
	var x index
	for i := range 500_000 {
		x.put(rand.Uint32(), placeOf(1, i))
	}
	for b.Loop() {
		x.get(rand.Uint32())
	}
}
