package workload

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
)

// CapabilityOptions describe a workload of entities, whose keys compare byte for byte, save for
// trailing spaces.
type CapabilityOptions struct {
	// DB is the application's pool, of MariaDB or MySQL, which should keep an idle connection for
	// each writer.
	DB *sql.DB
	// Tables hold the entities, each in one of them. Defaults to the table strict.
	Tables []string
	// Entities is how many rows Create commits.
	Entities int
	// Writers is how many changes happen at the same time, at most. Defaults to 1.
	Writers int
	// Changes is how many changes to make; 0 goes on until the context ends.
	Changes int
	// Rate is how many changes are made in a second, at most; 0 is no limit.
	Rate float64
	// Seed determines what each writer does.
	Seed uint64
	// Mix holds the weight of each change. Defaults to [EveryChange], which is for one table.
	Mix map[Change]int
}

// Capabilities writes states of entities: what a tail by id sees, and what it does not.
type Capabilities struct {
	opts    CapabilityOptions
	writers []*stateWriter
	// step is how far apart the ids are that the server hands out.
	step uint64
	// mu guards the record.
	mu        sync.Mutex
	histories map[string]*History
	sums      map[Change]int
}

// NewCapabilities returns a workload; Create makes its table and Run sets it going.
func NewCapabilities(opts CapabilityOptions) *Capabilities {
	opts.Writers = cmp.Or(opts.Writers, 1)
	if opts.Tables == nil {
		opts.Tables = []string{states}
	}
	if opts.Mix == nil {
		opts.Mix = EveryChange()
	}
	w := &Capabilities{opts: opts, histories: make(map[string]*History), sums: make(map[Change]int)}
	for i := range opts.Writers {
		w.writers = append(w.writers, &stateWriter{
			Capabilities: w, number: i, rng: rand.New(rand.NewPCG(opts.Seed, uint64(i))), app: fmt.Sprintf("app+%02d", i),
			byName: make(map[string]*stateEntity), old: uint64(i+1) * oldIDs,
		})
	}
	return w
}

// oldIDs is how many ids each writer may use below those of the table's counter.
const oldIDs = 100_000

// Create makes the tables and the first entities.
func (w *Capabilities) Create(ctx context.Context) error {
	for _, table := range w.opts.Tables {
		if _, err := w.opts.DB.ExecContext(ctx, createTable(table, w.opts.Writers*oldIDs)); err != nil {
			return fmt.Errorf("create %s: %w", table, err)
		}
	}
	if err := w.opts.DB.QueryRowContext(ctx, "SELECT @@auto_increment_increment").Scan(&w.step); err != nil {
		return fmt.Errorf("ask how far apart ids are: %w", err)
	}
	const insertRows = 500 // in a statement
	for i, writer := range w.writers {
		writer.change = InsertMany
		left := w.opts.Entities*(i+1)/w.opts.Writers - w.opts.Entities*i/w.opts.Writers
		for ; left > 0; left -= insertRows {
			if err := writer.bring(ctx, "INSERT", writer.newcomers(min(left, insertRows))...); err != nil {
				return fmt.Errorf("fill %v: %w", w.opts.Tables, err)
			}
		}
	}
	return nil
}

// Run writes until the changes of the options are made or ctx ends, and returns nil then; it
// finishes the changes that it has begun, or soon gives up where the server stands still. A
// database or a table that is away is waited for; an error that says something else ends the run.
func (w *Capabilities) Run(ctx context.Context) error {
	return crew{
		writers: w.opts.Writers, turns: w.opts.Changes, rate: w.opts.Rate,
		// What was cut short in mid-statement could have happened all the same.
		turn: func(_, lasting context.Context, i int) (bool, error) {
			err := w.writers[i].turn(lasting)
			return err == nil, err
		},
	}.run(ctx)
}

// Condition says whether an entity has a row.
type Condition string

const (
	// Live: its row is there.
	Live Condition = "live"
	// Tombstone: its row is there and says that it is deleted.
	Tombstone Condition = "tombstone"
	// Filtered: its row is there and hidden.
	Filtered Condition = "filtered"
	// Absent: it has no row.
	Absent Condition = "absent"
)

// Version is one state of an entity. Times are the host's, with a monotonic reading.
type Version struct {
	Condition Condition
	// State is the number of the state, which the column state holds as "s<number>"; 0 unless live.
	// An entity may come back to a state.
	State uint64
	// ID is the id of its row; 0 for an absent one. A row that got another id and kept its state is
	// no new version.
	ID uint64
	// CommitBegun is before the commit that brought the version, CommitEnded after it: when it was
	// found where the commit was not answered.
	CommitBegun, CommitEnded time.Time
}

// History holds the versions of an entity in the order in which they were committed. Each differs
// from the one before in its condition or its state. Between the CommitEnded of a version and the
// CommitBegun of the next one the entity was as the version says.
type History struct {
	// App and Name are the entity, the values of the key columns.
	App, Name string
	Versions  []Version
	// Doubtful are versions whose commit was not answered, which were not there afterwards or that
	// nobody could look for: a reader may have seen them. They differ from the version before.
	Doubtful []Version
}

// Existed reports whether the entity had a live row all the while from one moment to another,
// whatever its states were.
func (h History) Existed(from, to time.Time) bool {
	existed := false
	for _, v := range h.Versions {
		switch {
		case v.CommitBegun.After(to):
			return existed
		case v.Condition != Live && v.CommitEnded.After(from):
			return false
		case !v.CommitEnded.After(from):
			existed = v.Condition == Live
		}
	}
	return existed
}

// Histories returns copies of all histories, in the order of their entities.
func (w *Capabilities) Histories() []History {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := make([]History, 0, len(w.histories))
	for _, h := range w.histories {
		list = append(list, History{App: h.App, Name: h.Name, Versions: slices.Clone(h.Versions), Doubtful: slices.Clone(h.Doubtful)})
	}
	slices.SortFunc(list, func(a, b History) int { return cmp.Or(cmp.Compare(a.App, b.App), cmp.Compare(a.Name, b.Name)) })
	return list
}

// Sums returns how often each change was made.
func (w *Capabilities) Sums() map[Change]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.sums)
}

// enter adds a version of an entity, which a commit that was begun at a time has brought, to the
// versions of its history that in returns. w.mu is held.
func (w *Capabilities) enter(e *stateEntity, begun time.Time, in func(*History) *[]Version) {
	key := e.app + "\x00" + e.name
	h := w.histories[key]
	if h == nil {
		h = &History{App: e.app, Name: e.name}
		w.histories[key] = h
	}
	v := Version{Condition: e.condition, CommitBegun: begun, CommitEnded: time.Now()}
	if e.condition != Absent {
		v.ID = e.id
	}
	if e.condition == Live {
		v.State = e.state
	}
	if n := len(h.Versions); n == 0 || h.Versions[n-1].Condition != v.Condition || h.Versions[n-1].State != v.State {
		*in(h) = append(*in(h), v)
	}
}

type stateEntity struct {
	app, name string
	// table is the one with its row, while it has one.
	table string
	id    uint64
	state uint64
	// other is the state that it flaps to.
	other     uint64
	condition Condition
}

func (e *stateEntity) with(condition Condition, state uint64) *stateEntity {
	c := *e
	c.condition, c.state = condition, state
	return &c
}

// The table hands out the id of the new row.
func (e *stateEntity) renewed(state uint64) *stateEntity {
	c := e.with(Live, state)
	c.id = 0
	return c
}

// Nobody else touches the entities of one writer.
type stateWriter struct {
	*Capabilities
	number int
	rng    *rand.Rand
	app    string
	change Change
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
}

// turn makes a change that it draws by its weight; in a fixed order, so that a seed always means
// the same.
func (w *stateWriter) turn(ctx context.Context) error {
	sum := 0
	for _, weight := range w.opts.Mix {
		sum += weight
	}
	n := w.rng.IntN(sum)
	for _, w.change = range slices.Sorted(maps.Keys(w.opts.Mix)) {
		if n -= w.opts.Mix[w.change]; n < 0 {
			break
		}
	}
	if err := operations[w.change].run(w, ctx); err != nil {
		return fmt.Errorf("%s: %w", w.change, err)
	}
	return nil
}

func (w *stateWriter) newState() uint64 {
	w.states++
	return w.states*uint64(w.opts.Writers) + uint64(w.number)
}

// Most names have an upper-case and a lower-case form.
func (w *stateWriter) fresh() string {
	w.names++
	return fmt.Sprintf([]string{"Item-%d", "Café+%d", "%d", "köln/%d 😀"}[w.names%4], w.names)
}

// compared returns what the server compares of a name.
func compared(name string) string { return strings.TrimRight(name, " ") }

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

// newcomers returns n entities without a row that differ, for one table: some that had one some
// time ago, others new.
func (w *stateWriter) newcomers(n int) (list []*stateEntity) {
	taken, table := make(map[string]bool), w.opts.Tables[w.rng.IntN(len(w.opts.Tables))]
	for len(list) < n {
		e := &stateEntity{app: w.app}
		if len(w.gone) > 0 && w.rng.IntN(3) == 0 {
			e = w.gone[w.rng.IntN(len(w.gone))]
		} else {
			e.name = w.fresh()
		}
		if key := compared(e.name); w.byName[key] == nil && !taken[key] {
			taken[key] = true
			e = e.renewed(w.newState())
			e.table = table
			list = append(list, e)
		}
	}
	return list
}

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

func (w *stateWriter) replaced(n int) (now []*stateEntity) {
	var picked []*stateEntity
	for range 2 * n {
		if e := w.pick(Live, Tombstone); e != nil && len(now) < n && !slices.Contains(picked, e) {
			picked = append(picked, e)
			now = append(now, e.renewed(w.newState()))
		}
	}
	return now
}

// withOldID gives entities ids below those that the table hands out: each one that was free all
// along, or one that a row had.
func (w *stateWriter) withOldID(entities []*stateEntity) []*stateEntity {
	for _, e := range entities {
		if len(w.freed) > 0 && w.rng.IntN(2) == 0 {
			i := w.rng.IntN(len(w.freed))
			e.id = w.freed[i]
			w.freed = slices.Delete(w.freed, i, i+1)
		} else {
			w.old--
			e.id = w.old
		}
	}
	return entities
}
