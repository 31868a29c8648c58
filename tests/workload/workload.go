package workload

import (
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
	// left is how many commits are still to be made, paced how many transactions have had their
	// turn.
	left, paced atomic.Int64
	started     time.Time
}

// New returns a workload; Create makes its tables and Run sets it going.
func New(opts Options) (*Workload, error) {
	if err := opts.complete(); err != nil {
		return nil, err
	}
	w := &Workload{opts: opts}
	w.left.Store(int64(opts.Commits))
	var err error
	if w.issuer, err = opts.IDs.issuer(opts); err != nil {
		return nil, err
	}
	for i := range opts.Writers {
		w.writers = append(w.writers, newWriter(w, i))
	}
	return w, nil
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
// table that is away is waited for; an error that says something else ends it. A later Run goes on
// where the last one has ended.
func (w *Workload) Run(ctx context.Context) error {
	w.started = time.Now()
	w.paced.Store(0)
	w.issuer.start(w.started)
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

// reserve takes one of the commits that are to be made and reports whether there was one; giveBack
// returns it.
func (w *Workload) reserve() bool {
	if w.opts.Commits == 0 {
		return true
	}
	for {
		left := w.left.Load()
		if left <= 0 {
			return false
		}
		if w.left.CompareAndSwap(left, left-1) {
			return true
		}
	}
}

func (w *Workload) giveBack() { w.left.Add(1) }

// pace waits until the rate allows one more transaction.
func (w *Workload) pace(ctx context.Context) error {
	if w.opts.Rate == 0 {
		return ctx.Err()
	}
	turn := w.paced.Add(1) - 1
	due := w.started.Add(time.Duration(float64(turn) / w.opts.Rate * float64(time.Second)))
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
	issuer(Options) (issuer, error)
}
