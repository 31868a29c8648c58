package workload

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"example.org/bridge/client/backoff"
)

// Workload is a number of writers of rows and the record of what they did.
type Workload struct {
	opts    Options
	began   time.Time
	writers []*writer
	// mu guards the record.
	mu   sync.Mutex
	rows []*Row
	sums Sums
	// draw is called by the one that holds drawing.
	drawing sync.Mutex
	draw    func(d draw) (table string, ids []uint64)
}

// New returns a workload; Create makes its tables and Run sets it going.
func New(opts Options) *Workload {
	opts.Writers = cmp.Or(opts.Writers, 1)
	w := &Workload{opts: opts, draw: opts.IDs.start()}
	for i := range opts.Writers {
		w.writers = append(w.writers, &writer{Workload: w, number: i, rng: rand.New(rand.NewPCG(opts.Seed, uint64(i)))})
	}
	return w
}

func (w *Workload) Tables() []string { return w.opts.IDs.tables() }

// Create makes the tables that are not there yet.
func (w *Workload) Create(ctx context.Context) error {
	columns := map[Dialect]string{
		MySQL: `(
	id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY,
	entity varchar(64) NOT NULL,
	token varchar(64) NOT NULL,
	body varchar(255) NOT NULL,
	created datetime(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
	UNIQUE KEY entity (entity)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4`,
		SQLite: `(
	id INTEGER PRIMARY KEY AUTOINCREMENT,
	entity TEXT NOT NULL UNIQUE,
	token TEXT NOT NULL,
	body TEXT NOT NULL,
	created TEXT NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')))`,
	}
	for _, table := range w.Tables() {
		if _, err := w.opts.DB.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS "+table+" "+columns[w.opts.Dialect]); err != nil {
			return fmt.Errorf("create %s: %w", table, err)
		}
	}
	return nil
}

// Run writes until the commits of Options are made or ctx ends; then it rolls back what is open and
// returns nil, soon even where the server stands still. A database or a table that is away is
// waited for; an error that says something else ends it.
func (w *Workload) Run(ctx context.Context) error {
	w.began = time.Now()
	return crew{
		writers: w.opts.Writers, turns: w.opts.Commits, rate: w.opts.Rate,
		turn: func(ctx, lasting context.Context, i int) (bool, error) { return w.writers[i].turn(ctx, lasting) },
	}.run(ctx)
}

// Forget removes all rows from the record and returns them; a later Run goes on all the same. Each
// writer can still replace and delete 1,000 of its rows, evenly chosen. No Run may be under way.
func (w *Workload) Forget() (rows []*Row) {
	const kept = 1000
	for _, writer := range w.writers {
		if all := writer.own; len(all) > kept {
			writer.own = nil
			for i := range kept {
				writer.own = append(writer.own, all[(i+1)*len(all)/kept-1])
			}
		}
	}
	w.change(func(time.Time, *Sums) { rows, w.rows = w.rows, nil })
	return rows
}

type Outcome string

const (
	// Open is not finished yet.
	Open Outcome = "open"
	// Committed is committed: the row was there afterwards.
	Committed Outcome = "committed"
	// RolledBack was rolled back, by the writer or with its connection, before any COMMIT was sent.
	RolledBack Outcome = "rolled back"
	// Unknown is a COMMIT without an answer whose rows were not there afterwards, or that could not
	// be looked for.
	Unknown Outcome = "unknown"
)

// Row is one insertion. Times are the host's, with a monotonic reading.
type Row struct {
	// Table is where the row went, ID its id where the writer chose it, else 0.
	Table string
	ID    uint64
	// Entity is the row's unique key, Token what no other insertion has.
	Entity, Token string
	// Version counts the insertions of the entity, from 1, in the order of their transactions.
	Version int
	Outcome Outcome
	// Begun is before the statement that inserted the row, CommitBegun before the COMMIT,
	// CommitEnded after it. The last two are zero for a row that was rolled back.
	Begun, CommitBegun, CommitEnded time.Time
	// Ambiguous says that the COMMIT was not answered: CommitEnded is then when the row was found,
	// or given up.
	Ambiguous bool
	// GoneFrom is before the COMMIT of the transaction that replaced or deleted the row: from then
	// on it may not be there. It is zero while the row is there.
	GoneFrom time.Time
}

// Sums count what a workload did.
type Sums struct {
	// Commits, Rollbacks and Unknown count transactions by their outcome; Burned are those of
	// Rollbacks whose INSERT failed.
	Commits, Rollbacks, Unknown, Burned int
	// Rows counts the rows that were committed.
	Rows int
}

// Rows returns a copy of all entries, in the order in which their transactions were begun.
func (w *Workload) Rows() (rows []Row) {
	w.change(func(time.Time, *Sums) {
		for _, row := range w.rows {
			rows = append(rows, *row)
		}
	})
	return rows
}

// Enter adds rows that others have inserted to the record.
func (w *Workload) Enter(rows ...Row) {
	w.change(func(time.Time, *Sums) {
		for i := range rows {
			w.rows = append(w.rows, &rows[i])
		}
	})
}

func (w *Workload) Sums() (now Sums) { w.change(func(_ time.Time, s *Sums) { now = *s }); return now }

func (w *Workload) change(change func(now time.Time, sums *Sums)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(time.Now(), &w.sums)
}

type writer struct {
	*Workload
	number int
	rng    *rand.Rand
	// Those that are there.
	own []*Row
	// tokens counts the insertions.
	tokens int
}

type kind string

const (
	insert       kind = "insert"
	rollback     kind = "rollback"
	burn         kind = "burn"
	multiRow     kind = "multi-row"
	insertSelect kind = "insert-select"
	replace      kind = "replace"
	remove       kind = "delete"
)

// In one statement.
const maxRows = 8

type transaction struct {
	kind          kind
	table         string
	rows, removes []*Row
}

func (w *writer) turn(ctx, lasting context.Context) (done bool, err error) {
	if err := w.opts.IDs.silent(ctx, w.number, w.began); err != nil {
		return false, err
	}
	tx, err := open(ctx, w.opts.DB, w.opts.Dialect)
	if err != nil {
		return false, err
	}
	defer tx.end()
	t := w.prepare()
	w.change(func(now time.Time, _ *Sums) {
		for _, row := range t.rows {
			row.Outcome, row.Begun = Open, now
		}
		w.rows = append(w.rows, t.rows...)
	})
	err = w.work(ctx, tx, t)
	if err == nil {
		err = backoff.Pause(ctx, w.opts.Hold.choose(w.rng))
	}
	if err != nil || t.kind == rollback || t.kind == burn {
		w.change(func(_ time.Time, s *Sums) {
			for _, row := range t.rows {
				row.Outcome = RolledBack
			}
			s.Rollbacks++
		})
		// A connection that is gone has rolled back.
		if ended := tx.finish(lasting, "ROLLBACK"); err == nil {
			err = ended
		}
		return false, err
	}
	return true, w.commit(lasting, tx, t)
}

func (w *writer) prepare() *transaction {
	t := &transaction{kind: w.opts.Mix.choose(w.rng)}
	var old *Row
	if t.kind == burn || t.kind == replace || t.kind == remove {
		if len(w.own) == 0 {
			t.kind = insert
		} else {
			old = w.choose()
			t.table = old.Table
		}
	}
	if t.kind == replace || t.kind == remove {
		t.removes = []*Row{old}
	}
	n := 1
	switch t.kind {
	case remove:
		return t
	case multiRow, insertSelect:
		n = 2 + w.rng.IntN(maxRows-1)
	}
	w.drawing.Lock()
	table, ids := w.draw(draw{writer: w.number, rng: w.rng, table: t.table, rows: n})
	w.drawing.Unlock()
	t.table = table
	for i := range n {
		w.tokens++
		token := fmt.Sprintf("s%d-w%02d-%d", w.opts.Seed, w.number, w.tokens)
		row := &Row{Table: table, Entity: "e-" + token, Token: token, Version: 1}
		if ids != nil {
			row.ID = ids[i]
		}
		if old != nil {
			row.Entity, row.Version = old.Entity, old.Version+1
		}
		t.rows = append(t.rows, row)
	}
	return t
}

// Every other time a recent one: what was written just now is often written again.
func (w *writer) choose() *Row {
	among := len(w.own)
	if w.rng.IntN(2) == 0 {
		among = min(among, recent)
	}
	return w.own[len(w.own)-1-w.rng.IntN(among)]
}

func (w *writer) work(ctx context.Context, tx *session, t *transaction) error {
	if t.kind == remove {
		return deleteRows(ctx, tx, 1, "DELETE FROM "+t.table+" WHERE entity = ?", t.removes[0].Entity)
	}
	names := []string{"entity", "token", "body"}
	if t.rows[0].ID != 0 {
		names = append([]string{"id"}, names...)
	}
	var args []any
	for _, row := range t.rows {
		if row.ID != 0 {
			args = append(args, row.ID)
		}
		args = append(args, row.Entity, row.Token, fmt.Sprintf(`{"kind":%q,"version":%d}`, t.kind, row.Version))
	}
	verb := "INSERT"
	if t.kind == replace {
		verb = "REPLACE"
	}
	statement := insertInto(verb, t.table, names, len(t.rows))
	if t.kind == insertSelect {
		head, values, _ := strings.Cut(statement, "VALUES (")
		statement = head + "SELECT " + strings.ReplaceAll(strings.TrimSuffix(values, ")"), "), (", " UNION ALL SELECT ")
	}
	_, err := tx.ExecContext(ctx, statement, args...)
	if n, code := number(err); t.kind == burn && (n == duplicateKey || code == constraint) {
		w.change(func(_ time.Time, s *Sums) { s.Burned++ })
		return nil
	}
	return err
}

// commit sends the COMMIT and notes what became of it: the table tells where it was not answered.
func (w *writer) commit(ctx context.Context, tx *session, t *transaction) error {
	w.change(func(now time.Time, _ *Sums) {
		for _, row := range t.rows {
			row.CommitBegun = now
		}
		for _, row := range t.removes {
			row.GoneFrom = now
		}
	})
	var there map[string]bool
	unanswered := tx.finish(ctx, "COMMIT")
	var err error
	if unanswered != nil {
		there, err = w.find(ctx, t)
	}
	w.change(func(now time.Time, s *Sums) {
		for _, row := range t.rows {
			row.Outcome, row.CommitEnded, row.Ambiguous = Committed, now, unanswered != nil
			if unanswered != nil && !there[row.Token] {
				row.Outcome = Unknown
				continue
			}
			s.Rows++
			w.own = append(w.own, row)
		}
		for _, row := range t.removes {
			if there[row.Token] {
				row.GoneFrom = time.Time{}
				continue
			}
			i := len(w.own) - 1
			for w.own[i] != row {
				i-- // most of those that go have come of late
			}
			w.own = slices.Delete(w.own, i, i+1)
		}
		if unanswered == nil {
			s.Commits++
		} else {
			s.Unknown++
		}
	})
	return err
}

// The tokens that the entities of a transaction have now.
func (w *writer) find(ctx context.Context, t *transaction) (there map[string]bool, err error) {
	var entities []any
	for _, row := range slices.Concat(t.rows, t.removes) {
		entities = append(entities, row.Entity)
	}
	there = make(map[string]bool)
	err = lookup(ctx, w.opts.DB, w.opts.Dialect, func(rows *sql.Rows) error {
		var token string
		err := rows.Scan(&token)
		there[token] = true
		return err
	}, "SELECT token FROM "+t.table+" WHERE entity IN ("+placeholders(len(entities))+")", entities...)
	if err != nil {
		return nil, err
	}
	return there, nil
}
