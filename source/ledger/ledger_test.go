package ledger_test

import (
	"slices"
	"testing"
	"time"

	"example.org/bridge/source"
	"example.org/bridge/source/ledger"
)

func mustLedger(t testing.TB, opts ledger.Options, position uint64) *ledger.Ledger {
	t.Helper()
	l, err := ledger.New(opts, position)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func after(d time.Duration) time.Time { return base.Add(d) }

// pollWith is one poll in which the evidence shows these ids. It returns the probe.
func pollWith(l *ledger.Ledger, now time.Time, exist ...uint64) ledger.Probe {
	probe := l.Hot(now)
	l.Observe(ledger.Evidence{Ranges: probe.IDs, IDs: exist, Now: now})
	return probe
}

// sweep reads all cold ids and returns those whose polling ended.
func sweep(l *ledger.Ledger, now time.Time, exist ...uint64) (given []ledger.Unpolled) {
	for {
		ranges := l.Sweep(now)
		if len(ranges) == 0 {
			return given
		}
		given = append(given, l.Swept(ledger.Evidence{Ranges: ranges, IDs: exist, Now: now})...)
	}
}

func ranges(ends ...uint64) (list []source.Range) {
	for i := 0; i < len(ends); i += 2 {
		list = append(list, source.Range{First: ends[i], Last: ends[i+1]})
	}
	return list
}

func TestLedger(t *testing.T) {
	t.Run("a vacant id is hot, then cold, then no longer polled, and missing for ever", func(t *testing.T) {
		l := mustLedger(t, ledger.Options{HotFor: time.Minute, GapTTL: time.Hour}, 0)
		l.Advance(3, []uint64{1, 3}, base)
		if probe := pollWith(l, after(59*time.Second)); !slices.Equal(probe.Rows, ranges(2, 2)) {
			t.Errorf("after 59 s reads %+v", probe)
		}
		if probe := pollWith(l, after(61*time.Second)); len(probe.IDs) > 0 {
			t.Errorf("after 61 s still reads %+v at every poll", probe)
		}
		if s := l.Stats(after(61 * time.Second)); s.Cold != 1 || s.Hot != 0 || !s.Oldest.Equal(base) || s.Ranges != 1 {
			t.Errorf("%+v", s)
		}
		if got := l.Sweep(after(62 * time.Second)); !slices.Equal(got, ranges(2, 2)) {
			t.Errorf("sweeps %v", got)
		}
		if given := sweep(l, after(62*time.Second)); len(given) > 0 {
			t.Errorf("no longer polled: %v", given)
		}
		if got := l.Sweep(after(121 * time.Second)); got != nil {
			t.Errorf("sweeps %v again within a minute", got)
		}
		given := sweep(l, after(time.Hour))
		if len(given) != 1 || given[0] != (ledger.Unpolled{Range: source.Range{First: 1, Last: 2}, IDs: 1, Missed: base}) {
			t.Errorf("no longer polled: %+v", given)
		}
		now := after(48 * time.Hour)
		if probe := l.Hot(now); len(probe.Rows)+len(probe.IDs)+len(l.Sweep(now)) > 0 || !l.Missing(2) {
			t.Errorf("reads %+v, 2 is missing: %t", probe, l.Missing(2))
		}
		if s := l.Stats(now); s.Hot+s.Cold != 0 || s.Unpolled != 1 || s.Ranges != 0 || !s.Oldest.IsZero() {
			t.Errorf("%+v", s)
		}
		if l.Changed(); l.Open() {
			t.Error("costs polls though nothing is polled")
		}
		if !l.Fill(2, now) || l.Missing(2) {
			t.Error("a reconcile that finds its row cannot publish it")
		}
	})
	t.Run("a pending id stays hot", func(t *testing.T) {
		l := mustLedger(t, ledger.Options{HotFor: time.Minute, GapTTL: time.Second}, 0)
		l.Advance(4, []uint64{1, 4}, base)
		for now := time.Duration(0); now < 3*time.Hour; now += 10 * time.Second {
			if probe := pollWith(l, after(now), 2); !slices.Contains(probe.Rows, source.Range{First: 2, Last: 2}) && !slices.Equal(probe.Rows, ranges(2, 3)) {
				t.Fatalf("after %s reads %+v", now, probe)
			}
			sweep(l, after(now), 2)
		}
		if s := l.Stats(after(3 * time.Hour)); s.Unpolled != 1 || s.Pending != 1 || s.Hot != 1 || s.Cold != 0 {
			t.Errorf("want 2 pending and 3 no longer polled: %+v", s)
		}
		now := after(3 * time.Hour)
		if got := l.Pending(time.Minute, 0, now); len(got) != 1 || got[0] != (ledger.Pending{Range: source.Range{First: 2, Last: 2}, Since: base}) {
			t.Errorf("pending: %+v", got)
		}
		pollWith(l, now)
		if got := l.Pending(0, 0, now); len(got) > 0 {
			t.Errorf("%+v is pending after the rollback", got)
		}
		if probe := pollWith(l, now.Add(49*time.Second)); !slices.Equal(probe.Rows, ranges(2, 2)) {
			t.Errorf("within the hot time after the rollback reads %+v", probe)
		}
		pollWith(l, now.Add(2*time.Minute))
		sweep(l, now.Add(3*time.Minute))
		if s := l.Stats(now.Add(3 * time.Minute)); s.Unpolled != 2 {
			t.Errorf("2 stays polled after its rollback: %+v", s)
		}
	})
	t.Run("a row that is too young is not pending", func(t *testing.T) {
		l := mustLedger(t, ledger.Options{}, 0)
		l.Advance(3, []uint64{3}, base)
		probe := l.Hot(base)
		l.Young(1)
		l.Observe(ledger.Evidence{Ranges: probe.IDs, IDs: []uint64{1, 2}, Now: base})
		if s := l.Stats(base); s.Pending != 1 || s.Hot != 2 {
			t.Errorf("%+v", s)
		}
	})
	t.Run("Low passes an id that is given up, and never one that is pending", func(t *testing.T) {
		l := mustLedger(t, ledger.Options{}, 10)
		l.Advance(20, []uint64{11, 13, 15, 16, 17, 18, 19, 20}, base)
		if got := l.Low(); got != 12 {
			t.Errorf("Low is %d, want 12", got)
		}
		for day := range 3 {
			now := after(time.Duration(day) * 24 * time.Hour)
			pollWith(l, now, 14)
			sweep(l, now, 14)
		}
		if got := l.Low(); got != 14 {
			t.Errorf("Low is %d, want 14", got)
		}
		l.Fill(14, after(5*24*time.Hour))
		if got, again := l.Low(), mustRestore(t, ledger.Options{}, l.Position(), l.All()).Low(); got != 21 || again != 21 {
			t.Errorf("Low is %d, and %d when it is restored, want 21", got, again)
		}
	})
	t.Run("the holes of a backlog grow old together", func(t *testing.T) {
		l := mustLedger(t, ledger.Options{}, 0)
		l.See(1000, base)
		l.Advance(500, []uint64{500}, after(time.Minute))
		if probe := pollWith(l, after(time.Minute)); !slices.Equal(probe.IDs, ranges(1, 499)) {
			t.Errorf("before any evidence it reads %+v", probe)
		}
		if probe := pollWith(l, after(time.Minute)); len(probe.IDs) > 0 {
			t.Errorf("known for a minute and vacant, yet reads %+v", probe)
		}
	})
	t.Run("the last id of all is an id like others", func(t *testing.T) {
		const last = 1<<64 - 1
		l := mustLedger(t, ledger.Options{}, last-3)
		l.Advance(last, []uint64{last - 1}, base)
		if probe := pollWith(l, base, last); !slices.Equal(probe.Rows, ranges(last-2, last-2, last, last)) {
			t.Errorf("reads %+v", probe)
		}
		pollWith(l, after(2*time.Minute))
		sweep(l, after(2*time.Minute))
		if !l.Fill(last, base) || len(l.Gaps(0)) != 1 {
			t.Errorf("gaps %+v", l.Gaps(0))
		}
	})
}

func TestLedgerOptions(t *testing.T) {
	for name, opts := range map[string]ledger.Options{
		"hold with blocks": {Policy: ledger.GapHold, Order: source.OrderSegmented},
		"no order":         {Order: source.OrderNone},
	} {
		if _, err := ledger.New(opts, 0); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

func TestArriving(t *testing.T) {
	const last = 10_000
	var all []uint64
	for id := range uint64(last) {
		all = append(all, id+1)
	}
	for name, appear := range map[string]func(l *ledger.Ledger){
		"until the evidence shows ids of which no row has appeared": func(l *ledger.Ledger) {
			l.Appeared(1)
			if !l.Arriving() {
				t.Fatal("not arriving though a row has appeared")
			}
			l.Fill(1, base)
			for range 2 {
				pollWith(l, base, all[1:]...)
			}
			if s := l.Stats(base); s.Pending != last-1 {
				t.Errorf("%+v", s)
			}
		},
		"until no id is missing": func(l *ledger.Ledger) {
			for _, id := range all {
				l.Appeared(id)
				l.Fill(id, base)
			}
		},
	} {
		t.Run("rows arrive "+name, func(t *testing.T) {
			l := mustLedger(t, ledger.Options{}, 0)
			l.Advance(last+1, []uint64{last + 1}, base)
			pollWith(l, base, all...)
			if appear(l); l.Arriving() {
				t.Error("still arriving")
			}
		})
	}
}

func TestLedgerHolds(t *testing.T) {
	hold := ledger.Options{Policy: ledger.GapHold, HotFor: time.Minute}
	page := []uint64{1, 2, 5, 9}
	poll := func(l *ledger.Ledger, d time.Duration, exist ...uint64) uint64 {
		l.See(9, after(d))
		l.Notice(page, after(d))
		pollWith(l, after(d), exist...)
		return l.Reach(9, after(d))
	}
	t.Run("at a gap until its hot time has passed", func(t *testing.T) {
		l := mustLedger(t, hold, 0)
		if got := poll(l, 0); got != 2 {
			t.Errorf("reaches %d, want 2", got)
		}
		l.Advance(2, []uint64{1, 2}, base)
		if got := poll(l, 59*time.Second, 7); got != 2 {
			t.Errorf("reaches %d, want 2", got)
		}
		if got := poll(l, time.Minute, 7); got != 5 {
			t.Errorf("reaches %d, want 5: 7 is pending", got)
		}
		if got := poll(l, 90*time.Second); got != 5 {
			t.Errorf("reaches %d, want 5: 7 was pending half a minute ago", got)
		}
		if got := poll(l, 2*time.Minute); got != 9 {
			t.Errorf("reaches %d, want 9", got)
		}
	})
	t.Run("no longer at a small gap below a wide one", func(t *testing.T) {
		l := mustLedger(t, hold, 10)
		wide := []uint64{12, 3_000_000}
		for _, c := range []struct {
			at   time.Duration
			want uint64
		}{{0, 10}, {59 * time.Second, 10}, {61 * time.Second, 3_000_000}} {
			l.See(3_000_000, after(c.at))
			l.Notice(wide, after(c.at))
			pollWith(l, after(c.at))
			if got := l.Reach(3_000_000, after(c.at)); got != c.want {
				t.Errorf("after %s it reaches %d, want %d", c.at, got, c.want)
			}
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
}
