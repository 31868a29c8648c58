package ledger_test

import (
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"example.org/bridge/source/ledger"
	"example.org/bridge/tests/testall"
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

// TestMillionsOfGaps compares the memory of a million gaps with its bound: no more when their time
// passes, and a bit an id where they are dense.
func TestMillionsOfGaps(t *testing.T) {
	testall.Long(t)
	const n = 1_000_000
	for name, test := range map[string]struct {
		build func() *ledger.Ledger
		bytes float64
	}{
		"stride 2":                    {func() *ledger.Ledger { return passEveryOther(t, n) }, 0.6e6},
		"at random, one in a hundred": {func() *ledger.Ledger { l, _ := burned(t); return l }, 2.2e6},
	} {
		t.Run(name, func(t *testing.T) {
			l, heap := heapOf(func() *ledger.Ledger {
				l := test.build()
				l.Changed()
				return l
			})
			if s := l.Stats(base); s.Hot+s.Cold < n*9/10 || float64(l.SavedBytes()) > test.bytes {
				t.Fatalf("%+v", s)
			}
			if heap > test.bytes+1e6 {
				t.Errorf("they take %.0f bytes, want %.0f and a MB of noise", heap, test.bytes)
			}
			changed := 0
			_, more := heapOf(func() *ledger.Ledger {
				now := after(48 * time.Hour)
				poll(l, now)
				for r := l.Sweep(now); len(r) > 0; r = l.Sweep(now) {
					l.Swept(ledger.Evidence{Ranges: r, Now: now})
					changed = max(changed, len(l.Changed()))
				}
				return l
			})
			if s := l.Stats(after(48 * time.Hour)); s.Unpolled < n*9/10 || s.Hot+s.Cold > 0 {
				t.Fatalf("%+v", s)
			}
			if more > 1e6 {
				t.Errorf("when the TTL passes they take %.0f bytes more", more)
			}
			if changed > 2000 {
				t.Errorf("one save then writes %d parts", changed)
			}
			runtime.KeepAlive(l)
		})
	}
}

// passEveryOther returns a ledger of which every second id, of so many, is missing.
func passEveryOther(t *testing.T, n int) *ledger.Ledger {
	l := mustLedger(t, ledger.Options{}, 0)
	page := make([]uint64, 2000)
	for i := 0; i < n; i += len(page) {
		for j := range page {
			page[j] = 2 * uint64(i+j+1)
		}
		l.Advance(page[len(page)-1], page, after(time.Duration(i)*100*time.Microsecond))
	}
	return l
}
