package reconcile_test

import (
	"fmt"
	"strings"
	"testing"

	"bridge/event"
	"bridge/internal/option"
	"bridge/reconcile"
)

func TestGuardCheck(t *testing.T) {
	tests := []struct {
		name  string
		max   float64
		found reconcile.Found
		trips bool
	}{
		{"the table is empty and nothing was published", 10, reconcile.Found{}, false},
		{"the table is empty", 10, reconcile.Found{Live: 50, Gone: 50}, true},
		{"the only row is gone", 10, reconcile.Found{Live: 1, Gone: 1}, true},
		{"the table is empty, for the rows moved on", 10, reconcile.Found{Live: 50}, false},
		{"half of few are gone", 10, reconcile.Found{Rows: 25, Live: 50, Gone: 25}, false},
		{"more than half of an odd number are gone", 10, reconcile.Found{Rows: 1, Live: 3, Gone: 2}, true},
		{"a hundred and one of 1009 are gone", 10, reconcile.Found{Rows: 908, Live: 1009, Gone: 101}, true},
		{"a hundred and one of 1010 are gone", 10, reconcile.Found{Rows: 909, Live: 1010, Gone: 101}, false},
		{"no row may be gone, few are", 0, reconcile.Found{Rows: 900, Live: 1000, Gone: 100}, false},
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
	guard := reconcile.Guard{MaxDeletes: 10}
	tests := []struct {
		name string
		room uint64
		want bool
	}{{"no row is left that could hold one", 0, true}, {"a few rows could", 300, true}, {"rows for all could", 1000, false}, {"for nearly all", 950, false}}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := guard.Beyond(reconcile.Found{Rows: 5, Live: 1000, Gone: 1000}, test.room); got != test.want {
				t.Errorf("%v", got)
			}
		})
	}
}

// Fifty and 2500 rows: below and above what the guard lets pass whatever their share, and more than
// one nomination.
func TestGuardHoldsDeletesBack(t *testing.T) {
	events := []struct {
		name   string
		happen func(w *world)
	}{
		{"the table is truncated", func(w *world) { w.table.Truncate() }},
		{"the table is truncated and filled again", func(w *world) {
			w.table.Truncate()
			w.table.InsertAt(1, "new1", "1", "0")
			w.table.InsertAt(2, "new2", "1", "0")
		}},
		{"a restore loses the newer rows", func(w *world) {
			reach, _ := w.Reach()
			for id := reach * 2 / 5; id <= reach; id++ {
				w.table.Delete(id)
			}
		}},
	}
	for _, event := range events {
		for _, rows := range []int{50, 2500} {
			t.Run(fmt.Sprintf("%s, %d rows before", event.name, rows), func(t *testing.T) { testHeldBack(t, rows, event.happen) })
		}
	}
}

func testHeldBack(t *testing.T, rows int, happen func(*world)) {
	w := newWorld(t, event.Capability)
	w.options.PageRows = 1000
	w.fill("a", rows)
	for i := 1; i <= rows; i++ {
		w.touch(fmt.Sprintf("a%d", i))
	}
	happen(w)
	dry := w.run(reconcile.Mode{DryRun: true})
	tripped := w.run(reconcile.Mode{})
	if dry.Guard == "" || tripped.Guard == "" || w.deletes() > 0 {
		t.Fatalf("%d deletes; guard %q, of the dry run %q", w.deletes(), tripped.Guard, dry.Guard)
	}
	run := w.recorded()
	if run.Guard != tripped.Guard || run.Ended.IsZero() || !run.Verified.IsZero() {
		t.Fatalf("on record: %+v", run)
	}
	again := reconcile.New(w.options)
	if err := again.Restore(t.Context()); err != nil || again.Status().Guard == "" {
		t.Errorf("a restart forgets that the guard tripped: %+v, %v", again.Status(), err)
	}
	report, err := again.Run(t.Context(), reconcile.Mode{AllowDeletes: true})
	if err != nil || report.Guard != "" || report.Deleted == 0 || again.Status().Guard != "" {
		t.Fatalf("allowed: %+v, %v", report, err)
	}
	if uint64(w.deletes()) != tripped.Gone || report.Deleted != tripped.Gone || dry.Deleted > tripped.Gone {
		t.Errorf("%d deletes, the guard saw %d", w.deletes(), tripped.Gone)
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
			if report.Guard != "" || report.Gone != 0 || w.deletes() > 0 {
				t.Errorf("report %+v", report)
			}
			w.tail(10_000)
			w.compare()
		}))
	}
}

func TestGuardIsForgottenByARunThatPasses(t *testing.T) {
	w := newWorld(t, event.Capability)
	w.fill("a", 5)
	w.record(reconcile.Run{Guard: "tripped"})
	w.run(reconcile.Mode{})
	if run := w.recorded(); run.Guard != "" {
		t.Errorf("on record: %+v", run)
	}
}

func TestGuardNamesItsSettingInTheWordsOfItsUser(t *testing.T) {
	w := newWorld(t, event.Capability)
	w.options.Text = func(err error) string {
		return option.Text(err, func(name option.Name) string { return "X_" + string(name) })
	}
	w.fill("a", 300)
	for id := uint64(1); id <= 120; id++ {
		w.table.Delete(id)
	}
	report := w.run(reconcile.Mode{})
	if !strings.Contains(report.Guard, "(X_RECONCILE_MAX_DELETES)") {
		t.Errorf("the guard says %q", report.Guard)
	}
	if run := w.recorded(); run.Guard != report.Guard {
		t.Errorf("on record: %+v", run)
	}
}
