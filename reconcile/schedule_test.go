package reconcile_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.org/bridge/client/backoff"
	"example.org/bridge/event"
	"example.org/bridge/reconcile"
	"example.org/bridge/source"
	"example.org/bridge/tests/script"
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

func (p *plant) pass(d time.Duration) {
	_ = backoff.Pause(p.t.Context(), d)
	synctest.Wait()
}

// play plays steps of worlds, after their number and a colon, and steps of the scheduler.
func (p *plant) play(steps string) {
	p.t.Helper()
	player := script.Player{TB: p.t}
	player.Play(steps, func(name string, words []string) bool {
		p.t.Helper()
		at := 0
		if of, rest, found := strings.Cut(name, ":"); found {
			at, name = int(player.Number(of)), rest
		}
		w := p.worlds[at]
		switch name {
		case "start":
			p.start()
		case "stop":
			p.stop()
		case "pass": // TIME
			p.pass(player.Duration(words[0]))
		case "ran": // TIMES of each
			for i, n := range words {
				player.Want(len(p.begun[i]), n)
			}
		case "request": // STREAM N, of which so many shards are asked, and dry or allowed
			mode := reconcile.Mode{DryRun: slices.Contains(words, "dry"), AllowDeletes: slices.Contains(words, "allowed")}
			player.Want(p.scheduler.Request(words[0], mode), words[1])
			synctest.Wait()
		case "owner": // stops, or runs
			w.mu.Lock()
			w.stopped = words[0] == "stops"
			w.mu.Unlock()
		case "is": // WHAT=N
			for _, want := range words {
				what, n, _ := strings.Cut(want, "=")
				player.Want(fmt.Sprint(what, " ", p.status(at, what)), what+" "+n)
			}
		default:
			return w.do(name, words)
		}
		return true
	})
}

func (p *plant) status(at int, what string) any {
	s, last, dry := p.shards[at].Status(), &reconcile.Report{}, &reconcile.Report{}
	if s.LastRun != nil {
		last = s.LastRun
	}
	if s.LastDryRun != nil {
		dry = s.LastDryRun
	}
	return map[string]any{
		"waiting": s.Waiting, "failed": s.Totals.Failed, "ended": s.Totals.Ended, "modified": s.Totals.Modified, "scanned": s.Totals.Scanned,
		"running": s.Running, "error": s.LastError != "", "resumed": last.Resumed, "rows": last.Rows,
		"guard": s.Guard, "ago": time.Since(s.LastEnded).Round(time.Second), "dry": dry.Modified, "examples": len(dry.Differences),
	}[what]
}

func TestSchedulerRuns(t *testing.T) {
	ended := func(ago time.Duration) reconcile.Run {
		return reconcile.Run{Started: time.Now().Add(-ago - time.Minute), Ended: time.Now().Add(-ago)}
	}
	cut := reconcile.Run{Bound: 30, After: 12, Scanned: 12, Server: "memory"}
	none := reconcile.Run{}
	for name, c := range map[string]struct {
		last   func() []reconcile.Run
		script string
	}{
		"what is asked for at once, not at the next look at the owners": {
			func() []reconcile.Run { return []reconcile.Run{none} }, "start; pass 500ms; request orders 1; ran 1; stop",
		},
		"at once what ran longer ago than its interval, or was cut short": {
			func() []reconcile.Run {
				tripped, short := ended(time.Minute), cut
				tripped.Guard, short.Started = "tripped", time.Now().Add(-time.Minute)
				return []reconcile.Run{ended(time.Hour), tripped, short}
			},
			"start; pass 10s; stop; ran 1 0 1; 2:is resumed=true rows=30; 1:is guard=tripped ago=1m10s",
		},
		"after its interval what ended in the future, by a clock that was set back": {
			func() []reconcile.Run { return []reconcile.Run{ended(-24 * time.Hour)} }, "start; pass 30m; stop; ran 1",
		},
		"requests run before what is due, and run again where only an older run was finished": {
			func() []reconcile.Run {
				short := cut
				short.Started = time.Now().Add(-time.Minute)
				return []reconcile.Run{short}
			},
			"update 3 a3 7; start; request orders 1; request other 0; pass 10s; stop; is ended=2 modified=1 waiting=0 running=false scanned=48",
		},
		"a dry run beside the schedule": {
			func() []reconcile.Run { return []reconcile.Run{none} }, `
			update 3 a3 7; start; request orders 1 dry; pass 1m; is ended=0 failed=0 modified=0 scanned=0 dry=1 examples=1;
			pass 30m; stop; is modified=1`,
		},
		"a request once its shard has started": {
			func() []reconcile.Run { return []reconcile.Run{none} }, `
			owner stops; start; request orders 1; pass 10s; is waiting=1 error=true;
			owner runs; pass 10s; stop; is waiting=0 error=false ended=1`,
		},
		"at once what is demanded, and not again where nothing new is": {
			func() []reconcile.Run { return []reconcile.Run{ended(time.Minute), ended(time.Minute)} }, `
			1:demand 1; start; pass 5s; ran 0 1; 1:demand 2; pass 5s; stop; ran 0 2; 1:answered 1 2`,
		},
		"and soon again where it was cut short": {
			func() []reconcile.Run { return []reconcile.Run{ended(time.Minute)} }, `
			demand 1; missing-once; start; pass 2s; is failed=1; pass 1m; stop; is failed=1 ended=1; answered 1`,
		},
	} {
		t.Run(name, inBubble(func(t *testing.T) { newPlant(t, c.last()...).play(c.script) }))
	}
	t.Run("at its usual time where a demand stays", inBubble(func(t *testing.T) {
		p := newPlant(t, ended(time.Minute))
		p.worlds[0].options.Owner = deaf{p.worlds[0]}
		p.shards[0].Reconciler = reconcile.New(p.worlds[0].options)
		p.play("demand 1; start; pass 10m; stop; ran 1")
	}))
	t.Run("soon again where another database was away, which answers no demand", inBubble(func(t *testing.T) {
		p := newPlant(t, ended(time.Minute))
		p.worlds[0].play("other away")
		p.shards[0].Reconciler = reconcile.New(p.worlds[0].options)
		p.play(`gone a4; delete 4; demand 1; start; pass 4m; is ended=1 failed=0 modified=0; answered;
			other back; pass 8m; stop; is ended=2; answered 1`)
	}))
	t.Run("none of what is paused, and what was asked for before does not wait for ever", inBubble(func(t *testing.T) {
		p := newPlant(t, ended(time.Hour), none)
		var paused atomic.Bool
		paused.Store(true)
		p.shards[0].Paused = paused.Load
		p.play("start; pass 10m; request orders 1; pass 1m; ran 0 1; is waiting=0 failed=0")
		paused.Store(false)
		p.play("pass 10s; ran 1 1; owner stops")
		for _, pause := range []string{"pass 20s; is waiting=1", "pass 1h; is waiting=0"} {
			p.play("request orders 2 allowed; pass 10s")
			paused.Store(true)
			p.play(pause)
			paused.Store(false)
		}
		p.stop()
	}))
	t.Run("every shard at random between half and all of its interval, one at a time", inBubble(func(t *testing.T) {
		p := newPlant(t, none, none, none)
		begin := time.Now()
		p.play("start; pass 10h; stop")
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
}

// deaf is an owner whose demand stays.
type deaf struct{ *world }

func (deaf) ReconcileDue() (uint64, bool) { return 1, true }

// busy is an owner that waits for its bus, and demands a run.
type busy struct{ deaf }

func (busy) Nominate(ctx context.Context, _ reconcile.Nomination) (reconcile.Verdict, error) {
	<-ctx.Done()
	return reconcile.Verdict{}, context.Cause(ctx)
}

func (busy) Reconciled(ctx context.Context, _ uint64) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// TestABusThatIsAway has one shard of a database unable to publish, and the other reconciled all
// the same: also where there is nothing to be published. The first goes on where it was.
func TestABusThatIsAway(t *testing.T) {
	for _, differs := range []bool{true, false} {
		inBubble(func(t *testing.T) {
			old := reconcile.Run{Started: time.Now().Add(-2 * time.Hour), Ended: time.Now().Add(-time.Hour)}
			p := newPlant(t, old, old)
			if differs {
				p.worlds[0].table.Update(3, "a3", "7")
			}
			p.worlds[1].table.Update(3, "a3", "7")
			p.worlds[0].options.Owner = busy{deaf{p.worlds[0]}}
			p.shards[0].Reconciler = reconcile.New(p.worlds[0].options)
			p.start()
			p.pass(time.Hour)
			if run := p.worlds[0].recorded(); len(p.begun[0]) < 3 || time.Since(run.Started) < 59*time.Minute {
				t.Errorf("the first, that differs: %v, has read its table from the beginning again: %+v", differs, run)
			}
			if len(p.begun[1]) == 0 {
				t.Errorf("not reconciled in an hour; the first, that differs: %v: %+v", differs, p.shards[0].Status())
			}
			p.stop()
		})(t)
	}
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
