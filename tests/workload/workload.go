package workload

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"bridge/internal/backoff"
)

// Workload is a number of writers and the record of what they did.
type Workload struct {
	opts    Options
	issuer  issuer
	writers []*writer
	record  Record
	pacer   pacer
}

// New returns a workload; Create makes its tables and Run sets it going.
func New(opts Options) *Workload {
	opts.Table, opts.Writers, opts.Grace = cmp.Or(opts.Table, "orders"), cmp.Or(opts.Writers, 1), cmp.Or(opts.Grace, defaultGrace)
	if opts.IDs == nil {
		opts.IDs = AutoIncrement{}
	}
	w := &Workload{opts: opts, issuer: opts.IDs.issuer(opts)}
	for i := range opts.Writers {
		w.writers = append(w.writers, &writer{Workload: w, number: i, rng: rand.New(rand.NewPCG(opts.Seed, uint64(i))), pause: retries()})
	}
	return w
}

// retries is the pause of a writer whose database is away.
func retries() backoff.Backoff {
	return backoff.Backoff{First: 10 * time.Millisecond, Max: 500 * time.Millisecond}
}

// Record returns the record, which grows while Run runs.
func (w *Workload) Record() *Record { return &w.record }

// Tables returns the names of the tables that rows go to.
func (w *Workload) Tables() []string { return w.issuer.tables() }

// Create makes the tables that are not there yet.
func (w *Workload) Create(ctx context.Context) error {
	for _, table := range w.issuer.tables() {
		if _, err := w.opts.DB.ExecContext(ctx, w.opts.Dialect.createTable(table)); err != nil {
			return fmt.Errorf("create %s: %w", table, err)
		}
	}
	return w.issuer.create(ctx)
}

// Run writes until the commits of Options are made or ctx ends; then it rolls back what is open and
// returns nil, within Grace of the end of ctx even where the server stands still. A database or a
// table that is away is waited for; an error that says something else ends it.
func (w *Workload) Run(ctx context.Context) error {
	w.pacer.start(w.opts.Commits, w.opts.Rate)
	w.issuer.start(time.Now())
	writers, ctx := errgroup.WithContext(ctx)
	for _, writer := range w.writers {
		writers.Go(func() error { return writer.run(ctx) })
	}
	return writers.Wait()
}

// Forget removes all rows from the record and returns them; a later Run goes on all the same. Each
// writer can still replace and delete 1,000 of its rows, evenly chosen. No Run may be under way.
func (w *Workload) Forget() []*Row {
	for _, writer := range w.writers {
		writer.own = evenly(writer.own, 1000)
	}
	return w.record.forget()
}

// evenly returns n of the rows, or all where there are no more, in their order.
func evenly(rows []*Row, n int) []*Row {
	if len(rows) <= n {
		return rows
	}
	some := make([]*Row, n)
	for i := range some {
		some[i] = rows[(i+1)*len(rows)/n-1]
	}
	return some
}

// pacer hands out turns to the writers of a run.
type pacer struct {
	limited bool
	rate    float64
	// left is how many turns are left, paced how many were waited for.
	left, paced atomic.Int64
	started     time.Time
}

// start begins a run of so many turns, or without a limit for 0, at most so many in a second, or
// without a limit.
func (p *pacer) start(turns int, rate float64) {
	p.limited, p.rate, p.started = turns > 0, rate, time.Now()
	p.left.Store(int64(turns))
	p.paced.Store(0)
}

// reserve takes a turn and reports whether there was one; giveBack returns it.
func (p *pacer) reserve() bool {
	for p.limited {
		left := p.left.Load()
		if left <= 0 {
			return false
		}
		if p.left.CompareAndSwap(left, left-1) {
			break
		}
	}
	return true
}

func (p *pacer) giveBack() { p.left.Add(1) }

// pace waits until the rate allows one more turn.
func (p *pacer) pace(ctx context.Context) error {
	if p.rate == 0 {
		return ctx.Err()
	}
	due := p.started.Add(time.Duration(float64(p.paced.Add(1)-1) / p.rate * float64(time.Second)))
	return backoff.Pause(ctx, time.Until(due))
}

// issuer draws ids. It is safe for concurrent use.
type issuer interface {
	// tables returns where rows go.
	tables() []string
	// create makes what the issuer needs in the database.
	create(ctx context.Context) error
	// start tells when the writers begin.
	start(at time.Time)
	// draw returns the table and the ids of new rows; nil leaves the ids to the database.
	draw(ctx context.Context, d draw) (table string, ids []uint64, err error)
}

// draw is a request for ids.
type draw struct {
	// writer is the number of the writer, rng its source of chance.
	writer int
	rng    *rand.Rand
	// table is where the rows must go; empty where it does not matter.
	table string
	rows  int
}

// IDs is where ids come from: AutoIncrement, Strides, Segments or Ordered.
type IDs interface {
	issuer(Options) issuer
}
