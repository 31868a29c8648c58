package reconcile_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"example.org/bridge/reconcile"
	"example.org/bridge/source"
)

func TestAPanicCutsOneRunShort(t *testing.T) {
	poisonedRead := func(which func(source.Query) bool) func(*world) {
		return func(w *world) {
			before := w.options.Source.(hooked).read
			w.options.Source = hooked{Shard: w.table, read: func(q source.Query) error {
				if which(q) {
					panic("a defect")
				}
				return before(q)
			}}
		}
	}
	for name, poison := range map[string]func(*world){
		"where it begins":      poisonedRead(func(q source.Query) bool { return q.Limit == 1 }),
		"where it reads ahead": poisonedRead(func(q source.Query) bool { return q.After == 10 }),
		"where it has rows published": func(w *world) {
			w.options.Owner = owner{w, func(context.Context, reconcile.Nomination) (reconcile.Verdict, error) { panic("a defect") }}
		},
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
			if s := p.shards[0].Status(); s.Totals.Failed != 1 || s.Totals.Ended != 0 || s.Running || !strings.Contains(string(s.LastError), "panic: a defect") {
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
