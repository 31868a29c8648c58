package workload

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"bridge/internal/backoff"
)

// CapabilityOptions describe a workload on a table of states.
type CapabilityOptions struct {
	// DB is the application's pool, of MariaDB or MySQL. It should keep as many idle connections as
	// there are writers.
	DB *sql.DB
	// Table is the table to write to. Defaults to "capabilities".
	Table string
	// Loose compares the key columns case-insensitively; else they compare byte for byte, save for
	// trailing spaces.
	Loose bool
	// WithoutModified leaves the column modified out: every update is silent then.
	WithoutModified bool
	// Entities is how many rows Create commits.
	Entities int
	// Writers is how many changes happen at the same time, at most. Defaults to 1.
	Writers int
	// Changes is how many changes to make; Run returns after them. 0 goes on until the context
	// ends.
	Changes int
	// Rate is how many changes are made in a second, at most, by all writers together. 0 is no
	// limit.
	Rate float64
	// Grace is how long a statement under way may take once the context of a run has ended.
	// Defaults to 3 s.
	Grace time.Duration
	// Seed determines what each writer does.
	Seed uint64
	// Mix holds the weight of each change. Defaults to all of them, see [EveryChange].
	Mix map[Change]int
}

func (o *CapabilityOptions) complete() error {
	o.Table = cmp.Or(o.Table, "capabilities")
	if o.Mix == nil {
		o.Mix = EveryChange()
	}
	o.Writers = max(o.Writers, 1)
	o.Grace = cmp.Or(o.Grace, defaultGrace)
	sum := 0
	for change, weight := range o.Mix {
		if _, known := runs[change]; !known || weight < 0 {
			return fmt.Errorf("%q has the weight %d: want a known change and 0 or more", change, weight)
		}
		sum += weight
	}
	switch {
	case o.DB == nil:
		return errors.New("a workload needs a database")
	case sum == 0:
		return errors.New("the mix has no change")
	case o.Entities < 0 || o.Changes < 0 || o.Rate < 0:
		return errors.New("entities, changes and rate must not be negative")
	}
	return nil
}

// Capabilities writes states of entities: what a tail by id sees, and what it does not. An entity
// belongs to one writer, so that the order of its states is known.
type Capabilities struct {
	opts    CapabilityOptions
	writers []*stateWriter
	// left is how many changes are still to be made, paced how many have had their turn.
	left, paced atomic.Int64
	started     time.Time
	// step is how far apart the ids are that the server hands out: 1 unless Create has learnt
	// otherwise.
	step uint64

	// mu guards the record.
	mu          sync.Mutex
	histories   map[string]*History
	sums        map[Change]int
	interrupted Interruptions
}

// NewCapabilities returns a workload; Create makes its table and Run sets it going.
func NewCapabilities(opts CapabilityOptions) (*Capabilities, error) {
	if err := opts.complete(); err != nil {
		return nil, err
	}
	w := &Capabilities{opts: opts, histories: make(map[string]*History), sums: make(map[Change]int), step: 1}
	for i := range opts.Writers {
		w.writers = append(w.writers, newStateWriter(w, i))
	}
	return w, nil
}

// oldIDs is how many ids each writer may use below those of the table's counter.
const oldIDs = 100_000

// Create makes the table and the first entities.
func (w *Capabilities) Create(ctx context.Context) error {
	if _, err := w.opts.DB.ExecContext(ctx, w.opts.createTable()); err != nil {
		return fmt.Errorf("create %s: %w", w.opts.Table, err)
	}
	if err := w.opts.DB.QueryRowContext(ctx, "SELECT @@auto_increment_increment").Scan(&w.step); err != nil {
		return fmt.Errorf("ask how far apart ids are: %w", err)
	}
	for i, writer := range w.writers {
		if err := writer.fill(ctx, w.opts.Entities*(i+1)/w.opts.Writers-w.opts.Entities*i/w.opts.Writers); err != nil {
			return fmt.Errorf("fill %s: %w", w.opts.Table, err)
		}
	}
	return nil
}

// Run writes until the changes of the options are made or ctx ends, and returns nil then; it
// finishes the changes that it has begun, within Grace of the end of ctx. One that a deadlock or a
// wait for a lock undoes has not happened. A database or a table that is away is waited for; an
// error that says something else ends the run.
func (w *Capabilities) Run(ctx context.Context) error {
	w.started = time.Now()
	w.left.Store(int64(w.opts.Changes))
	w.paced.Store(0)
	writers, ctx := errgroup.WithContext(ctx)
	for _, writer := range w.writers {
		writers.Go(func() error { return writer.run(ctx) })
	}
	return writers.Wait()
}

// reserveChange waits for the turn of the next change and reports whether it is to be made.
func (w *Capabilities) reserveChange(ctx context.Context) bool {
	if w.opts.Changes > 0 && w.left.Add(-1) < 0 {
		return false
	}
	if w.opts.Rate == 0 {
		return ctx.Err() == nil
	}
	due := w.started.Add(time.Duration(float64(w.paced.Add(1)-1) / w.opts.Rate * float64(time.Second)))
	return backoff.Pause(ctx, time.Until(due)) == nil
}

// Sums returns how often each change was made.
func (w *Capabilities) Sums() map[Change]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.sums)
}
