package reconcile_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/event"
	"example.org/bridge/internal/option"
	"example.org/bridge/reconcile"
	"example.org/bridge/source"
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

func TestGuardLetsReplacedRowsPass(t *testing.T) {
	for _, behind := range []bool{false, true} {
		t.Run(fmt.Sprintf("tail behind: %v", behind), inBubble(func(t *testing.T) {
			w := newWorld(t, event.Capability)
			w.options.PageRows = 500
			w.fill("a", 1500)
			for i := 1; i <= 1500; i++ {
				if i%3 == 0 {
					w.table.Replace(fmt.Sprintf("a%d", i), "1", "0")
				}
			}
			if !behind {
				// The tail is ahead of what its view knows.
				w.mu.Lock()
				w.position = 1 << 20
				w.mu.Unlock()
			}
			report := w.run(reconcile.Mode{})
			if report.Guard != "" || report.Absent != 0 || w.deletes() > 0 {
				t.Errorf("report %+v", report)
			}
			w.tail(10_000)
			w.compare()
		}))
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

// truncated returns a world of 30 entities whose table was truncated, and then tailed from its
// first row, of which there are so many: with the names of the last entities, the highest first.
func truncated(t *testing.T, rows int) *world {
	w := newWorld(t, event.Capability)
	w.fill("a", 30)
	w.play("gone a 1-30")
	w.table.Truncate()
	w.mu.Lock()
	w.position = 0
	w.mu.Unlock()
	for i := range rows {
		w.table.Insert(fmt.Sprintf("a%d", 30-i), "1", "0")
	}
	w.tail(100)
	return w
}

func TestRunLooksForWhatLiesAboveAPositionThatWasSetBack(t *testing.T) {
	for rows, gone := range map[int]uint64{0: 30, 3: 27, 29: 1} {
		t.Run(fmt.Sprintf("%d of 30 rows are there again", rows), inBubble(func(t *testing.T) {
			w := truncated(t, rows)
			if gone > 15 {
				if report := w.run(reconcile.Mode{}); report.Guard == "" || report.Deleted != 0 || report.Absent != gone {
					t.Errorf("an ordinary run ended with %+v", report)
				}
			}
			report := w.run(reconcile.Mode{AllowDeletes: true})
			if report.Guard != "" || report.Deleted != gone || report.Added+report.Modified != 0 {
				t.Errorf("a run with deletes allowed ended with %+v", report)
			}
			w.compare()
		}))
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

// atRead calls a function before the read of this number.
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
