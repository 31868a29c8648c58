package bolt_test

import (
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"bridge/checkpoint"
)

// BenchmarkOverlay reports the memory of an entity that is recent, in the overlay and in a fold that was begun, and the time that
// the beginning takes an entity. Batches are as a backlog has them.
func BenchmarkOverlay(b *testing.B) {
	const entities = 250_000
	for b.Loop() {
		s := mustOpen(b, filepath.Join(b.TempDir(), "bridge.db"))
		empty := heap()
		for n := 0; n < entities; n += benchRows {
			at := n - 1
			changes := benchChanges(benchRows, uint64(n+1), func() int { at++; return at })
			if err := s.Save(b.Context(), key, checkpoint.State{View: changes}); err != nil {
				b.Fatal(err)
			}
		}
		full := heap()
		begin := time.Now()
		if _, err := s.FoldSteps(key, 1); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(time.Since(begin).Nanoseconds())/entities, "ns/entity-begun")
		b.ReportMetric(float64(full-empty)/entities, "B/entity")
		b.ReportMetric(float64(heap()-full)/entities, "B/entity-folding")
		runtime.KeepAlive(s)
	}
}

// heap is how many bytes are in use.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
