package shard

import (
	"math"
	"testing"
	"time"
)

// TestTotalOfAStream adds up what its tables show.
func TestTotalOfAStream(t *testing.T) {
	at := time.UnixMilli(1_700_000_000_500)
	all := []Status{
		{State: Running, Position: 5, OpenGaps: 1, Lag: 2 * time.Second, LagKnown: true, LastPoll: at, Gaps: Gaps{Hot: 1, Cold: 10, InFlight: 1, Unpolled: 4, Bytes: 100, OldestAge: time.Minute}},
		{State: Waiting, Position: 6, OpenGaps: 2, LastPoll: at.Add(-time.Minute), Gaps: Gaps{Hot: 2, Cold: 20, InFlight: 2, Unpolled: 5, Bytes: 300, OldestAge: time.Second}},
		{State: Running, Position: 7, Lag: time.Second, LagKnown: true, LastPoll: at},
		{State: Stopped, Position: 8, LastPoll: at.Add(-time.Hour)},
	}
	sum := newTotal()
	for i := range all {
		sum.add(&all[i])
	}
	got := [...]float64{sum.lag, sum.poll, sum.position, sum.gaps, sum.hot, sum.cold, sum.unpolled, sum.flight, sum.gapAge, sum.memory,
		float64(sum.states[Running]), float64(sum.states[Waiting]), float64(sum.states[Stopped]), float64(sum.states[Starting])}
	want := [...]float64{2, 1_700_000_000.5 - 60, 26, 3, 3, 30, 9, 3, 60, 300, 2, 1, 1, 0}
	if got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	t.Run("that was not read, or whose lag nobody knows", func(t *testing.T) {
		sum := newTotal()
		sum.add(&all[0])
		sum.add(&Status{State: Starting})
		if sum.poll != 0 || sum.lag != 2 {
			t.Errorf("read at %v, lag %v", sum.poll, sum.lag)
		}
		if sum = newTotal(); !math.IsNaN(sum.poll) || !math.IsNaN(sum.lag) {
			t.Errorf("nothing is read at %v, lag %v", sum.poll, sum.lag)
		}
		if sum.add(&all[3]); !math.IsNaN(sum.poll) || !math.IsNaN(sum.lag) {
			t.Errorf("a stopped table alone is read at %v, lag %v", sum.poll, sum.lag)
		}
	})
}
