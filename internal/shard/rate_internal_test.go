package shard

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestRate: tails that always have rows hand over as many as the rate says, together, and none of
// them starves.
func TestRate(t *testing.T) {
	t.Parallel()
	for _, perSecond := range []int64{1, 7, 1000, 100_000} {
		synctest.Test(t, func(t *testing.T) {
			const shards, seconds = 8, 20
			r := NewRate(perSecond)
			taken := [shards]int{}
			var all sync.WaitGroup
			for i := range taken {
				all.Go(func() {
					for end := time.Now().Add(seconds * time.Second); time.Now().Before(end); {
						page := r.page(2000)
						taken[i] += r.admit(page, false)
						// As a statement.
						time.Sleep(r.wait() + time.Duration(i+1)*time.Millisecond)
					}
				})
			}
			all.Wait()
			sum := 0
			for i, n := range taken {
				sum += n
				if n == 0 && perSecond > shards {
					t.Errorf("%d rows a second: shard %d has none", perSecond, i)
				}
			}
			most := float64(perSecond)*(seconds+0.1) + r.burst()
			if float64(sum) > most || float64(sum) < 0.8*float64(perSecond)*seconds {
				t.Errorf("%d rows a second: %d in %d s: %v", perSecond, sum, seconds, taken)
			}
		})
	}
}

// TestRateOfLateRows: late rows pass while tails take all that there is, the sum stays within the
// rate, and what was not used is given back.
func TestRateOfLateRows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const perSecond = 100
		r := NewRate(perSecond)
		late, tail := 0, 0
		for range 100 {
			tail += r.admit(2000, false)
			late += r.admit(2000, true)
			time.Sleep(100 * time.Millisecond)
		}
		if late < perSecond*9 || tail+late > perSecond*10+50 {
			t.Errorf("in 10 s %d late rows, and %d others", late, tail)
		}
		if n := r.admit(1, false); n != 0 {
			t.Error("a tail does not wait for the debt")
		}
		r.put(1000)
		if n := r.admit(1000, false); n != perSecond/4 {
			t.Errorf("%d rows pass after others were given back", n)
		}
		r.Set(0)
		if n := r.admit(5000, false); n != 5000 || r.wait() != 0 || r.page(7) != 7 {
			t.Errorf("%d rows pass without a limit", n)
		}
		r.Set(10)
		if n := r.admit(5000, false); n > 3 {
			t.Errorf("%d rows pass at once with a lower limit", n)
		}
	})
}
