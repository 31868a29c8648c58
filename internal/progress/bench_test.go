package progress_test

import (
	"context"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"bridge/checkpoint/store"
	"bridge/checkpoint/store/memory"
	"bridge/internal/progress"
	"bridge/sink"
	"bridge/source/ledger"
	"bridge/tests/testall"
)

// chunk is how many messages catch-up reads between two commits.
const chunk = 2000

// inOrder calls note for the rows 1 to rows, chunk by chunk, as they come from 8 partitions that
// are read side by side: each in order, at its own pace. One id in a hundred is vacant.
func inOrder(rows uint64, note func(row uint64), flush func()) {
	const partitions = 8
	rng := rand.New(rand.NewPCG(1, 1))
	var next [partitions]uint64
	for i := range next {
		next[i] = uint64(i) + 1
	}
	for left := partitions; left > 0; {
		i := rng.IntN(partitions)
		if next[i] > rows {
			continue
		}
		for n := 0; n < chunk && next[i] <= rows; next[i] += partitions {
			if next[i]%100 != 7 {
				note(next[i])
				n++
			}
		}
		flush()
		if next[i] > rows {
			left--
		}
	}
}

// atRandom is the worst case: the ids come in random order.
func atRandom(rows uint64, note func(row uint64), flush func()) {
	for i, row := range rand.New(rand.NewPCG(1, 1)).Perm(int(rows)) {
		note(uint64(row) + 1)
		if (i+1)%chunk == 0 {
			flush()
		}
	}
	flush()
}

func BenchmarkReadBack(b *testing.B) {
	for _, c := range []struct {
		name   string
		rows   uint64
		origin sink.Origin
		order  func(rows uint64, note func(row uint64), flush func())
	}{
		{"nearly in order", 5_000_000, sink.FromTail, inOrder},
		{"nearly in order, not of the tail", 5_000_000, sink.FromModified, inOrder},
		{"at random", 500_000, sink.FromTail, atRandom},
		{"at random, not of the tail", 500_000, sink.FromModified, atRandom},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				bytes := 0
				s := newShard(b, memory.New())
				state := sink.State{Epoch: 1}
				c.order(c.rows, func(row uint64) { s.p.Note(row, c.origin, &state) }, func() {
					change, err := s.p.Flush(base)
					if err != nil {
						b.Fatal(err)
					}
					for _, part := range change.Parts {
						bytes += len(part.Bytes)
					}
					s.apply(b, change)
				})
				b.ReportMetric(float64(bytes)/float64(c.rows), "saved-bytes/row")
			}
			b.ReportMetric(float64(c.rows)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

// TestMemoryIsBounded reads back with ids in the worst order, and little memory for parts.
func TestMemoryIsBounded(t *testing.T) {
	const rows, bound = 100_000, 64 << 10
	for name, origin := range map[string]sink.Origin{"of the tail": sink.FromTail, "not of the tail": sink.FromReconcile} {
		t.Run(name, func(t *testing.T) {
			testall.Long(t)
			m := memory.New()
			p, err := progress.Open(context.Background(), m, key, store.Progress{}, ledger.Options{MaxBytes: bound})
			if err != nil {
				t.Fatal(err)
			}
			s := &shard{p: p, store: m}
			state, parts := sink.State{Epoch: 1}, 0
			// Far apart, so that each id is a range.
			atRandom(rows, func(row uint64) { s.p.Note(row*50, origin, &state) }, func() {
				s.flush(t, base)
				n := 0
				for range m.Parts(t.Context(), key, store.Gaps, 0) {
					n++
				}
				parts = max(parts, n)
			})
			// Bytes has what the last Flush has made, which the next one frees.
			s.flush(t, base)
			if stats := s.p.Ledger().Stats(base); stats.Bytes > bound+parts*140+200_000 {
				t.Errorf("%d bytes for %d parts", stats.Bytes, parts)
			}
			for _, row := range []uint64{1, 77, rows} {
				if s.p.Ledger().Missing(row*50) || s.p.Ahead(row*50) != (origin != sink.FromTail) {
					t.Errorf("row %d is forgotten", row*50)
				}
			}
			runtime.KeepAlive(s)
		})
	}
}

var base = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
