package ledger_test

import (
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
