package ledger_test

import (
	"testing"
	"time"

	"example.org/bridge/source/ledger"
)

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
