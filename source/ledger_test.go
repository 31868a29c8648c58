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

func TestLedgerHolds(t *testing.T) {
	hold := source.LedgerOptions{Policy: source.GapHold, HotFor: time.Minute}
	page := []uint64{1, 2, 5, 9}
	poll := func(l *source.Ledger, d time.Duration, exist ...uint64) uint64 {
		l.See(9, after(d))
		l.Notice(page, after(d))
		look(l, after(d), exist...)
		return l.Reach(9, after(d))
	}
	t.Run("at a gap until its hot time has passed", func(t *testing.T) {
		l := mustLedger(t, hold, 0)
		if got := poll(l, 0); got != 2 {
			t.Errorf("reaches %d, want 2", got)
		}
		l.Pass(2, []uint64{1, 2}, base)
		if got := poll(l, 59*time.Second, 7); got != 2 {
			t.Errorf("reaches %d, want 2", got)
		}
		if got := poll(l, time.Minute, 7); got != 5 {
			t.Errorf("reaches %d, want 5: 7 is in flight", got)
		}
		if got := poll(l, 90*time.Second); got != 5 {
			t.Errorf("reaches %d, want 5: 7 was in flight half a minute ago", got)
		}
		if got := poll(l, 2*time.Minute); got != 9 {
			t.Errorf("reaches %d, want 9", got)
		}
	})
	t.Run("not without an evidence that is newer than the page", func(t *testing.T) {
		l := mustLedger(t, hold, 0)
		poll(l, 0)
		poll(l, time.Hour)
		l.Notice(page, after(time.Hour))
		if got := l.Reach(9, after(time.Hour)); got != 2 {
			t.Errorf("reaches %d by an evidence from before the page", got)
		}
	})
	t.Run("until the gap is filled", func(t *testing.T) {
		l := mustLedger(t, hold, 0)
		poll(l, 0, 3, 4, 6, 7, 8)
		l.Notice([]uint64{1, 2, 3, 4, 5, 9}, after(time.Second))
		look(l, after(time.Second), 6, 7, 8)
		if got := l.Reach(9, after(time.Second)); got != 5 {
			t.Errorf("reaches %d, want 5", got)
		}
		if l.Fill(6, after(time.Second)) || l.Missing(6) {
			t.Error("what lies behind the position is no late record")
		}
	})
	t.Run("historic holes together", func(t *testing.T) {
		l := mustLedger(t, hold, 0)
		l.See(100_000, base)
		waits := 0
		now := time.Duration(0)
		for l.Position() < 100_000 {
			var ids []uint64
			for id := l.Position() + 2; len(ids) < 1000 && id <= 100_000; id += 2 {
				ids = append(ids, id)
			}
			l.Notice(ids, after(now))
			look(l, after(now))
			reach := l.Reach(ids[len(ids)-1], after(now))
			if reach <= l.Position() {
				waits++
				now += time.Second
				continue
			}
			l.Pass(reach, ids, after(now))
		}
		if waits > 61 {
			t.Errorf("waits for %d s", waits)
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

func TestAFullLedgerGivesUpTheOldest(t *testing.T) {
	l := mustLedger(t, source.LedgerOptions{MaxBytes: 64 << 10}, 0)
	var given []source.GivenUp
	inFlight := []uint64{1, 101}
	for i := uint64(0); i < 2000; i++ {
		now := after(time.Duration(i) * time.Second)
		var published []uint64
		for id := 100*i + 2; id <= 100*(i+1); id += 2 {
			published = append(published, id)
		}
		given = append(given, l.Pass(100*(i+1), published, now)...)
		look(l, now, inFlight...)
	}
	s := l.Stats(after(time.Hour))
	if s.Bytes > 64<<10 || len(given) == 0 || s.Ranges+len(given) != 100_000 {
		t.Errorf("%+v after %d were given up", s, len(given))
	}
	for i, g := range given {
		if g.Reason != source.ReasonOverflow || i > 0 && g.First <= given[i-1].Last {
			t.Fatalf("%+v is given up after %+v", g, given[i-1])
		}
	}
	if lowest := l.Gaps(3)[2]; lowest.First < given[len(given)-1].Last {
		t.Errorf("%+v is given up before %+v", given[len(given)-1], lowest)
	}
	for _, id := range inFlight {
		if !l.Missing(id) {
			t.Errorf("%d is given up while it is in flight", id)
		}
	}
}

func TestACutReadIsContinued(t *testing.T) {
	l := mustLedger(t, source.LedgerOptions{}, 0)
	l.Pass(1001, []uint64{1001}, base)
	all := make([]uint64, 1000)
	for i := range all {
		all[i] = uint64(i + 1)
	}
	for id := uint64(0); id < 1000; id += 100 {
		probe := l.Hot(base)
		if probe.IDs[0].First != id+1 {
			t.Fatalf("after a cut at %d reads from %d", id, probe.IDs[0].First)
		}
		l.Judge(source.Evidence{Ranges: source.Clip(probe.IDs, id+100), IDs: all[:id+100], Now: base})
	}
	if s := l.Stats(base); s.InFlight != 1000 {
		t.Errorf("%+v", s)
	}
	l.CutOff(400)
	if probe := l.Hot(base); probe.Rows[0].First != 401 {
		t.Errorf("after a cut of the rows at 400 looks for %+v", probe.Rows)
	}
	if probe := l.Hot(base); probe.Rows[0].First != 1 || probe.IDs[0].First != 1 {
		t.Errorf("after a whole read looks for %+v", probe)
	}
}

// TestLateRecordsComeWithinTwoPolls measures from commit to publication under the load of the property test.
func TestLateRecordsComeWithinTwoPolls(t *testing.T) {
	const every = 100 * time.Millisecond
	for _, order := range []source.IDOrder{source.OrderStrict, source.OrderSegmented} {
		t.Run(string(order), func(t *testing.T) {
			w := newTable(newRand(1))
			o := newOwner(w, source.LedgerOptions{Order: order, GapTTL: time.Hour})
			o.limit = 20_000
			for range 2000 {
				for range 3 {
					w.begin()
					w.pass(every / 3)
				}
				o.poll()
				o.ack(10)
			}
			var delays []time.Duration
			for id, at := range o.late {
				delays = append(delays, at.Sub(w.commits[id]))
			}
			slices.Sort(delays)
			p99, last := delays[len(delays)*99/100], delays[len(delays)-1]
			if len(delays) < 500 || p99 > 2*every {
				t.Errorf("of %d late records p99 came after %s, the last after %s", len(delays), p99, last)
			}
			if o.queries > 2*2000 {
				t.Errorf("%d queries in 2000 polls", o.queries)
			}
		})
	}
}
