package ledger_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"bridge/source/ledger"
)

var base = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func at(d time.Duration) ledger.Age { return ledger.Age{Now: base.Add(d), Steady: base.Add(d)} }

func TestWindow(t *testing.T) {
	const size = time.Second
	t.Run("a row is stable once CREATED is older than the window", func(t *testing.T) {
		w := ledger.NewWindow(size)
		w.See(5, base)
		created := base.Add(-900 * time.Millisecond)
		if w.Stable(5, created, time.Microsecond, at(0)) {
			t.Error("stable after 0.9 s")
		}
		if !w.Stable(5, created, time.Microsecond, at(101*time.Millisecond)) {
			t.Error("not stable after 1.001 s")
		}
	})
	t.Run("a second-precision CREATED does not shrink the window", func(t *testing.T) {
		w := ledger.NewWindow(size)
		// The row was written at 12:00:00.999 and says 12:00:00.
		w.See(5, base.Add(999*time.Millisecond))
		if w.Stable(5, base, time.Second, at(1100*time.Millisecond)) {
			t.Error("stable 101 ms after it was written")
		}
		if !w.Stable(5, base, time.Second, at(2*time.Second)) {
			t.Error("not stable when every row of that second is a window old")
		}
	})
	t.Run("a CREATED from a clock that is ahead delays by the window at most", func(t *testing.T) {
		w := ledger.NewWindow(size)
		w.See(5, base)
		created := base.Add(8 * time.Hour)
		if w.Stable(5, created, 0, at(999*time.Millisecond)) {
			t.Error("stable before the window passed since it was first seen")
		}
		if !w.Stable(5, created, 0, at(time.Second)) {
			t.Error("not stable although it was first seen a window ago")
		}
	})
	t.Run("a row without CREATED counts from when an id as high was first seen", func(t *testing.T) {
		w := ledger.NewWindow(size)
		w.See(100, base)
		w.See(200, base.Add(700*time.Millisecond))
		if !w.Stable(100, time.Time{}, 0, at(time.Second)) || !w.Stable(7, time.Time{}, 0, at(time.Second)) {
			t.Error("ids up to 100 were seen a window ago")
		}
		if w.Stable(101, time.Time{}, 0, at(1600*time.Millisecond)) {
			t.Error("id 101 was first seen 0.9 s ago")
		}
		if !w.Stable(101, time.Time{}, 0, at(1700*time.Millisecond)) {
			t.Error("id 101 was first seen a window ago")
		}
	})
	t.Run("a window of zero lets everything pass", func(t *testing.T) {
		if !ledger.NewWindow(0).Stable(1, base.Add(time.Hour), time.Second, at(0)) {
			t.Error("not stable")
		}
	})
	t.Run("an id that was never seen is not stable", func(t *testing.T) {
		if ledger.NewWindow(size).Stable(1, time.Time{}, 0, at(time.Hour)) {
			t.Error("stable")
		}
	})
}

// TestWindowAgainstModel polls at random moments and compares with a model that remembers when each
// id was first seen.
func TestWindowAgainstModel(t *testing.T) {
	const size = 800 * time.Millisecond
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		w := ledger.NewWindow(size)
		firstSeen := map[uint64]time.Time{}
		now, top := base, uint64(0)
		for range 300 {
			now = now.Add(time.Duration(rng.IntN(int(size) / 3)))
			grown := top + uint64(rng.IntN(4))
			for id := top + 1; id <= grown; id++ {
				firstSeen[id] = now
			}
			top = grown
			w.See(top, now)
			for id := max(1, top-min(top, 20)); id <= top; id++ {
				age := now.Sub(firstSeen[id])
				got := w.Stable(id, time.Time{}, 0, ledger.Age{Now: now, Steady: now})
				if got && age < size {
					t.Fatalf("id %d stable at the age of %s", id, age)
				}
				if !got && age >= size+size/16 {
					t.Fatalf("id %d not stable at the age of %s", id, age)
				}
			}
		}
	}
}

func TestSteady(t *testing.T) {
	step := func(c *ledger.Steady, database, host time.Duration) time.Duration {
		return c.Tick(base.Add(database), base.Add(host), base.Add(host)).Sub(base)
	}
	t.Run("it follows the database", func(t *testing.T) {
		var c ledger.Steady
		step(&c, 0, 0)
		if got := step(&c, 900*time.Millisecond, time.Second); got != 900*time.Millisecond {
			t.Errorf("got %s", got)
		}
	})
	t.Run("a database that steps ahead makes no time pass that did not", func(t *testing.T) {
		var c ledger.Steady
		step(&c, 0, 0)
		if got := step(&c, time.Hour, time.Second); got != time.Second {
			t.Errorf("got %s", got)
		}
	})
	t.Run("a database that steps back stands still and then goes on", func(t *testing.T) {
		var c ledger.Steady
		step(&c, 0, 0)
		if got := step(&c, -5*time.Second, time.Second); got != 0 {
			t.Errorf("ran back to %s", got)
		}
		if got := step(&c, -4*time.Second, 2*time.Second); got != time.Second {
			t.Errorf("got %s", got)
		}
	})
	t.Run("reads of different lengths lose no time", func(t *testing.T) {
		var c ledger.Steady
		var now, got time.Duration
		for i := range 1000 {
			asked := now
			clock := asked + time.Millisecond
			now = clock + time.Duration(i%7)*40*time.Millisecond
			got = c.Tick(base.Add(clock), base.Add(asked), base.Add(now)).Sub(base)
			if got != clock {
				t.Fatalf("read %d: got %s, the database says %s", i, got, clock)
			}
		}
	})
	t.Run("a database that runs ahead gains no more than a read takes", func(t *testing.T) {
		var c ledger.Steady
		c.Tick(base, base, base.Add(time.Second))
		if got := c.Tick(base.Add(time.Hour), base.Add(time.Second), base.Add(2*time.Second)).Sub(base); got != 2*time.Second {
			t.Errorf("got %s", got)
		}
	})
}
