package reconcile_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/event"
	"example.org/bridge/internal/option"
	"example.org/bridge/reconcile"
	"example.org/bridge/source"
	"example.org/bridge/tests/testall"
)

func TestGuardCheck(t *testing.T) {
	tests := []struct {
		name  string
		max   float64
		found reconcile.Found
		trips bool
	}{
		{"the table is empty", 10, reconcile.Found{Live: 50, Gone: 50}, true},
		{"the table is empty, for the rows moved on", 10, reconcile.Found{Live: 50}, false},
		{"more than half of an odd number are gone", 10, reconcile.Found{Rows: 1, Live: 3, Gone: 2}, true},
		{"a hundred and one of 1009 are gone", 10, reconcile.Found{Rows: 908, Live: 1009, Gone: 101}, true},
		{"a hundred and one of 1010 are gone", 10, reconcile.Found{Rows: 909, Live: 1010, Gone: 101}, false},
		{"no row may be gone, more are", 0, reconcile.Found{Rows: 899, Live: 1000, Gone: 101}, true},
		{"60% where 80% may, which is more than half", 80, reconcile.Found{Rows: 400, Live: 1000, Gone: 600}, true},
		{"the guard is off and the table is empty", 100, reconcile.Found{Live: 50_000, Gone: 50_000}, false},
		{"more are gone than were counted", 10, reconcile.Found{Rows: 10, Live: 2, Gone: 3}, true},
		{"of a few that lived when it tripped", 10, reconcile.Found{Rows: 200, Live: 360, Gone: 160, Before: 60}, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			why := reconcile.Guard{MaxDeletes: test.max, Stream: "orders"}.Check(test.found)
			if (why != nil) != test.trips {
				t.Fatalf("says %v", why)
			}
			for _, part := range []string{
				fmt.Sprintf("%d of %d", test.found.Gone, test.found.Live), "bridge reconcile --allow-deletes orders",
			} {
				if test.trips && !strings.Contains(why.Error(), part) {
					t.Errorf("%q does not say %q", why, part)
				}
			}
		})
	}
}

func TestGuardBeyond(t *testing.T) {
	for room, want := range map[uint64]bool{0: true, 300: true, 950: false} {
		if got := (reconcile.Guard{MaxDeletes: 10}).Beyond(reconcile.Found{Rows: 5, Live: 1000, Gone: 1000}, room); got != want {
			t.Errorf("with room for %d more: %v", room, got)
		}
	}
}

// TestGuardHoldsDeletesBack of 50 and 2500 rows: below and above what the guard lets pass whatever
// their share, and more than one nomination.
func TestGuardHoldsDeletesBack(t *testing.T) {
	for name, c := range map[string]struct {
		rows   int
		happen func(w *world)
	}{
		"the table is truncated":                  {50, func(w *world) { w.table.Truncate() }},
		"the table is truncated and filled again": {2500, func(w *world) { w.table.Truncate(); w.play("put 1 new1 1 0; put 2 new2 1 0") }},
		"a restore loses the newer rows":          {2500, func(w *world) { w.play("delete 1000-2500") }},
		"a restore loses the newer of few rows":   {50, func(w *world) { w.play("delete 20-50") }},
		"a key column gets a binary type":         {50, func(w *world) { w.table.AddColumn(source.Column{Name: "name", Kind: source.Binary}) }},
	} {
		t.Run(name, func(t *testing.T) { testHeldBack(t, c.rows, c.happen) })
	}
}

func testHeldBack(t *testing.T, rows int, happen func(*world)) {
	w := newWorld(t, event.Capability)
	w.options.PageRows = 1000
	w.fill("a", rows)
	w.play(fmt.Sprintf("gone a 1-%d", rows))
	happen(w)
	dry := w.run(reconcile.Mode{DryRun: true})
	tripped := w.run(reconcile.Mode{})
	if dry.Guard == "" || tripped.Guard == "" || w.deletes() > 0 {
		t.Fatalf("%d deletes; guard %q, of the dry run %q", w.deletes(), tripped.Guard, dry.Guard)
	}
	run := w.recorded()
	if run.Guard != string(tripped.Guard) || run.Ended.IsZero() || !run.Verified.IsZero() {
		t.Fatalf("on record: %+v", run)
	}
	again := reconcile.New(w.options)
	report, err := again.Run(t.Context(), reconcile.Mode{AllowDeletes: true})
	if err != nil || report.Guard != "" || report.Deleted == 0 || again.Status().Guard != "" || w.recorded().Guard != "" {
		t.Fatalf("allowed: %+v, %v", report, err)
	}
	if uint64(w.deletes()) != tripped.Absent || report.Deleted != tripped.Absent || dry.Deleted > tripped.Absent {
		t.Errorf("%d deletes, the guard saw %d", w.deletes(), tripped.Absent)
	}
	w.compare()
}

// TestGuardStaysTripped though runs add as many entities as are gone, and the tail more: a person
// agrees, or what is gone comes back.
func TestGuardStaysTripped(t *testing.T) {
	renamed := ""
	for id := 1; id <= 60; id++ {
		renamed += fmt.Sprintf("; update %d b%d 1", id, id)
	}
	for _, way := range []string{
		"want-allowed scanned=160 deleted=60 gone=60; compare", "fill a 60; want scanned=220; compare",
	} {
		w := newWorld(t, event.Capability)
		w.options.PageRows = 1000
		w.fill("a", 60)
		w.play("gone a 1-60" + renamed + "; want scanned=60 added=60 gone=60 guard unverified; want scanned=60 gone=60 guard unverified; " +
			"fill c 100; want scanned=160 gone=60 guard unverified; " + way)
	}
}

// TestSettingsInTheWordsOfTheUser: in what the guard says, on record, too, and in the errors of a
// status.
func TestSettingsInTheWordsOfTheUser(t *testing.T) {
	w := newWorld(t, event.Capability)
	w.options.Text = func(err error) string {
		return "user: " + option.Text(err, func(name option.Name) string { return "X_" + string(name) })
	}
	w.fill("a", 300)
	w.play("delete 1-120")
	report := w.run(reconcile.Mode{})
	if !strings.Contains(string(report.Guard), "(X_RECONCILE_MAX_DELETES)") || w.recorded().Guard != string(report.Guard) {
		t.Errorf("the guard says %q, on record: %+v", report.Guard, w.recorded())
	}
	w.options.Source = hooked{Shard: w.table, read: missing}
	r := reconcile.New(w.options)
	_, err := r.Run(t.Context(), reconcile.Mode{})
	if s := r.Status(); err == nil || !strings.HasPrefix(string(s.LastError), "user: ") || s.LastRun.Error != s.LastError {
		t.Errorf("%v, the status says %q and %q", err, s.LastError, s.LastRun.Error)
	}
}

// TestRunLooksForWhatLiesAboveAPositionThatWasSetBack of 30 entities whose table was truncated and
// then tailed from its first row, of which there are so many: with the names of the last entities,
// the highest first.
func TestRunLooksForWhatLiesAboveAPositionThatWasSetBack(t *testing.T) {
	for rows, runs := range map[int]string{
		0: "want gone=30 guard unverified; want-allowed deleted=30 gone=30", 29: "want-allowed scanned=29 deleted=1 gone=1",
		3: "want scanned=3 gone=27 guard unverified; want-allowed scanned=3 deleted=27 gone=27",
	} {
		script := "fill a 30; gone a 1-30; truncate; position 0"
		for i := range rows {
			script += fmt.Sprintf("; insert a%d 1 0", 30-i)
		}
		inBubble(func(t *testing.T) { newWorld(t, event.Capability).play(script + "; tail 100; " + runs + "; compare") })(t)
	}
}

func TestGuardIsAnErrorInTheLogOncePerTrip(t *testing.T) {
	var log bytes.Buffer
	w := newWorld(t, event.Capability)
	w.options.Logger = slog.New(slog.NewTextHandler(&log, nil))
	w.fill("a", 30)
	w.play("delete 1-30")
	for _, mode := range []reconcile.Mode{{DryRun: true}, {}, {}, {}} {
		w.run(mode)
	}
	if errors, warnings := strings.Count(log.String(), "level=ERROR"), strings.Count(log.String(), "level=WARN"); errors != 1 || warnings != 2 {
		t.Errorf("%d errors and %d warnings, want 1 and 2:\n%s", errors, warnings, log.String())
	}
}

func TestADryRunLeavesOutWhatLiesBelowTheFloor(t *testing.T) {
	w := newWorld(t, event.Capability)
	w.fill("a", 30)
	for _, name := range []string{"a5", "a25"} {
		w.edit(name, func(e *store.Entry) { *e = store.Entry{} })
	}
	below := store.Progress{Position: 30, Started: true, Floor: 20, ReconcileDue: true}
	w.apply(&store.Batch{Shards: []store.ShardChange{{Key: key, Progress: &below}}})
	dry := w.run(reconcile.Mode{DryRun: true})
	if dry.Added != 1 || len(dry.Differences) != 1 || dry.Differences[0].Entity != "a25" {
		t.Errorf("report %+v", dry)
	}
	// Once a reconcile has compared the table, the view has all rows that were there at the start.
	below.ReconcileDue = false
	w.apply(&store.Batch{Shards: []store.ShardChange{{Key: key, Progress: &below}}})
	if dry := w.run(reconcile.Mode{DryRun: true}); dry.Added != 2 {
		t.Errorf("report %+v", dry)
	}
}

// inBubble runs a test under a clock of its own, so that no wait takes time.
func inBubble(test func(*testing.T)) func(*testing.T) {
	return func(t *testing.T) { synctest.Test(t, test) }
}

func (w *world) atRead(number int, f func()) {
	reads := 0
	w.options.Source = hooked{Shard: w.table, read: func(source.Query) error {
		if reads++; reads == number {
			f()
		}
		return nil
	}}
}

// cut is a committer whose saves of runs fail from the given one on: before or after they took
// effect.
type cut struct {
	reconcile.Committer
	saves *int
	at    int
	after bool
}

func (c cut) Apply(ctx context.Context, b *store.Batch) error {
	*c.saves++
	if *c.saves < c.at {
		return c.Committer.Apply(ctx, b)
	}
	if c.after && *c.saves == c.at {
		if err := c.Committer.Apply(ctx, b); err != nil {
			return err
		}
	}
	return store.ErrClosed
}

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
			<-time.NewTimer(time.Until(l.now)).C
			l.run(reconcile.Mode{})
			if got := l.known([]byte("a0")).State; got != after.state {
				t.Errorf("after %d days the entry is %v, want %v", after.days, got, after.state)
			}
		}
	})(t)
}
