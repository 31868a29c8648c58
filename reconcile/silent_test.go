package reconcile_test

import (
	"fmt"
	"testing"

	"bridge/event"
	"bridge/reconcile"
)

// TestRowsThatDoNotMatchTheCondition has rows with the value 9 not match.
func TestRowsThatDoNotMatchTheCondition(t *testing.T) {
	for name, test := range map[string]struct {
		change func(w *world)
		want   reconcile.Verdict
	}{
		"nothing has changed":                 {func(*world) {}, reconcile.Verdict{}},
		"one that matched":                    {func(w *world) { w.table.Update(5, "a5", "9") }, reconcile.Verdict{Deleted: 1}},
		"one that matches now":                {func(w *world) { w.table.Update(31, "b1", "1") }, reconcile.Verdict{Added: 1}},
		"one that changes and does not match": {func(w *world) { w.table.Update(31, "b1", "9", "1") }, reconcile.Verdict{}},
		"many, more than may be gone": {func(w *world) {
			for id := uint64(1); id <= 29; id++ {
				w.table.Update(id, fmt.Sprint("a", id), "9")
			}
		}, reconcile.Verdict{Deleted: 29}},
		"one whose entity was in another row, that is gone": {func(w *world) {
			w.touch("a2")
			w.table.Delete(2)
			w.table.Delete(4)
			w.table.InsertAt(2, "a4", "9", "0")
		}, reconcile.Verdict{Deleted: 2}},
		"one whose entity was in another row, which is another's": {func(w *world) {
			w.table.Delete(31)
			w.table.Update(4, "c4", "1")
			w.table.InsertAt(31, "a4", "9", "0")
		}, reconcile.Verdict{Added: 1, Deleted: 1}},
		"one that comes back": {func(w *world) {
			w.touch("a7")
			w.table.Delete(7)
			w.run(reconcile.Mode{})
			w.table.InsertAt(7, "a7", "9", "0")
		}, reconcile.Verdict{}},
	} {
		t.Run(name, inBubble(func(t *testing.T) {
			w := newFilteredWorld(t, event.Capability, "value <> '9'")
			w.fill("a", 30)
			w.table.Insert("b1", "9", "0")
			w.table.Insert("b2", "9", "1")
			w.tail(2)
			test.change(w)
			if dry := w.run(reconcile.Mode{DryRun: true}); dry.Verdict != test.want {
				t.Errorf("a dry run found %+v, want %+v", dry.Verdict, test.want)
			}
			if report := w.run(reconcile.Mode{}); report.Verdict != test.want || report.Guard != "" {
				t.Errorf("report %+v, want %+v", report, test.want)
			}
			if again := w.run(reconcile.Mode{}); again.Verdict != (reconcile.Verdict{}) {
				t.Errorf("the next run published %+v", again.Verdict)
			}
			w.compare()
		}))
	}
}
