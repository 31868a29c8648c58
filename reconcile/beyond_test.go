package reconcile_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"bridge/event"
	"bridge/reconcile"
)

// truncated returns a world of 30 entities whose table was truncated, and then tailed from its
// first row, of which there are so many: with the names of the last entities, the highest first.
func truncated(t *testing.T, rows int) *world {
	w := newWorld(t, event.Capability)
	w.fill("a", 30)
	for i := 1; i <= 30; i++ {
		w.touch(fmt.Sprintf("a%d", i))
	}
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
				if report := w.run(reconcile.Mode{}); report.Guard == "" || report.Deleted != 0 || report.Gone != gone {
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

func TestRunLeavesWhatWasPublishedMeanwhileToTheNextOne(t *testing.T) {
	w := newWorld(t, event.Capability)
	w.fill("a", 10)
	reads := 0
	w.options.Source = hooked{w.table, func() {
		if reads++; reads == 2 {
			w.touch("late")
			w.table.Insert("late", "1", "0")
			w.tail(100)
			w.table.Delete(11)
		}
	}}
	if report := w.run(reconcile.Mode{}); report.Deleted != 0 || report.Entities != 10 {
		t.Errorf("report %+v", report)
	}
	if report := w.run(reconcile.Mode{}); report.Deleted != 1 {
		t.Errorf("the next report %+v", report)
	}
	w.compare()
}

func TestGuardIsAnErrorInTheLogOncePerTrip(t *testing.T) {
	var log bytes.Buffer
	w := newWorld(t, event.Capability)
	w.options.Logger = slog.New(slog.NewTextHandler(&log, nil))
	w.fill("a", 30)
	for id := range uint64(30) {
		w.table.Delete(id + 1)
	}
	for _, mode := range []reconcile.Mode{{DryRun: true}, {}, {}, {}} {
		w.run(mode)
	}
	if errors, warnings := strings.Count(log.String(), "level=ERROR"), strings.Count(log.String(), "level=WARN"); errors != 1 || warnings != 2 {
		t.Errorf("%d errors and %d warnings, want 1 and 2:\n%s", errors, warnings, log.String())
	}
}
