package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/event"
	"example.org/bridge/internal/backoff"
	"example.org/bridge/internal/catchup"
	"example.org/bridge/internal/config"
	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/option"
	"example.org/bridge/internal/shard"
	"example.org/bridge/internal/standby"
	"example.org/bridge/reconcile"
)

// Alone reconciles and sends dead letters again without a running bridge.
type Alone struct {
	// Config has the streams to work on.
	Config *config.Config
	Logger *slog.Logger
	// Show is called now and then with the progress.
	Show func(Step)
}

// Step is the progress with one shard.
type Step struct {
	Stream, Shard string
	// CatchUp is how far the stream has caught up from the bus, Run the reconcile under way. Both
	// are nil while the tail catches up from Position to Highest.
	CatchUp           *httpapi.CatchUpStatus
	Run               *httpapi.ReconcileStatus
	Position, Highest uint64
	// Done of Tables tables are reconciled.
	Done, Tables int
}

// Outcome is the result of the reconcile of one shard.
type Outcome struct {
	Stream string `json:"stream"`
	Shard  string `json:"shard"`
	// Compared is what of the table was compared: AllRows, or of a release stream UnpolledIDs.
	Compared string `json:"compared"`
	// Published counts the rows that were published meanwhile, those of the tail among them. It is
	// nil where a running bridge was asked.
	Published *uint64 `json:"published,omitempty"`
	httpapi.ReconcileReport
}

// What of a table a reconcile compares.
const (
	AllRows     = "rows"
	UnpolledIDs = "unpolledIds"
)

// ComparedOf returns what a reconcile compares of a stream of a kind.
func ComparedOf(kind string) string {
	if kind == string(event.Release) {
		return UnpolledIDs
	}
	return AllRows
}

// Reconcile reconciles each table once, after its tail has caught up. A dry run has no tail; it
// compares with the checkpoint.
func (a *Alone) Reconcile(ctx context.Context, mode reconcile.Mode) ([]Outcome, error) {
	run := &aloneRun{Alone: a, mode: mode}
	if mode.DryRun {
		err := run.dry(ctx)
		return run.outcomes, err
	}
	var shards []*shard.Shard
	err := a.tailing(ctx, func(ctx context.Context, app *App) error {
		shards = app.shards
		for i, sh := range app.shards {
			run.one(ctx, app, sh, app.reconcilers[i].Reconciler)
		}
		return ctx.Err()
	})
	// What was in flight is published by now. Each shard has an outcome, in their order.
	for i := range run.outcomes {
		rows := shards[i].Traffic().Rows
		run.outcomes[i].Published = &rows
	}
	return run.outcomes, err
}

// Begins says what Reconcile does before it compares.
func (a *Alone) Begins() string {
	text := fmt.Sprintf("no bridge runs at %s: this command reads the bus, publishes what the tables have that was not published, and reconciles", a.Config.HTTPAddr)
	if _, err := os.Stat(a.Config.CheckpointPath); errors.Is(err, fs.ErrNotExist) && a.Config.CheckpointTopic == "" {
		text += fmt.Sprintf("; there is no checkpoint at %s: where the bus has nothing of a table, it is published from its START on", a.Config.CheckpointPath)
	}
	return text
}

// DeadLetters calls do with a function that sends dead letters again, after the tail of their table
// has caught up. A preview only reads the tables and the checkpoint.
func (a *Alone) DeadLetters(ctx context.Context, preview bool, do func(context.Context, Resend) error) error {
	if _, err := os.Stat(a.Config.CheckpointPath); errors.Is(err, fs.ErrNotExist) && (preview || a.Config.CheckpointTopic == "") {
		// Without a checkpoint the tail would begin where START says.
		return option.Errorf("there is no checkpoint at %s: what was published is not known; see to %s", a.Config.CheckpointPath, option.CheckpointURL)
	}
	if preview {
		if err := a.mayBeBehind(); err != nil {
			return err
		}
		return a.previewDeadLetters(ctx, do)
	}
	run := &aloneRun{Alone: a}
	return a.tailing(ctx, func(ctx context.Context, app *App) error {
		return do(ctx, func(ctx context.Context, request httpapi.ResendRequest) ([]shard.ResendOutcome, error) {
			sh := shardOf(app.shards, request)
			if sh == nil {
				return nil, httpapi.ErrNoStream
			}
			if err := run.catchUp(ctx, app, sh); err != nil {
				return nil, err
			}
			return app.Daemon().Resend(ctx, request)
		})
	})
}

func (a *Alone) previewDeadLetters(ctx context.Context, do func(context.Context, Resend) error) error {
	return a.looking(ctx, func(p *parts, streams []*stream) error {
		shards, err := newShards(a.Config, p, streams)
		if err != nil {
			return err
		}
		return do(ctx, func(ctx context.Context, request httpapi.ResendRequest) ([]shard.ResendOutcome, error) {
			sh := shardOf(shards, request)
			if sh == nil {
				return nil, httpapi.ErrNoStream
			}
			return sh.Preview(ctx, request.DeadLetters)
		})
	})
}

// shardOf returns the shard of a request, nil if there is none.
func shardOf(shards []*shard.Shard, request httpapi.ResendRequest) *shard.Shard {
	for _, sh := range shards {
		if s := sh.Status(); s.Stream == request.Stream && s.Shard == request.Shard {
			return sh
		}
	}
	return nil
}

// locked says what to do where another process has locked the store.
func (a *Alone) locked(err error) error {
	if !errors.Is(err, store.ErrLocked) {
		return err
	}
	return fmt.Errorf("%w: another process holds %s, and no bridge answers at %s: where that process is a bridge, set %s to the address on which it listens; else end it",
		store.ErrLocked, a.Config.CheckpointPath, a.Config.HTTPAddr, config.HTTPVariable)
}

// tailing calls do while the streams are tailed, and then shuts them down in order.
func (a *Alone) tailing(ctx context.Context, do func(context.Context, *App) error) (err error) {
	app, err := Open(ctx, Options{Config: a.Config, Logger: a.Logger})
	if err != nil {
		return a.locked(err)
	}
	defer func() { err = errors.Join(err, app.Close()) }()
	running, end := context.WithCancel(ctx)
	defer end()
	return app.run(running, func(ctx context.Context) error {
		// The shards publish and save what is in flight.
		defer end()
		return do(ctx, app)
	})
}

// mayBeBehind returns an error where another process may have published what the checkpoint lacks:
// a dry run does not read the bus.
func (a *Alone) mayBeBehind() error {
	if a.Config.Standby.Group == "" {
		return nil
	}
	return option.Errorf("another process of the standby group (%s) may have published what the checkpoint at %s lacks: type a dry run where a process of the group runs",
		option.Standby, a.Config.CheckpointPath)
}

// looking calls do with the source and the store, without a tail and a bus. It changes nothing.
func (a *Alone) looking(ctx context.Context, do func(*parts, []*stream) error) (err error) {
	p := newParts(a.Config, prometheus.NewRegistry(), a.Logger)
	src, err := OpenSource(a.Config, a.Logger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	kept, err := openToRead(ctx, a.Config.CheckpointPath, a.Logger)
	if err != nil {
		return a.locked(err)
	}
	defer func() { err = errors.Join(err, kept.Close()) }()
	if err := p.use(ctx, kept); err != nil {
		return err
	}
	p.source = src
	streams, err := newStreams(a.Config, &p)
	if err != nil {
		return err
	}
	return do(&p, streams)
}

// aloneRun is one reconcile of all tables.
type aloneRun struct {
	*Alone
	mode     reconcile.Mode
	outcomes []Outcome
}

// one waits until a shard has caught up, reconciles it and records the outcome.
func (a *aloneRun) one(ctx context.Context, app *App, sh *shard.Shard, r *reconcile.Reconciler) {
	if err := a.catchUp(ctx, app, sh); err != nil {
		a.note(r, reconcile.Report{Error: config.StreamText(r.Status().Stream)(err)})
		return
	}
	a.compare(ctx, r)
}

// stillTimeout is how long a tail may make no progress before its shard is reconciled as it is.
const stillTimeout = 30 * time.Second

// catchUp waits until the stream has caught up from the bus, and then until the tail has reached
// the end that the table had at its first read, or makes no progress. If deletes are allowed, a
// shard that stopped because its ids are used again resumes.
func (a *aloneRun) catchUp(ctx context.Context, app *App, sh *shard.Shard) error {
	if err := a.readBus(ctx, app, sh.Status()); err != nil {
		return err
	}
	var target, last uint64
	accepted, moved, polled := false, time.Now(), time.Time{}
	for {
		s := sh.Status()
		reach, running := sh.Reach()
		if target == 0 {
			target = s.Highest
		}
		switch {
		case running && !s.LastPoll.IsZero() && reach >= target:
			return nil
		case s.State == shard.Stopped && !accepted:
			if !a.mode.AllowDeletes || !sh.Accept() {
				return errors.New(s.LastError)
			}
			accepted, moved, target = true, time.Now(), 0
		case s.Position != last || !running && s.LastPoll != polled:
			last, polled, moved = s.Position, s.LastPoll, time.Now()
		case time.Since(moved) > stillTimeout && running:
			return nil
		case time.Since(moved) > stillTimeout:
			return fmt.Errorf("the tail does not get going within %s: %s", stillTimeout, s.LastError)
		}
		a.Show(Step{Stream: s.Stream, Shard: s.Shard, Position: s.Position, Highest: s.Highest})
		if err := backoff.Pause(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// readBus waits until the stream of a shard has caught up from the bus, or does not get on.
func (a *aloneRun) readBus(ctx context.Context, app *App, of shard.Status) error {
	moved, last := time.Now(), catchup.StreamProgress{}
	for {
		all := app.recovery.Progress().Streams
		p := all[slices.IndexFunc(all, func(p catchup.StreamProgress) bool { return p.Stream == of.Stream })]
		switch {
		case p.Ready || p.Err != nil:
			return p.Err
		case app.othersWork():
			s := app.member.Status()
			return elsewhere(&s)
		case p.Messages != last.Messages || p.Left != last.Left:
			moved, last = time.Now(), p
		case time.Since(moved) > stillTimeout:
			return fmt.Errorf("nothing was read from the bus for %s: %w", stillTimeout, app.stuck(ctx))
		}
		status := catchUpStatus(&p)
		a.Show(Step{Stream: of.Stream, Shard: of.Shard, CatchUp: &status})
		if err := backoff.Pause(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// elsewhere says where a command is to be typed: another process of the standby group works. It
// names no address: the command would send the token there, and the bus alone tells it.
func elsewhere(s *standby.Status) error {
	return option.Errorf("%s works in the standby group of this configuration (%s): run the command where a process of the group runs, or with %s set to the address of one", worker(s), option.Standby, config.HTTPVariable)
}

// stuck returns what keeps the bus from being read: the source, which is compared with the newest
// messages first, the bus, or another outage.
func (a *App) stuck(ctx context.Context) error {
	if err := a.sourceReady(ctx); err != nil {
		return fmt.Errorf("the source is away, and the bus is compared with it: %w", err)
	}
	return cmp.Or(a.sink.Ready(ctx), a.faults.Err(), errSilent)
}

// errSilent is why nothing is read from a bus that seems to be in order.
var errSilent = errors.New("it answers, and tells no reason")

// showEvery is the time between two calls of Show.
const showEvery = 250 * time.Millisecond

// compare reconciles a shard once and records the outcome. It first finishes a run that was cut
// short.
func (a *aloneRun) compare(ctx context.Context, r *reconcile.Reconciler) {
	ended := make(chan reconcile.Report, 1)
	go func() {
		for {
			report, err := r.Run(ctx, a.mode)
			if err != nil {
				report.Error = config.StreamText(r.Status().Stream)(err)
			} else if report.Resumed {
				continue
			}
			ended <- report
			return
		}
	}()
	tick := time.NewTicker(showEvery)
	defer tick.Stop()
	for {
		select {
		case report := <-ended:
			a.note(r, report)
			return
		case <-tick.C:
			s := r.Status()
			a.Show(Step{Stream: s.Stream, Shard: s.Shard, Run: reconcileStatus(s), Done: len(a.outcomes), Tables: countTables(a.Config)})
		}
	}
}

// note records the outcome of a shard. A guard that tripped earlier holds until a run passes.
func (a *aloneRun) note(r *reconcile.Reconciler, report reconcile.Report) {
	s := r.Status()
	outcome := Outcome{Stream: s.Stream, Shard: s.Shard, Compared: ComparedOf(string(a.Config.Stream(s.Stream).Kind)), ReconcileReport: *reconcileReport(report)}
	outcome.DryRun = a.mode.DryRun
	if outcome.Guard == nil && !a.mode.DryRun {
		outcome.Guard = httpapi.Given(s.Guard)
	}
	a.outcomes = append(a.outcomes, outcome)
}

// dry compares the tables with the checkpoint, without a tail and a bus.
func (a *aloneRun) dry(ctx context.Context) error {
	if err := a.mayBeBehind(); err != nil {
		return err
	}
	if _, err := os.Stat(a.Config.CheckpointPath); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no checkpoint at %s: nothing was published yet that a table could be compared with", a.Config.CheckpointPath)
	}
	return a.looking(ctx, func(p *parts, streams []*stream) error {
		owners := make([]reconcile.Owner, countTables(a.Config))
		positions := make([]savedPosition, len(owners))
		for i := range owners {
			owners[i] = &positions[i]
		}
		all := scheduled(a.Config, p, streams, owners)
		for i := range all {
			if err := positions[i].load(ctx, a.Config, p, all[i].Status()); err != nil {
				a.note(all[i].Reconciler, reconcile.Report{Error: config.StreamText(all[i].Status().Stream)(err)})
				continue
			}
			a.compare(ctx, all[i].Reconciler)
		}
		return ctx.Err()
	})
}

// Keep returns the configuration with only those streams for which keep returns true.
func Keep(cfg *config.Config, keep func(*config.Stream) bool) *config.Config {
	some := *cfg
	some.Streams = slices.DeleteFunc(slices.Clone(cfg.Streams), func(s config.Stream) bool { return !keep(&s) })
	return &some
}
