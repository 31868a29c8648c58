package reconcile_test

import (
	"testing"

	"bridge/checkpoint/store"
	"bridge/event"
	"bridge/reconcile"
)

// TestWhatIsNotCertainIsNominated has rows that agree with the view where the bus may say something
// else (rules 6 and 21), and some that are only recorded (rule 16).
func TestWhatIsNotCertainIsNominated(t *testing.T) {
	for name, test := range map[string]struct {
		change func(w *world)
		want   reconcile.Verdict
	}{
		"a disputed entity": {func(w *world) { w.edit("a5", func(e *store.Entry) { e.Disputed = true }) }, reconcile.Verdict{Modified: 1}},
		"a disputed tombstone": {func(w *world) {
			w.touch("a5")
			w.table.Update(5, "a5", "1", "1")
			w.run(reconcile.Mode{})
			w.edit("a5", func(e *store.Entry) { e.Disputed = true })
		}, reconcile.Verdict{Deleted: 1}},
		"an entity of a registration that is not in force": {func(w *world) {
			w.edit("a4", func(e *store.Entry) { e.At = store.At{TP: 3, Offset: 7} })
			w.edit("a5", func(e *store.Entry) { e.At = store.At{TP: 1, Offset: 7} })
			w.late = 1
		}, reconcile.Verdict{Modified: 1}},
		"a recorded entity that has not changed": {func(w *world) { w.edit("a5", func(e *store.Entry) { e.State = store.Recorded }) }, reconcile.Verdict{}},
		"a recorded entity that has changed": {func(w *world) {
			w.edit("a5", func(e *store.Entry) { e.State = store.Recorded })
			w.table.Update(5, "a5", "2")
		}, reconcile.Verdict{Modified: 1}},
		"a recorded entity that is gone": {func(w *world) {
			w.edit("a5", func(e *store.Entry) { e.State = store.Recorded })
			w.touch("a5")
			w.table.Delete(5)
		}, reconcile.Verdict{Deleted: 1}},
	} {
		t.Run(name, inBubble(func(t *testing.T) {
			w := newWorld(t, event.Capability)
			w.fill("a", 30)
			test.change(w)
			if dry := w.run(reconcile.Mode{DryRun: true}); dry.Verdict != test.want {
				t.Errorf("a dry run found %+v, want %+v", dry.Verdict, test.want)
			}
			if report := w.run(reconcile.Mode{}); report.Verdict != test.want || report.Entities != 30 && test.want.Deleted == 0 {
				t.Errorf("report %+v, want %+v", report, test.want)
			}
			if again := w.run(reconcile.Mode{}); again.Verdict != (reconcile.Verdict{}) {
				t.Errorf("the next run published %+v", again.Verdict)
			}
		}))
	}
}

// edit changes the entry of an entity.
func (w *world) edit(name string, change func(*store.Entry)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.known([]byte(name))
	change(&e)
	w.enter([]byte(name), e)
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
