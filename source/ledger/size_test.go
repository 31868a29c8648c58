package ledger_test

import (
	"math"
	"runtime"
	"testing"
	"time"

	"example.org/bridge/source/ledger"
	"example.org/bridge/tests/testall"
)

// TestMillionsOfGaps compares the memory of a million gaps with its bound: no more when their time
// passes, and a bit an id where they are dense.
func TestMillionsOfGaps(t *testing.T) {
	testall.Long(t)
	const n = 1_000_000
	for name, test := range map[string]struct {
		mean  uint64
		bytes float64
	}{"stride 2": {2, 0.6e6}, "at random, one in a hundred": {100, 2.2e6}} {
		t.Run(name, func(t *testing.T) {
			l, heap := heapOf(func() *ledger.Ledger {
				l := mustLedger(t, ledger.Options{}, 0)
				gaps(l, n, test.mean)
				l.All()
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

// gaps passes n gaps of an id, with so many ids from one to the next in the mean: one that is
// published between two for 2.
func gaps(l *ledger.Ledger, n int, mean uint64) {
	rng := newRand(1)
	now, id := base, uint64(0)
	page := make([]uint64, 0, 5000)
	for range n {
		seen := uint64(1)
		if mean > 2 {
			seen = 1 + uint64(rng.ExpFloat64()*float64(mean-1))
		}
		// Only what is next to a gap matters, and the last row of a page.
		page = append(page, id+2)
		if seen > 1 {
			page = page[:len(page)-1]
			for i := range min(seen, math.MaxInt32) {
				page = append(page, id+2+i)
			}
		}
		id += 1 + seen
		if len(page) >= 2000 {
			now = now.Add(200 * time.Millisecond)
			l.Advance(id, page, now)
			page = page[:0]
		}
	}
	if len(page) > 0 {
		l.Advance(id, page, now)
	}
}
