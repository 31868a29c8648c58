package source_test

import (
	"slices"
	"testing"
	"time"

	"bridge/source"
)

func mustLedger(t testing.TB, opts source.LedgerOptions, position uint64) *source.Ledger {
	t.Helper()
	l, err := source.NewLedger(opts, position)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// after is the moment so long after the base of all tests.
func after(d time.Duration) time.Time { return base.Add(d) }

// look is one poll in which the evidence shows these ids. It returns what was looked for.
func look(l *source.Ledger, now time.Time, exist ...uint64) source.Probe {
	probe := l.Hot(now)
	l.Judge(source.Evidence{Ranges: probe.IDs, IDs: exist, Now: now})
	return probe
}

// sweep looks for all cold ids and returns what was given up.
func sweep(l *source.Ledger, now time.Time, exist ...uint64) (given []source.GivenUp) {
	for {
		ranges := l.Sweep(now)
		if len(ranges) == 0 {
			return given
		}
		given = append(given, l.Swept(source.Evidence{Ranges: ranges, IDs: exist, Now: now})...)
	}
}

func ranges(ends ...uint64) (list []source.Range) {
	for i := 0; i < len(ends); i += 2 {
		list = append(list, source.Range{First: ends[i], Last: ends[i+1]})
	}
	return list
}

func TestLedger(t *testing.T) {
	t.Run("what the position passes and is not published is missing", func(t *testing.T) {
		l := mustLedger(t, source.LedgerOptions{}, 10)
		l.Pass(20, []uint64{11, 12, 15, 20}, base)
		if probe := l.Hot(base); !slices.Equal(probe.Rows, ranges(13, 14, 16, 19)) || !slices.Equal(probe.IDs, probe.Rows) {
			t.Errorf("looks for %+v", probe)
		}
		for id := uint64(9); id < 23; id++ {
			if want := slices.Contains([]uint64{13, 14, 16, 17, 18, 19}, id); l.Missing(id) != want {
				t.Errorf("Missing(%d) = %t", id, !want)
			}
		}
		if !l.Fill(17, base) || l.Fill(17, base) || l.Fill(12, base) || l.Fill(25, base) {
			t.Error("Fill does not tell a missing id from others")
		}
		if l.Pass(15, nil, base); l.Position() != 20 || l.Missing(12) {
			t.Error("the position went back")
		}
	})
	t.Run("a page without holes costs no query", func(t *testing.T) {
		l := mustLedger(t, source.LedgerOptions{}, 0)
		l.Pass(3, []uint64{1, 2, 3}, base)
		if probe := l.Hot(base); len(probe.Rows)+len(probe.IDs)+len(l.Sweep(base)) > 0 {
			t.Errorf("looks for %+v", probe)
		}
	})
	t.Run("a vacant id is hot, then cold, then given up", func(t *testing.T) {
		l := mustLedger(t, source.LedgerOptions{HotFor: time.Minute, GapTTL: time.Hour}, 0)
		l.Pass(3, []uint64{1, 3}, base)
		if probe := look(l, after(59*time.Second)); !slices.Equal(probe.Rows, ranges(2, 2)) {
			t.Errorf("after 59 s looks for %+v", probe)
		}
		if probe := look(l, after(61*time.Second)); len(probe.IDs) > 0 {
			t.Errorf("after 61 s still looks for %+v at every poll", probe)
		}
		if s := l.Stats(after(61 * time.Second)); s.Cold != 1 || s.Hot != 0 || !s.Oldest.Equal(base) || s.Ranges != 1 {
			t.Errorf("%+v", s)
		}
		if got := l.Sweep(after(62 * time.Second)); !slices.Equal(got, ranges(2, 2)) {
			t.Errorf("sweeps %v", got)
		}
		if given := sweep(l, after(62*time.Second)); len(given) > 0 {
			t.Errorf("%v is given up", given)
		}
		if got := l.Sweep(after(121 * time.Second)); got != nil {
			t.Errorf("sweeps %v again within a minute", got)
		}
		given := sweep(l, after(time.Hour))
		if len(given) != 1 || given[0] != (source.GivenUp{Range: source.Range{First: 2, Last: 2}, Missed: base, Reason: source.ReasonTTL}) {
			t.Errorf("given up: %+v", given)
		}
		if l.Missing(2) {
			t.Error("2 is given up and still missing")
		}
	})
	t.Run("time alone gives nothing up: the evidence does", func(t *testing.T) {
		l := mustLedger(t, source.LedgerOptions{GapTTL: time.Millisecond}, 0)
		l.Pass(3, []uint64{3}, base)
		if given := sweep(l, after(time.Hour), 1, 2); len(given) > 0 {
			t.Errorf("%+v is given up while rows with it exist", given)
		}
	})
	t.Run("an id in flight stays hot for as long as it is", func(t *testing.T) {
		l := mustLedger(t, source.LedgerOptions{HotFor: time.Minute, GapTTL: time.Second}, 0)
		l.Pass(4, []uint64{1, 4}, base)
		for now := time.Duration(0); now < 3*time.Hour; now += 10 * time.Second {
			if probe := look(l, after(now), 2); !slices.Contains(probe.Rows, source.Range{First: 2, Last: 2}) && !slices.Equal(probe.Rows, ranges(2, 3)) {
				t.Fatalf("after %s looks for %+v", now, probe)
			}
			sweep(l, after(now), 2)
		}
		if l.Missing(3) || !l.Missing(2) {
			t.Error("want 2 in flight and 3 given up")
		}
		now := after(3 * time.Hour)
		if got := l.InFlight(time.Minute, 0, now); len(got) != 1 || got[0] != (source.Flight{Range: source.Range{First: 2, Last: 2}, Since: base}) {
			t.Errorf("in flight: %+v", got)
		}
		look(l, now)
		if got := l.InFlight(0, 0, now); len(got) > 0 {
			t.Errorf("%+v is in flight after the rollback", got)
		}
		if probe := look(l, now.Add(49*time.Second)); !slices.Equal(probe.Rows, ranges(2, 2)) {
			t.Errorf("within the hot time after the rollback looks for %+v", probe)
		}
		look(l, now.Add(2*time.Minute))
		if sweep(l, now.Add(3*time.Minute)); l.Missing(2) {
			t.Error("2 is never given up after its rollback")
		}
	})
	t.Run("a record held back for its age is not in flight", func(t *testing.T) {
		l := mustLedger(t, source.LedgerOptions{}, 0)
		l.Pass(3, []uint64{3}, base)
		probe := l.Hot(base)
		l.Young(1)
		l.Judge(source.Evidence{Ranges: probe.IDs, IDs: []uint64{1, 2}, Now: base})
		if s := l.Stats(base); s.InFlight != 1 || s.Hot != 2 {
			t.Errorf("%+v", s)
		}
	})
	t.Run("a cold id that turns up is hot again", func(t *testing.T) {
		l := mustLedger(t, source.LedgerOptions{}, 0)
		l.Pass(9, []uint64{9}, base)
		look(l, after(2*time.Minute))
		if sweep(l, after(2*time.Minute), 5); !slices.Equal(l.Hot(after(2*time.Minute)).Rows, ranges(5, 5)) {
			t.Errorf("looks for %+v", l.Hot(after(2*time.Minute)))
		}
	})
	t.Run("the holes of a backlog grow old together", func(t *testing.T) {
		l := mustLedger(t, source.LedgerOptions{}, 0)
		l.See(1000, base)
		l.Pass(500, []uint64{500}, after(time.Minute))
		if probe := look(l, after(time.Minute)); !slices.Equal(probe.IDs, ranges(1, 499)) {
			t.Errorf("never judged, yet looks for %+v", probe)
		}
		if probe := look(l, after(time.Minute)); len(probe.IDs) > 0 {
			t.Errorf("known for a minute and vacant, yet looks for %+v", probe)
		}
	})
	t.Run("a start in the middle watches what is uncommitted below it", func(t *testing.T) {
		l := mustLedger(t, source.LedgerOptions{}, 900)
		l.Pass(1000, append(make([]uint64, 0), 901, 902, 903, 1000), base)
		look(l, base, 950)
		if !l.Missing(950) || l.Missing(902) || l.Missing(900) || l.Stats(base).InFlight != 1 {
			t.Error("want all of 904 to 999 missing and 950 in flight")
		}
	})
	t.Run("the last id of all is an id like others", func(t *testing.T) {
		const last = 1<<64 - 1
		l := mustLedger(t, source.LedgerOptions{}, last-3)
		l.Pass(last, []uint64{last - 1}, base)
		if probe := look(l, base, last); !slices.Equal(probe.Rows, ranges(last-2, last-2, last, last)) {
			t.Errorf("looks for %+v", probe)
		}
		look(l, after(2*time.Minute))
		sweep(l, after(2*time.Minute))
		if !l.Fill(last, base) || len(l.Gaps(0)) != 1 {
			t.Errorf("gaps %+v", l.Gaps(0))
		}
	})
}

func TestLedgerOfBlocks(t *testing.T) {
	l := mustLedger(t, source.LedgerOptions{Order: source.OrderSegmented, HotFor: time.Minute, GapTTL: 24 * time.Hour}, 0)
	l.Pass(10_000, []uint64{5001, 10_000}, base)
	if probe := look(l, after(20*time.Hour)); !slices.Equal(probe.Rows, ranges(1, 5000, 5002, 9999)) {
		t.Errorf("after 20 h looks for %+v", probe)
	}
	l.Fill(1, after(21*time.Hour))
	if probe := look(l, after(24*time.Hour-time.Second)); !slices.Equal(probe.Rows, ranges(2, 5000, 5002, 9999)) {
		t.Errorf("after 24 h looks for %+v", probe)
	}
	look(l, after(25*time.Hour))
	if given := sweep(l, after(25*time.Hour)); len(given) != 2 {
		t.Errorf("given up: %+v", given)
	}
}

func TestLedgerOptions(t *testing.T) {
	for name, opts := range map[string]source.LedgerOptions{
		"hold with blocks":   {Policy: source.GapHold, Order: source.OrderSegmented},
		"no order":           {Order: source.OrderNone},
		"an unknown order":   {Order: "random"},
		"an unknown policy":  {Policy: "drop"},
		"a negative TTL":     {GapTTL: -1},
		"a negative hotness": {HotFor: -1},
	} {
		if _, err := source.NewLedger(opts, 0); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}
