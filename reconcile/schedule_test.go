package reconcile_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.org/bridge/client/backoff"
	"example.org/bridge/event"
	"example.org/bridge/reconcile"
	"example.org/bridge/source"
)

// plant is a scheduler of worlds under a clock of its own; begun are the times at which runs of
// each began.
type plant struct {
	t         *testing.T
	worlds    []*world
	shards    []reconcile.Scheduled
	scheduler *reconcile.Scheduler
	begun     map[int][]time.Time
	// running counts the runs under way, most the most of them at one time.
	running, most int
	stop          func()
}

// newPlant makes worlds in one database; last is what is on record of each.
func newPlant(t *testing.T, last ...reconcile.Run) *plant {
	p := &plant{t: t, begun: make(map[int][]time.Time)}
	for i, run := range last {
		w := newWorld(t, event.Capability)
		w.fill("a", 30)
		w.options.Stream, w.options.Shard = key.Stream, key.Shard
		w.options.PageRows = 5
		w.options.Source = hooked{Shard: w.table, read: func(q source.Query) error { return p.reading(i, q) }}
		if !run.Started.IsZero() {
			w.record(run)
		}
		p.worlds = append(p.worlds, w)
		p.shards = append(p.shards, reconcile.Scheduled{Reconciler: reconcile.New(w.options), Interval: 30 * time.Minute, Source: "db"})
	}
	return p
}

// reading is called before each read of a run, the first of which asks for a single row.
func (p *plant) reading(i int, q source.Query) error {
	if q.Limit == 1 {
		if n := len(p.begun[i]); n == 0 || time.Since(p.begun[i][n-1]) > time.Second {
			p.begun[i] = append(p.begun[i], time.Now())
		}
	}
	p.running++
	p.most = max(p.most, p.running)
	_ = backoff.Pause(p.t.Context(), 10*time.Millisecond)
	p.running--
	return nil
}

func (p *plant) start() {
	p.scheduler = reconcile.NewScheduler(slog.New(slog.DiscardHandler), p.shards...)
	ctx, cancel := context.WithCancel(p.t.Context())
	done := make(chan error)
	go func() { done <- p.scheduler.Run(ctx) }()
	p.stop = func() {
		cancel()
		if err := <-done; err != nil {
			p.t.Errorf("the scheduler ended with %v", err)
		}
	}
}

func (p *plant) ran(want ...int) {
	p.t.Helper()
	for i, n := range want {
		if len(p.begun[i]) != n {
			p.t.Errorf("ran: %v", p.begun)
		}
	}
}

func (p *plant) pass(d time.Duration) {
	_ = backoff.Pause(p.t.Context(), d)
	synctest.Wait()
}

func TestSchedulerRuns(t *testing.T) {
	t.Run("what is asked for at once, not at the next look at the owners", inBubble(func(t *testing.T) {
		p := newPlant(t, reconcile.Run{})
		p.start()
		p.pass(500 * time.Millisecond)
		p.scheduler.Request("orders", reconcile.Mode{})
		synctest.Wait()
		p.ran(1)
		p.stop()
	}))
	t.Run("none of what is paused, and what was asked for before does not wait for ever", inBubble(func(t *testing.T) {
		now := time.Now()
		p := newPlant(t, reconcile.Run{Started: now.Add(-2 * time.Hour), Ended: now.Add(-time.Hour)}, reconcile.Run{})
		var paused atomic.Bool
		paused.Store(true)
		p.shards[0].Paused = paused.Load
		p.start()
		p.pass(10 * time.Minute)
		if n := p.scheduler.Request(key.Stream, reconcile.Mode{}); n != 1 {
			t.Errorf("%d are asked", n)
		}
		p.pass(time.Minute)
		p.ran(0, 1)
		if s := p.shards[0].Status(); s.Waiting != 0 || s.Totals.Failed != 0 {
			t.Errorf("%+v", s)
		}
		paused.Store(false)
		p.pass(10 * time.Second)
		p.ran(1, 1)
		stops := func(stopped bool) {
			p.worlds[0].mu.Lock()
			p.worlds[0].stopped = stopped
			p.worlds[0].mu.Unlock()
		}
		stops(true)
		for _, pause := range []time.Duration{20 * time.Second, time.Hour} {
			p.scheduler.Request(key.Stream, reconcile.Mode{AllowDeletes: true})
			p.pass(10 * time.Second)
			paused.Store(true)
			p.pass(pause)
			if s := p.shards[0].Status(); (s.Waiting == 1) != (pause < time.Minute) {
				t.Errorf("after %s: %+v", pause, s)
			}
			paused.Store(false)
		}
		p.stop()
	}))
	t.Run("every shard at random between half and all of its interval, one at a time", inBubble(func(t *testing.T) {
		p := newPlant(t, reconcile.Run{}, reconcile.Run{}, reconcile.Run{})
		begin := time.Now()
		p.start()
		p.pass(10 * time.Hour)
		p.stop()
		for i := range p.worlds {
			last := begin
			for _, at := range p.begun[i] {
				if gap := at.Sub(last); gap < 15*time.Minute || gap > 31*time.Minute {
					t.Errorf("shard %d ran after %s", i, gap)
				}
				last = at
			}
			if n := len(p.begun[i]); n < 20 || n > 40 {
				t.Errorf("shard %d ran %d times in 10 h", i, n)
			}
		}
		if p.most != 1 {
			t.Errorf("%d at a time", p.most)
		}
	}))
	t.Run("at once what ran longer ago than its interval, or was cut short", inBubble(func(t *testing.T) {
		now := time.Now()
		p := newPlant(t,
			reconcile.Run{Started: now.Add(-2 * time.Hour), Ended: now.Add(-time.Hour)},
			reconcile.Run{Started: now.Add(-2 * time.Minute), Ended: now.Add(-time.Minute), Guard: "tripped"},
			reconcile.Run{Started: now.Add(-time.Minute), Bound: 30, After: 12, Scanned: 12, Server: "memory"})
		p.start()
		p.pass(10 * time.Second)
		p.stop()
		p.ran(1, 0, 1)
		if s := p.shards[2].Status(); !s.LastRun.Resumed || s.LastRun.Rows != 30 {
			t.Errorf("status %+v", s)
		}
		if s := p.shards[1].Status(); !s.LastEnded.Equal(now.Add(-time.Minute)) || s.Guard != "tripped" {
			t.Errorf("status %+v", s)
		}
	}))
	t.Run("requests run before what is due, and run again where only an older run was finished", inBubble(func(t *testing.T) {
		now := time.Now()
		p := newPlant(t, reconcile.Run{Started: now.Add(-time.Minute), Bound: 30, After: 12, Scanned: 12, Server: "memory"})
		p.worlds[0].table.Update(3, "a3", "7")
		p.start()
		if n := p.scheduler.Request("orders", reconcile.Mode{}); n != 1 {
			t.Errorf("%d shards", n)
		}
		if n := p.scheduler.Request("other", reconcile.Mode{}); n != 0 {
			t.Errorf("%d shards", n)
		}
		p.pass(10 * time.Second)
		p.stop()
		s := p.shards[0].Status()
		if s.Totals.Ended != 2 || s.Totals.Modified != 1 || s.Waiting != 0 || s.Running || s.Totals.Scanned != 48 {
			t.Errorf("status %+v", s)
		}
	}))
	t.Run("a dry run beside the schedule", inBubble(func(t *testing.T) {
		p := newPlant(t, reconcile.Run{})
		p.worlds[0].table.Update(3, "a3", "7")
		p.start()
		p.scheduler.Request("orders", reconcile.Mode{DryRun: true})
		p.pass(time.Minute)
		if s := p.shards[0].Status(); s.Totals != (reconcile.Totals{}) || s.LastDryRun.Modified != 1 || len(s.LastDryRun.Differences) != 1 {
			t.Errorf("status %+v", s)
		}
		p.pass(30 * time.Minute)
		p.stop()
		if s := p.shards[0].Status(); s.Totals.Modified != 1 {
			t.Errorf("status %+v", s)
		}
	}))
	t.Run("a request once its shard has started", inBubble(func(t *testing.T) {
		p := newPlant(t, reconcile.Run{})
		p.worlds[0].stopped = true
		p.start()
		p.scheduler.Request("orders", reconcile.Mode{})
		p.pass(10 * time.Second)
		if s := p.shards[0].Status(); s.Waiting != 1 || s.LastError == "" {
			t.Errorf("status %+v", s)
		}
		p.worlds[0].mu.Lock()
		p.worlds[0].stopped = false
		p.worlds[0].mu.Unlock()
		p.pass(10 * time.Second)
		p.stop()
		if s := p.shards[0].Status(); s.Waiting != 0 || s.LastError != "" || s.Totals.Ended != 1 {
			t.Errorf("status %+v", s)
		}
	}))
}

// TestABusThatIsAway has one shard of a database unable to publish, and the other reconciled all
// the same.
func TestABusThatIsAway(t *testing.T) {
	inBubble(func(t *testing.T) {
		old := reconcile.Run{Started: time.Now().Add(-2 * time.Hour), Ended: time.Now().Add(-time.Hour)}
		p := newPlant(t, old, old)
		p.worlds[0].table.Update(3, "a3", "7")
		p.worlds[1].table.Update(3, "a3", "7")
		p.worlds[0].options.Owner = owner{p.worlds[0], func(ctx context.Context, _ reconcile.Nomination) (reconcile.Verdict, error) {
			<-ctx.Done()
			return reconcile.Verdict{}, context.Cause(ctx)
		}}
		p.worlds[0].options.Source = hooked{Shard: p.worlds[0].table, read: func(q source.Query) error { return p.reading(0, q) }}
		p.shards[0].Reconciler = reconcile.New(p.worlds[0].options)
		p.start()
		p.pass(time.Hour)
		if len(p.begun[1]) == 0 {
			t.Errorf("not reconciled in an hour; the first: %+v", p.shards[0].Status())
		}
		p.stop()
	})(t)
}

func TestRateAndProgress(t *testing.T) {
	inBubble(func(t *testing.T) {
		w := newWorld(t, event.Capability)
		w.fill("a", 1000)
		w.options.Rate = 100
		r := reconcile.New(w.options)
		done := make(chan reconcile.Report)
		go func() {
			report, err := r.Run(t.Context(), reconcile.Mode{})
			if err != nil {
				t.Error(err)
			}
			done <- report
		}()
		_ = backoff.Pause(t.Context(), 5*time.Second)
		synctest.Wait()
		g := r.Status().Progress
		if !r.Status().Running || g.Rows < 450 || g.Rows > 550 || g.Percent < 45 || g.Percent > 55 || g.RowsOf != 1000 {
			t.Errorf("after half: %+v", g)
		}
		if g.RowsPerSecond < 90 || g.RowsPerSecond > 110 || g.SecondsLeft < 4 || g.SecondsLeft > 6 {
			t.Errorf("after half: %+v", g)
		}
		if report := <-done; report.EndedAt.Sub(report.StartedAt.Time) < 9*time.Second || report.Rows != 1000 {
			t.Errorf("report %+v", report)
		}
	})(t)
}

func TestAPageIsComparedAsSoonAsItIsRead(t *testing.T) {
	inBubble(func(t *testing.T) {
		w := newWorld(t, event.Capability)
		w.fill("a", 100)
		for id := uint64(1); id <= 100; id++ {
			w.table.Update(id, fmt.Sprintf("a%d", id), "2")
		}
		var read time.Time
		var oldest time.Duration
		w.options.Rate = 100
		w.options.Owner = owner{w, func(ctx context.Context, n reconcile.Nomination) (reconcile.Verdict, error) {
			oldest = max(oldest, time.Since(read))
			return w.Nominate(ctx, n)
		}}
		w.options.Source = hooked{Shard: w.table, read: func(source.Query) error { read = time.Now(); return nil }}
		begin := time.Now()
		if report := w.run(reconcile.Mode{}); report.Modified != 100 {
			t.Errorf("report %+v", report)
		}
		if oldest > 0 {
			t.Errorf("rows were compared %s after they were read: the rate must be waited for before a read", oldest)
		}
		if took := time.Since(begin); took < 750*time.Millisecond {
			t.Errorf("100 rows in %s at 100 rows a second", took)
		}
	})(t)
}

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
			if got := log.String(); !strings.Contains(got, "reconcile panicked") || !strings.Contains(got, "schedule_test.go") {
				t.Errorf("log %q", got)
			}
			if s := p.shards[1].Status(); s.Totals.Ended != 1 || s.Totals.Modified != 1 {
				t.Errorf("the other shard: %+v", s)
			}
		}))
	}
}
