package reconcile_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"bridge/event"
	"bridge/internal/backoff"
	"bridge/reconcile"
	"bridge/source"
)

// brokenTable fails at every read.
type brokenTable struct{ source.Shard }

func (brokenTable) Read(context.Context, source.Query, *source.Page) error { return source.ErrMissing }

func TestAReconcileThatStandsStillShows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlant(t, reconcile.Run{})
		var hang atomic.Bool
		free := make(chan struct{})
		p.shards[0].Reconciler = func() *reconcile.Reconciler {
			options := p.worlds[0].options
			options.Source = slowTable{p.worlds[0].table, func(source.Query) {
				if _ = backoff.Pause(p.t.Context(), 10*time.Millisecond); hang.Load() {
					<-free
				}
			}}
			options.Rate = 1
			return reconcile.New(options)
		}()
		p.shards[0].AtOnce = true
		p.start()
		p.pass(12 * time.Second)
		still := func() time.Duration { s := p.shards[0].Status(); return s.Still() }
		if s := p.shards[0].Status(); !s.Running || s.Still() > time.Second {
			t.Errorf("between two reads, which a rate holds up: running %v, still for %s", s.Running, s.Still())
		}
		hang.Store(true)
		p.pass(5 * time.Minute)
		if got := still(); got < 4*time.Minute {
			t.Errorf("a read that hangs for 5 minutes counts for %s", got)
		}
		hang.Store(false)
		close(free)
		p.pass(time.Second)
		if got := still(); got > 0 {
			t.Errorf("afterwards it still stands, for %s", got)
		}
		p.stop()
	})
}

func TestTheLogDoesNotRepeatItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, event.Capability)
		w.options.Stream, w.options.Shard = key.Stream, key.Shard
		w.options.Source = brokenTable{w.table}
		var log bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&log, nil))
		s := reconcile.NewScheduler(logger, reconcile.Scheduled{Reconciler: reconcile.New(w.options), Source: "db", AtOnce: true})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		if err := s.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(log.String(), "cut short"); n < 2 || n > 11 {
			t.Errorf("%d lines in 10 minutes:\n%s", n, &log)
		}
	})
}

func TestAStatusSaysAnErrorInTheWordsOfItsUser(t *testing.T) {
	w := newWorld(t, event.Capability)
	w.options.Source = brokenTable{w.table}
	w.options.Text = func(err error) string { return "set BRIDGE_X: " + err.Error() }
	r := reconcile.New(w.options)
	if _, err := r.Run(t.Context(), reconcile.Mode{}); err == nil {
		t.Fatal("a table that cannot be read was reconciled")
	}
	s := r.Status()
	for _, text := range []string{s.LastError, s.Last.Error} {
		if !strings.HasPrefix(text, "set BRIDGE_X: ") {
			t.Errorf("the status says %q", text)
		}
	}
}
