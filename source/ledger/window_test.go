package ledger_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"example.org/bridge/source/ledger"
)

var base = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestWindow(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name string
		// seen is when ids up to 100 were seen first, 200 half a second later.
		size, seen time.Duration
		id         uint64
		created    time.Time
		resolution time.Duration
		// The row is stable at this time, and not a millisecond before; none says never.
		at time.Duration
	}{
		{"once CREATED is older than the window", time.Second, 0, 5, base.Add(-900 * ms), 0, 100 * ms},
		{"once every row of the second that CREATED names is", time.Second, 5 * time.Second, 5, base, time.Second, 2 * time.Second},
		{"a window after it was seen where the clock of CREATED is ahead", time.Second, 0, 5, base.Add(8 * time.Hour), 0, time.Second},
		{"the same at the end of time", time.Second, 0, 5, time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), time.Second, time.Second},
		{"a window after an id as high was seen, without CREATED", time.Second, 0, 100, time.Time{}, 0, time.Second},
		{"the same, of a lower id", time.Second, 0, 7, time.Time{}, 0, time.Second},
		{"the same, of a higher id", time.Second, 0, 101, time.Time{}, 0, 1500 * ms},
		{"at once with a window of zero", 0, 0, 100, base.Add(time.Hour), time.Second, 0},
		{"never where no id as high was seen", time.Second, 0, 201, time.Time{}, 0, none},
	} {
		w := ledger.NewWindow(c.size)
		w.See(100, base.Add(c.seen))
		w.See(200, base.Add(c.seen+500*ms))
		at := func(d time.Duration) ledger.Age { return ledger.Age{Now: base.Add(d), Steady: base.Add(d)} }
		if before := w.Stable(c.id, c.created, c.resolution, at(c.at-ms)); before && c.size > 0 || !w.Stable(c.id, c.created, c.resolution, at(c.at)) && c.at != none {
			t.Errorf("a row is stable %s: a millisecond before %s it is %t", c.name, c.at, before)
		}
	}
}

const none = time.Hour

// TestWindowAgainstModel polls at random moments, some of them often within a window, and compares
// with a model that remembers when each id was first seen.
func TestWindowAgainstModel(t *testing.T) {
	const size = 800 * time.Millisecond
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 100 {
		w, pause := ledger.NewWindow(size), int(size)/[]int{3, 400}[i%2]
		firstSeen := map[uint64]time.Time{}
		now, top := base, uint64(0)
		for range max(300, 6*int(size)/pause) {
			now = now.Add(time.Duration(rng.IntN(pause)))
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
	const ms = time.Millisecond
	// A tick is what the database says between two moments of the host, and what comes of it.
	type tick struct{ database, asked, answered, want time.Duration }
	for name, ticks := range map[string][]tick{
		"it follows the database":                                     {{}, {900 * ms, time.Second, time.Second, 900 * ms}},
		"a database that steps ahead makes no time pass that did not": {{}, {time.Hour, time.Second, time.Second, time.Second}},
		"a database that steps back stands still and then goes on":    {{}, {-5 * time.Second, time.Second, time.Second, 0}, {-4 * time.Second, 2 * time.Second, 2 * time.Second, time.Second}},
		"reads of different lengths lose no time":                     {{10 * ms, 0, 250 * ms, 10 * ms}, {251 * ms, 250 * ms, 252 * ms, 251 * ms}, {253 * ms, 252 * ms, 500 * ms, 253 * ms}},
		"a database that runs ahead gains no more than a read takes":  {{0, 0, time.Second, 0}, {time.Hour, time.Second, 2 * time.Second, 2 * time.Second}},
	} {
		var c ledger.Steady
		for i, tick := range ticks {
			if got := c.Tick(base.Add(tick.database), base.Add(tick.asked), base.Add(tick.answered)).Sub(base); got != tick.want {
				t.Errorf("%s: tick %d is %s, want %s", name, i, got, tick.want)
			}
		}
	}
}

// TestFirstSeenIsSteady: a host's clock that is set changes no age.
func TestFirstSeenIsSteady(t *testing.T) {
	var seen ledger.FirstSeen
	at := time.Now()
	seen.See(5, at)
	seen.See(9, at.Add(time.Hour))
	since := seen.Since(7)
	if !since.Equal(at.Add(time.Hour)) || since == since.Round(0) {
		t.Errorf("first seen at %s, want the steady time %s", since, at.Add(time.Hour))
	}
}
