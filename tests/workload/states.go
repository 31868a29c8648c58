package workload

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

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

// Capabilities writes states of entities: what a tail by id sees, and what it does not. An entity
// belongs to one writer, so that the order of its states is known.
type Capabilities struct {
	opts    CapabilityOptions
	writers []*stateWriter
	pacer   pacer
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
func NewCapabilities(opts CapabilityOptions) *Capabilities {
	opts.Table, opts.Writers, opts.Grace = cmp.Or(opts.Table, "capabilities"), cmp.Or(opts.Writers, 1), cmp.Or(opts.Grace, defaultGrace)
	if opts.Mix == nil {
		opts.Mix = EveryChange()
	}
	w := &Capabilities{opts: opts, histories: make(map[string]*History), sums: make(map[Change]int), step: 1}
	for i := range opts.Writers {
		w.writers = append(w.writers, &stateWriter{
			Capabilities: w, number: i, rng: rand.New(rand.NewPCG(opts.Seed, uint64(i))), app: fmt.Sprintf("app+%02d", i),
			byName: make(map[string]*stateEntity), old: uint64(i+1) * oldIDs, pause: retries(),
		})
	}
	return w
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
	const insertRows = 500 // in a statement
	for i, writer := range w.writers {
		left := w.opts.Entities*(i+1)/w.opts.Writers - w.opts.Entities*i/w.opts.Writers
		for ; left > 0; left -= insertRows {
			fill := bring("INSERT", func(w *stateWriter) []*stateEntity { return w.newcomers(min(left, insertRows)) })
			if err := fill(writer, ctx, InsertMany); err != nil {
				return fmt.Errorf("fill %s: %w", w.opts.Table, err)
			}
		}
	}
	return nil
}

// Run writes until the changes of the options are made or ctx ends, and returns nil then; it
// finishes the changes that it has begun, within Grace of the end of ctx. One that a deadlock or a
// wait for a lock undoes has not happened. A database or a table that is away is waited for; an
// error that says something else ends the run.
func (w *Capabilities) Run(ctx context.Context) error {
	w.pacer.start(w.opts.Changes, w.opts.Rate)
	writers, ctx := errgroup.WithContext(ctx)
	for _, writer := range w.writers {
		writers.Go(func() error { return writer.run(ctx) })
	}
	return writers.Wait()
}

// stateEntity is an entity of a writer.
type stateEntity struct {
	app, name string
	id        uint64
	state     uint64
	// other is the state that it flaps to.
	other     uint64
	condition Condition
}

// with returns a copy that is to be in another state.
func (e *stateEntity) with(condition Condition, state uint64) *stateEntity {
	c := *e
	c.condition, c.state = condition, state
	return &c
}

// renewed returns a copy that is to have a new row, whose id the table hands out.
func (e *stateEntity) renewed(state uint64) *stateEntity {
	c := e.with(Live, state)
	c.id = 0
	return c
}

// stateWriter makes one change after the other, of entities that nobody else touches.
type stateWriter struct {
	*Capabilities
	number int
	rng    *rand.Rand
	app    string
	// there are the entities with a row; byName finds them by what the server compares.
	there  []*stateEntity
	byName map[string]*stateEntity
	// gone are the last entities that lost theirs.
	gone []*stateEntity
	// states and names count those that were made.
	states uint64
	names  int
	// freed are ids that rows had, old those that none had yet.
	freed []uint64
	old   uint64
	pause backoff.Backoff
}

func (w *stateWriter) run(ctx context.Context) error {
	// What was cut short in mid-statement could have happened all the same.
	lasting, end := outlast(ctx, w.opts.Grace)
	defer end()
	for w.pacer.reserve() && w.pacer.pace(ctx) == nil {
		if err := w.turn(ctx, lasting); err != nil {
			return err
		}
	}
	return nil
}

// turn makes one change, another one when a database that is away has kept it from that. What is
// begun ends with lasting.
func (w *stateWriter) turn(ctx, lasting context.Context) error {
	for {
		change := w.choose()
		err := operations[change].run(w, lasting, change)
		switch {
		case lasting.Err() != nil && !errors.Is(err, errNeither):
			return nil
		case err == nil || isConflict(err):
			w.pause.Reset()
			return nil
		case !isAway(err):
			return fmt.Errorf("writer %d: %s: %w", w.number, change, err)
		}
		w.count(func(i *Interruptions) { i.Retries++ })
		if w.pause.Wait(ctx) != nil {
			return nil
		}
	}
}

// choose draws a change by its weight; in a fixed order, so that a seed always means the same.
func (w *stateWriter) choose() Change {
	sum := 0
	for _, weight := range w.opts.Mix {
		sum += weight
	}
	n := w.rng.IntN(sum)
	for _, change := range slices.Sorted(maps.Keys(w.opts.Mix)) {
		if n -= w.opts.Mix[change]; n < 0 {
			return change
		}
	}
	panic("unreachable: n is below the sum")
}

// newState returns a state that no entity ever had.
func (w *stateWriter) newState() uint64 {
	w.states++
	return w.states*uint64(w.opts.Writers) + uint64(w.number)
}

// fresh returns a name that no entity of the writer ever had. Most names have an upper-case and a
// lower-case form.
func (w *stateWriter) fresh() string {
	w.names++
	return fmt.Sprintf([]string{"Item-%d", "Café+%d", "%d", "köln/%d 😀"}[w.names%4], w.names)
}

// compared returns what the server compares of a name.
func (w *stateWriter) compared(name string) string {
	name = strings.TrimRight(name, " ")
	if w.opts.Loose {
		return strings.ToLower(name)
	}
	return name
}

// alike returns a name that differs in case or in spaces at its end.
func (w *stateWriter) alike(name string) string {
	switch {
	case w.rng.IntN(3) == 0 && strings.HasSuffix(name, " "):
		return strings.TrimRight(name, " ")
	case w.rng.IntN(3) == 0:
		return name + " "
	case strings.ContainsFunc(name, unicode.IsUpper):
		return strings.ToLower(name)
	}
	return strings.ToUpper(name)
}

// newcomers returns n entities without a row that differ: some that had one some time ago, others
// new.
func (w *stateWriter) newcomers(n int) (list []*stateEntity) {
	taken := make(map[string]bool)
	for len(list) < n {
		e := &stateEntity{app: w.app}
		if len(w.gone) > 0 && w.rng.IntN(3) == 0 {
			e = w.gone[w.rng.IntN(len(w.gone))]
		} else {
			e.name = w.fresh()
		}
		if key := w.compared(e.name); w.byName[key] == nil && !taken[key] {
			taken[key] = true
			list = append(list, e.renewed(w.newState()))
		}
	}
	return list
}

// recent is how many of a writer's rows count as recent.
const recent = 8

// pick returns an entity with a row in one of the given conditions, every other time a recent one;
// nil if there is none at hand.
func (w *stateWriter) pick(conditions ...Condition) *stateEntity {
	for range 20 {
		if len(w.there) == 0 {
			return nil
		}
		i := w.rng.IntN(len(w.there))
		if w.rng.IntN(2) == 0 {
			i = len(w.there) - 1 - w.rng.IntN(min(len(w.there), recent))
		}
		if e := w.there[i]; slices.Contains(conditions, e.condition) {
			return e
		}
	}
	return nil
}

// some returns up to n different entities with a row.
func (w *stateWriter) some(n int) (list []*stateEntity) {
	for range 2 * n {
		if e := w.pick(Live, Tombstone); e != nil && len(list) < n && !slices.Contains(list, e) {
			list = append(list, e)
		}
	}
	return list
}

// oldID returns an id below those that the table hands out: one that was free all along, or one
// that a row had.
func (w *stateWriter) oldID() uint64 {
	if len(w.freed) > 0 && w.rng.IntN(2) == 0 {
		i := w.rng.IntN(len(w.freed))
		id := w.freed[i]
		w.freed = slices.Delete(w.freed, i, i+1)
		return id
	}
	w.old--
	return w.old
}

// becomes brings the writer's entities and the record up to date after a commit.
func (w *stateWriter) becomes(c commit) {
	var lost []uint64
	for _, e := range c.now {
		key := w.compared(e.name)
		was := w.byName[key]
		if was != nil {
			lost = append(lost, was.id)
		}
		switch {
		case e.condition == Absent:
			delete(w.byName, key)
			i := slices.Index(w.there, was)
			w.there = slices.Delete(w.there, i, i+1)
			w.gone = append(w.gone, e)
			w.gone = w.gone[max(0, len(w.gone)-4*recent):]
		case was != nil:
			*was = *e
		default:
			w.there = append(w.there, e)
			w.byName[key] = e
		}
	}
	for _, id := range lost {
		if !slices.ContainsFunc(c.now, func(e *stateEntity) bool { return e.condition != Absent && e.id == id }) {
			w.freed = append(w.freed, id)
		}
	}
	w.note(c)
}
