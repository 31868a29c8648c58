package ledger_test

import (
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

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

// poll is the ledger's part of a poll that finds nothing.
func poll(l *ledger.Ledger, now time.Time) {
	probe := l.Hot(now)
	l.Observe(ledger.Evidence{Ranges: probe.IDs, Now: now})
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

func BenchmarkLedger(b *testing.B) {
	l, now := burned(b)
	b.Run("poll", func(b *testing.B) {
		for b.Loop() {
			poll(l, now)
		}
	})
	b.Run("late row", func(b *testing.B) {
		gaps := l.Gaps(0)
		rand.New(rand.NewPCG(1, 2)).Shuffle(len(gaps), func(i, j int) { gaps[i], gaps[j] = gaps[j], gaps[i] })
		for i := 0; b.Loop(); i++ {
			l.Fill(gaps[i%len(gaps)].First, now)
		}
	})
}
