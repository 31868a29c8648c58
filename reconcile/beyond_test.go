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
	"example.org/bridge/reconcile"
	"example.org/bridge/source"
)

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
