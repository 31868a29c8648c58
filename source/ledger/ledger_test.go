package ledger_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"example.org/bridge/source"
	"example.org/bridge/source/ledger"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/script"
)

func mustLedger(t testing.TB, opts ledger.Options, position uint64) *ledger.Ledger {
	t.Helper()
	l := must.Get(ledger.New(opts, position))(t)
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

// stage is a ledger on which scripts are played, at a time behind base.
type stage struct {
	script.Player
	l     *ledger.Ledger
	now   time.Duration
	probe ledger.Probe
	given []ledger.Unpolled
	// page is the page of a poll that holds.
	page []uint64
}

func play(t *testing.T, opts ledger.Options, position uint64, steps string) {
	t.Helper()
	s := &stage{Player: script.Player{TB: t}, l: mustLedger(t, opts, position), page: []uint64{1, 2, 5, 9}}
	s.Play(steps, s.do)
}

func text[T any](list []T, of func(T) source.Range) []string {
	var words []string
	for _, one := range list {
		words = append(words, fmt.Sprint(of(one).First, "-", of(one).Last))
	}
	return words
}

func (s *stage) do(name string, w []string) bool {
	s.Helper()
	now, own := after(s.now), func(r source.Range) source.Range { return r }
	top := s.page[len(s.page)-1]
	switch name {
	case "at": // TIME
		s.now = s.Duration(w[0])
	case "later": // TIME
		s.now += s.Duration(w[0])
	case "pass": // POSITION ID...: a page
		s.l.Advance(s.Number(w[0]), s.Numbers(w[1:]), now)
	case "see": // ID
		s.l.See(s.Number(w[0]), now)
	case "poll": // ID... that exist
		s.probe = pollWith(s.l, now, s.Numbers(w)...)
	case "partial": // ID... that a poll shows which may lack some
		s.probe = s.l.Hot(now)
		s.l.Observe(ledger.Evidence{Ranges: s.probe.IDs, IDs: s.Numbers(w), Now: now, Partial: true})
	case "sweep": // ID... that exist
		s.given = sweep(s.l, now, s.Numbers(w)...)
	case "fill": // ID
		s.Want(s.l.Fill(s.Number(w[0]), now), true)
	case "save":
		s.l.Changed()
	case "restore":
		s.l = mustRestore(s.TB, ledger.Options{}, s.l.Position(), s.l.All())
	case "page": // ID...
		s.page = s.Numbers(w)
	case "notice":
		s.l.See(top, now)
		s.l.Notice(s.page, now)
	case "reads": // ID
		s.Want(covers(s.probe.Rows, s.Number(w[0])), true)
	case "rows": // RANGE... that the poll has read
		s.Want(text(s.probe.Rows, own), w)
	case "ids": // RANGE... of which it has asked for evidence
		s.Want(text(s.probe.IDs, own), w)
	case "sweeps": // RANGE...
		s.Want(text(s.l.Sweep(now), own), w)
	case "gives": // RANGE... that the sweep has given up
		s.Want(text(s.given, func(u ledger.Unpolled) source.Range { return u.Range }), w)
	case "pending": // RANGE...
		s.Want(text(s.l.Pending(0, 0, now), func(p ledger.Pending) source.Range { return p.Range }), w)
	case "lasts": // AGE RANGE@TIME...: what is pending for so long, and since when
		var words []string
		for _, one := range s.l.Pending(s.Duration(w[0]), 0, now) {
			words = append(words, fmt.Sprint(one.First, "-", one.Last, "@", one.Since.Sub(base)))
		}
		s.Want(words, w[1:])
	case "counts": // HOT COLD UNPOLLED PENDING
		c := s.l.Stats(now)
		s.Want([]uint64{c.Hot, c.Cold, c.Unpolled, c.Pending}, w)
	case "low": // ID
		s.Want(s.l.Low(), w[0])
	case "missing": // ID true or false
		s.Want(s.l.Missing(s.Number(w[0])), w[1])
	case "reaches": // ID
		s.Want(s.l.Reach(top, now), w[0])
	default:
		return false
	}
	return true
}

func TestLedger(t *testing.T) {
	t.Run("a vacant id is hot, then cold, then no longer polled, and missing for ever", func(t *testing.T) {
		opts := ledger.Options{HotFor: time.Minute, GapTTL: time.Hour}
		play(t, opts, 0, `
			pass 3 1 3; at 59s; poll; rows 2-2; at 61s; poll; ids; counts 0 1 0 0; at 62s; sweeps 2-2; sweep; gives;
			at 121s; sweeps; at 1h; sweep; gives 1-2; at 48h; poll; rows; ids; sweeps; missing 2 true; counts 0 0 1 0;
			fill 2; missing 2 false`)
		l := mustLedger(t, opts, 0)
		l.Advance(3, []uint64{1, 3}, base)
		pollWith(l, after(61*time.Second))
		if s := l.Stats(after(61 * time.Second)); !s.Oldest.Equal(base) || s.Ranges != 1 {
			t.Errorf("%+v", s)
		}
		if given := sweep(l, after(time.Hour)); len(given) != 1 || given[0] != (ledger.Unpolled{Range: source.Range{First: 1, Last: 2}, IDs: 1, Missed: base}) {
			t.Errorf("no longer polled: %+v", given)
		}
		l.Changed()
		if s := l.Stats(after(time.Hour)); s.Ranges != 0 || !s.Oldest.IsZero() || l.Open() {
			t.Errorf("costs polls though nothing is polled: %+v", s)
		}
	})
	t.Run("a pending id stays hot", func(t *testing.T) {
		play(t, ledger.Options{HotFor: time.Minute, GapTTL: time.Second}, 0, `
			pass 4 1 4; times 1080 poll 2 | reads 2 | sweep 2 | later 10s; counts 1 0 1 1; pending 2-2; lasts 3h 2-2@0s; lasts 3h1s;
			poll; pending; later 49s; poll; rows 2-2; at 3h2m; poll; at 3h3m; sweep; counts 0 0 2 0`)
	})
	t.Run("what is open on a server stays hot although another one answers that does not show it", func(t *testing.T) {
		const open, elsewhere = "pass 3 1 3; times 120 poll 2 | later 1m;", "times 50 partial | later 1m;"
		play(t, ledger.Options{GapTTL: time.Hour}, 0, open+elsewhere+"partial; reads 2; poll 2; pending 2-2;"+elsewhere+"later 11m; partial; partial; rows")
		play(t, ledger.Options{GapTTL: time.Hour}, 0, open+"restore; partial; later 30m; partial; partial; reads 2; poll; poll; rows")
		play(t, ledger.Options{GapTTL: time.Hour}, 0, "pass 3 1 3; times 120 partial 2 | later 1m; save; later 2m; partial; partial; rows")
		play(t, ledger.Options{GapTTL: time.Hour, Policy: ledger.GapHold}, 0, open+"later 2m; partial; partial; rows")
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
		play(t, ledger.Options{}, 10, `
			pass 20 11 13 15-20; low 12; times 3 poll 14 | sweep 14 | later 24h; low 14; at 120h; fill 14; low 21; restore; low 21`)
	})
	t.Run("the holes of a backlog grow old together", func(t *testing.T) {
		play(t, ledger.Options{}, 0, "see 1000; at 1m; pass 500 500; poll; ids 1-499; poll; ids")
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
	for name, c := range map[string]struct {
		position uint64
		script   string
	}{
		// 7 is pending, and was half a minute before the end.
		"at a gap until its hot time has passed": {0, `
			notice; poll; reaches 2; pass 2 1-2; at 59s; notice; poll 7; reaches 2; at 1m; notice; poll 7; reaches 5;
			at 90s; notice; poll; reaches 5; at 2m; notice; poll; reaches 9`},
		"no longer at a small gap below a wide one": {10, `
			page 12 3000000; notice; poll; reaches 10; at 59s; notice; poll; reaches 10; at 61s; notice; poll; reaches 3000000`},
		"not without an evidence that is newer than the page": {0, "notice; poll; at 1h; notice; poll; notice; reaches 2"},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, ledger.Options{Policy: ledger.GapHold, HotFor: time.Minute}, c.position, c.script)
		})
	}
}
