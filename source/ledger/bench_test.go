package ledger_test

import (
	"cmp"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"example.org/bridge/source"
	"example.org/bridge/source/ledger"
)

// heapOf returns what build makes and the memory that it keeps alive.
func heapOf[T any](build func() T) (T, float64) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	v := build()
	runtime.GC()
	runtime.ReadMemStats(&after)
	return v, float64(after.HeapAlloc) - float64(before.HeapAlloc)
}

// report reports the cost of the ledger at now: its heap, its bytes in a checkpoint, and what one
// probe and one sweep look for.
func report(b *testing.B, l *ledger.Ledger, heap float64, now time.Time) {
	b.Helper()
	probe := l.Hot(now)
	parts, swept := 0, 0
	for r := l.Sweep(now); len(r) > 0; r = l.Sweep(now) {
		l.Swept(ledger.Evidence{Ranges: r, Now: now})
		parts++
		swept += len(r)
	}
	s := l.Stats(now)
	b.ReportMetric(heap, "heap-bytes")
	b.ReportMetric(float64(l.SavedBytes()), "saved-bytes")
	b.ReportMetric(float64(s.Ranges), "gaps")
	b.ReportMetric(float64(len(probe.Rows)), "row-ranges/probe")
	b.ReportMetric(float64(len(probe.IDs)), "id-ranges/probe")
	b.ReportMetric(float64(parts), "queries/sweep")
	b.ReportMetric(float64(swept), "ranges/sweep")
	runtime.KeepAlive(l)
}

// poll is the ledger's part of a poll that finds nothing.
func poll(l *ledger.Ledger, now time.Time) {
	probe := l.Hot(now)
	l.Observe(ledger.Evidence{Ranges: probe.IDs, Now: now})
}

func BenchmarkLedgerJump(b *testing.B) {
	l, heap := heapOf(func() *ledger.Ledger {
		l := mustLedger(b, ledger.Options{}, 0)
		l.Advance(1_000_000_000, []uint64{1_000_000_000}, base)
		return l
	})
	for b.Loop() {
		poll(l, after(time.Second))
	}
	report(b, l, heap, after(2*time.Minute))
}

func BenchmarkLedgerStride3(b *testing.B) {
	l, heap := heapOf(func() *ledger.Ledger { return stride(b, ledger.Options{}, 1_000_000) })
	for b.Loop() {
		poll(l, after(1_000_000*time.Millisecond))
	}
	report(b, l, heap, after(1_100_000*time.Millisecond))
}

// burned returns a ledger with a million ids burned at random among a hundred million, passed at
// 20,000 ids a second.
func burned(t testing.TB) (*ledger.Ledger, time.Time) {
	rng := rand.New(rand.NewPCG(1, 2))
	l := mustLedger(t, ledger.Options{}, 0)
	now := base
	var page []uint64
	for id := uint64(1); id <= 100_000_000; id++ {
		if rng.IntN(100) > 0 {
			page = append(page, id)
		}
		if id%4000 == 0 && len(page) > 0 {
			now = now.Add(200 * time.Millisecond)
			l.Advance(page[len(page)-1], page, now)
			page = page[:0]
		}
	}
	return l, now
}

func BenchmarkLedgerBurned(b *testing.B) {
	var now time.Time
	l, heap := heapOf(func() (l *ledger.Ledger) {
		l, now = burned(b)
		return l
	})
	b.Run("poll", func(b *testing.B) {
		for b.Loop() {
			poll(l, now)
		}
		report(b, l, heap, now.Add(2*time.Minute))
	})
	b.Run("late row", func(b *testing.B) {
		gaps := l.Gaps(0)
		rand.New(rand.NewPCG(1, 2)).Shuffle(len(gaps), func(i, j int) { gaps[i], gaps[j] = gaps[j], gaps[i] })
		for i := 0; b.Loop(); i++ {
			l.Fill(gaps[i%len(gaps)].First, now)
		}
	})
}

// blocks runs an hour of writers that use up blocks of 5,000 ids at their own pace; one id in a
// hundred is burned. It polls five times a second, and calls each with every poll's probe.
func blocks(b *testing.B, writers int, perSecond float64, each func(ledger.Probe)) (*ledger.Ledger, time.Time) {
	rng := rand.New(rand.NewPCG(1, 2))
	l := mustLedger(b, ledger.Options{Order: source.OrderSegmented}, 0)
	type writer struct{ next, end uint64 }
	pool := make([]writer, writers)
	now, allotted := base, uint64(0)
	var drawn []uint64
	for range 5 * 3600 {
		now = now.Add(200 * time.Millisecond)
		drawn = drawn[:0]
		for w := range pool {
			// The first writer is ten times as fast as the last.
			share := 1 + 9*float64(len(pool)-w)/float64(len(pool))
			for n := rng.ExpFloat64() * share / 5.5 * perSecond / float64(writers) / 5; n > rng.Float64(); n-- {
				if pool[w].next == pool[w].end {
					pool[w] = writer{allotted + 1, allotted + 5001}
					allotted += 5000
				}
				if rng.IntN(100) > 0 {
					drawn = append(drawn, pool[w].next)
				}
				pool[w].next++
			}
		}
		slices.SortFunc(drawn, cmp.Compare[uint64])
		probe := l.Hot(now)
		each(probe)
		var late []uint64
		tail := 0
		for ; tail < len(drawn) && drawn[tail] <= l.Position(); tail++ {
			late = append(late, drawn[tail])
		}
		l.Observe(ledger.Evidence{Ranges: probe.IDs, IDs: late, Now: now})
		for _, id := range late {
			if !l.Fill(id, now) {
				b.Fatalf("%d is not missing", id)
			}
		}
		if tail < len(drawn) {
			l.Advance(drawn[len(drawn)-1], drawn[tail:], now)
		}
		l.Changed()
	}
	return l, now
}

func BenchmarkLedgerBlocks(b *testing.B) {
	for _, test := range []struct {
		name      string
		perSecond float64
	}{{"10 rows a second", 10}, {"500 rows a second", 500}} {
		b.Run(test.name, func(b *testing.B) {
			var now time.Time
			polls, rows, ids := 0, 0, 0
			l, heap := heapOf(func() (l *ledger.Ledger) {
				l, now = blocks(b, 10, test.perSecond, func(p ledger.Probe) {
					polls++
					rows += len(p.Rows)
					ids += len(p.IDs)
				})
				return l
			})
			for b.Loop() {
				poll(l, now)
			}
			report(b, l, heap, now)
			b.ReportMetric(float64(rows)/float64(polls), "mean-row-ranges/probe")
			b.ReportMetric(float64(ids)/float64(polls), "mean-id-ranges/probe")
		})
	}
}
