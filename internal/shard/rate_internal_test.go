package shard

import (
	"testing"
	"testing/synctest"
	"time"
)

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
