package reconcile_test

import (
	"fmt"
	"testing"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/event"
	"example.org/bridge/reconcile"
	"example.org/bridge/source"
	"example.org/bridge/tests/testall"
)

// leases is a world of rows that are stale when nobody touches them for ten minutes.
type leases struct {
	*world
	now time.Time
}

const staleAfter = 10 * time.Minute

// newLeases has n leases, touched last one after the other within beat, as the clock says now.
func newLeases(t *testing.T, n int, beat time.Duration) *leases {
	l := &leases{newWorldOf(t, event.Capability, source.Spec{Modified: "created", StaleAfter: staleAfter}), time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)}
	l.table.Clock = func() time.Time { return l.now }
	l.options.StaleAfter, l.options.PageRows = staleAfter, 1000
	for i := range n {
		l.insert(fmt.Sprintf("a%d", i), "0", l.now.Add(-beat*time.Duration(n-i)/time.Duration(n)))
	}
	l.tail(n)
	l.play(fmt.Sprintf("gone a 0-%d", n-1))
	return l
}

func (l *leases) insert(name, deleted string, touched time.Time) {
	l.table.Insert(name, "1", deleted, touched.Format(time.DateTime))
}

// TestGuardSeesWhatExpiresSlowly: the application is down, and its leases expire one after the
// other, a few in each run. A person is asked before more are deleted than may go at once.
func TestGuardSeesWhatExpiresSlowly(t *testing.T) {
	cases := []struct {
		n           int
		beat, every time.Duration
		most        int
	}{
		{60, 30 * time.Second, 10 * time.Second, 30},
		{100, 3 * time.Minute, time.Minute, 50},
		{1000, 20 * time.Minute / 3, 20 * time.Second, 100},
		{1000, staleAfter, 20 * time.Second, 100},
	}
	for _, c := range cases[:testall.Cases(2, len(cases))] {
		t.Run(fmt.Sprintf("%d in %s", c.n, c.beat), inBubble(func(t *testing.T) {
			l := newLeases(t, c.n, c.beat)
			end := l.now.Add(staleAfter + 2*time.Second)
			l.now = l.now.Add(staleAfter - c.beat)
			asked := false
			for l.now.Before(end) {
				l.now = l.now.Add(c.every)
				report := l.run(reconcile.Mode{})
				asked = report.Guard != ""
			}
			if n := l.deletes(); !asked || n > c.most || n == 0 {
				t.Errorf("%d of %d are deleted, a person is asked: %v", n, c.n, asked)
			}
			l.run(reconcile.Mode{AllowDeletes: true})
			if report := l.run(reconcile.Mode{}); l.deletes() != c.n || report.Guard != "" {
				t.Errorf("%d of %d are deleted once a person agreed, the guard says %s", l.deletes(), c.n, report.Guard)
			}
		}))
	}
}

// TestGuardForgetsWhatExpired: what expired long ago, what was soft-deleted before and what was
// never published does not count.
func TestGuardForgetsWhatExpired(t *testing.T) {
	inBubble(func(t *testing.T) {
		l := newLeases(t, 20, time.Second)
		for i := range 60 {
			l.insert(fmt.Sprintf("b%d", i), "1", l.now.Add(-2*time.Minute))
			l.insert(fmt.Sprintf("c%d", i), "0", l.now.Add(-staleAfter-2*time.Second))
		}
		l.play("gone b 0-59")
		l.tail(1000)
		l.now = l.now.Add(staleAfter - time.Minute)
		l.run(reconcile.Mode{})
		for round := range 2 {
			first := 6 * round
			for i := first + 6; i < 20; i++ {
				l.table.Update(uint64(i+1), fmt.Sprintf("a%d", i), "1", "0", l.now.Add(time.Hour).Format(time.DateTime))
			}
			l.now = l.now.Add(time.Minute + 2*time.Second)
			if report := l.run(reconcile.Mode{}); report.Guard != "" || report.Deleted != 6 {
				t.Errorf("round %d: %+v", round, report)
			}
			l.now = l.now.Add(time.Hour + staleAfter - time.Minute)
		}
	})(t)
}

// TestALeaseIsKnownForLong: the row of an expired entity stays in the table, so its next Added
// needs the link to its Deleted, and with that an id of its own.
func TestALeaseIsKnownForLong(t *testing.T) {
	inBubble(func(t *testing.T) {
		l := newLeases(t, 4, time.Second)
		l.now = l.now.Add(staleAfter + time.Minute)
		l.run(reconcile.Mode{AllowDeletes: true})
		if n := l.deletes(); n != 4 {
			t.Fatalf("%d are deleted", n)
		}
		absent := l.known([]byte("a0")).Since
		for _, after := range []struct {
			days  int
			state store.EntryState
		}{{30, store.Absent}, {364, store.Absent}, {367, store.Unknown}} {
			l.now = absent.AddDate(0, 0, after.days)
			l.run(reconcile.Mode{})
			if got := l.known([]byte("a0")).State; got != after.state {
				t.Errorf("after %d days the entry is %v, want %v", after.days, got, after.state)
			}
		}
	})(t)
}
