package reconcile_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"bridge/event"
	"bridge/reconcile"
	"bridge/source"
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

// poisonedOwner panics when something is nominated.
type poisonedOwner struct{ reconcile.Owner }

func (poisonedOwner) Nominate(context.Context, reconcile.Nomination) (reconcile.Verdict, error) {
	panic("a defect")
}

func TestAPanicCutsOneRunShort(t *testing.T) {
	poisonedRead := func(which func(source.Query) bool) func(*world) {
		return func(w *world) {
			before := w.options.Source.(slowTable).before
			w.options.Source = slowTable{w.table, func(q source.Query) {
				if which(q) {
					panic("a defect")
				}
				before(q)
			}}
		}
	}
	for name, poison := range map[string]func(*world){
		"where it begins":             poisonedRead(func(q source.Query) bool { return q.Limit == 1 }),
		"where it reads ahead":        poisonedRead(func(q source.Query) bool { return q.After == 10 }),
		"where it has rows published": func(w *world) { w.options.Owner = poisonedOwner{w} },
	} {
		t.Run(name, inBubble(func(t *testing.T) {
			due := reconcile.Run{Started: time.Now().Add(-2 * time.Hour), Ended: time.Now().Add(-time.Hour)}
			p := newPlant(t, due, due)
			var log bytes.Buffer
			bad := p.worlds[0]
			for _, w := range p.worlds {
				w.table.Update(3, "a3", "7")
			}
			poison(bad)
			bad.options.Logger = slog.New(slog.NewTextHandler(&log, nil))
			p.shards[0].Reconciler = reconcile.New(bad.options)
			p.start()
			p.pass(10 * time.Second)
			p.stop()
			if s := p.shards[0].Status(); s.Totals.Failed != 1 || s.Totals.Ended != 0 || s.Running || !strings.Contains(s.LastError, "panic: a defect") {
				t.Errorf("status %+v", s)
			}
			if got := log.String(); !strings.Contains(got, "reconcile panicked") || !strings.Contains(got, "silent_test.go") {
				t.Errorf("log %q", got)
			}
			if s := p.shards[1].Status(); s.Totals.Ended != 1 || s.Totals.Modified != 1 {
				t.Errorf("the other shard: %+v", s)
			}
		}))
	}
}
