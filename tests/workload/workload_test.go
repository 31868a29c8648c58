package workload_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/workload"
)

func TestMain(m *testing.M) { testenv.Main(m) }

var mix = workload.Mix{Rollback: 0.1, Burn: 0.05, MultiRow: 0.1, InsertSelect: 0.05, Replace: 0.1, Delete: 0.05}

// newRows makes a workload of rows.
func newRows(t *testing.T, opts workload.Options) *workload.Workload {
	t.Helper()
	w := workload.New(opts)
	if err := w.Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w
}

// newStates makes a workload of states.
func newStates(t *testing.T, opts workload.CapabilityOptions) *workload.Capabilities {
	t.Helper()
	w := workload.NewCapabilities(opts)
	if err := w.Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w
}

func admin(t *testing.T, server *testenv.DatabaseServer, database string) *sql.DB {
	t.Helper()
	db := server.Admin(t, database)
	db.SetMaxIdleConns(16)
	return db
}

// each scans each row of a query into the variables that into points to, and calls then.
func each(t *testing.T, db *sql.DB, query string, then func(), into ...any) {
	t.Helper()
	rows, err := db.Query(query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			t.Fatal(err)
		}
		then()
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
}

// agree compares a record, behind rows that were forgotten, with what the tables hold.
func agree(t *testing.T, w *workload.Workload, db *sql.DB, forgotten ...*workload.Row) {
	t.Helper()
	there := make(map[string]uint64)
	for _, table := range w.Tables() {
		var id uint64
		var token string
		each(t, db, "SELECT id, token FROM "+table, func() { there[token] = id }, &id, &token)
	}
	rows, should, tokens := w.Record().Rows(), 0, make(map[string]bool)
	for _, row := range forgotten {
		rows = append(rows, *row)
	}
	for _, row := range rows {
		id, ok := there[row.Token]
		switch want := row.Outcome == workload.Committed && row.GoneFrom.IsZero(); {
		case row.Outcome == workload.Open:
			t.Errorf("still open: %+v", row)
		case row.Outcome != workload.Unknown && ok != want:
			t.Errorf("in the table: %v, the record says %+v", ok, row)
		case ok && row.ID != 0 && row.ID != id:
			t.Errorf("id %d in the table, the record says %+v", id, row)
		case want:
			should++
		}
		tokens[row.Token] = true
	}
	if should != len(there) || len(tokens) != len(rows) {
		t.Errorf("%d rows in the tables, %d by the record; it has %d rows with %d tokens", len(there), should, len(rows), len(tokens))
	}
}

// agreeStates compares what the histories end with and what the table holds, and returns how many
// newer states have a lower id.
func agreeStates(t *testing.T, w *workload.Capabilities, db *sql.DB, tables []string) (lower int) {
	t.Helper()
	there := make(map[string]string)
	var app, name, state string
	var deleted, hidden bool
	for _, table := range tables {
		each(t, db, "SELECT app, name, state, deleted, hidden FROM "+table, func() {
			switch entity := app + "/" + name; {
			case there[entity] != "":
				t.Errorf("two tables have %s", entity)
			case hidden:
				there[entity] = string(workload.Filtered)
			case deleted:
				there[entity] = string(workload.Tombstone)
			default:
				there[entity] = string(workload.Live) + state
			}
		}, &app, &name, &state, &deleted, &hidden)
	}
	for _, h := range w.Histories() {
		entity, should := h.App+"/"+h.Name, ""
		for i, v := range h.Versions {
			if should = string(v.Condition); v.Condition == workload.Live {
				should = fmt.Sprintf("%ss%d", should, v.State)
			}
			if i == 0 {
				continue
			}
			if was := h.Versions[i-1]; v.CommitBegun.Before(was.CommitBegun) {
				t.Errorf("%s: version %d was begun before the one before it: %+v", entity, i, h.Versions)
			} else if v.ID > 0 && v.ID < was.ID {
				lower++
			}
		}
		if should == string(workload.Absent) {
			should = ""
		}
		if there[entity] != should {
			t.Errorf("%s: the table has %q, the history ends with %q", entity, there[entity], should)
		}
		delete(there, entity)
	}
	if len(there) > 0 {
		t.Errorf("%v have rows and no history", there)
	}
	return lower
}

// start has run run until stop is called, which waits for its end.
func start(t *testing.T, run func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	return func() {
		t.Helper()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestTheRecordAgreesWithTheTable(t *testing.T) {
	t.Parallel()
	for name, ids := range map[string]workload.IDs{
		"of the database's own ids":      nil,
		"of interleaving nodes":          workload.Strides{Nodes: 3, Silence: 200 * time.Millisecond},
		"of blocks that containers hold": workload.Segments{Containers: 3, Block: 50},
		"of ids drawn in order":          workload.Ordered{},
	} {
		t.Run(name, func(t *testing.T) {
			const commits = 500
			server := testenv.MariaDB(t)
			db := admin(t, server, server.NewDatabase(t))
			w := newRows(t, workload.Options{
				DB: db, IDs: ids, Writers: 8, Commits: commits, Seed: 3, Mix: mix,
				Hold: workload.Hold{Short: time.Millisecond, Long: 200 * time.Millisecond, LongShare: 0.01},
			})
			if err := w.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			agree(t, w, db)
			if sums := w.Record().Sums(); sums.Commits != commits || sums.Rows < commits || sums.Rollbacks == 0 || sums.Burned == 0 || sums.Unknown > 0 {
				t.Errorf("%+v", sums)
			}
		})
	}
}

// TestSQLiteIsWrittenToo has the rows of a first run forgotten.
func TestSQLiteIsWrittenToo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.db")
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(10000)&_pragma=synchronous(0)&_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	w := newRows(t, workload.Options{DB: db, Dialect: workload.SQLite, Writers: 3, Rate: 1000, Mix: mix})
	var forgotten []*workload.Row
	for run := 1; run <= 2; run++ {
		stop := start(t, w.Run)
		until(t, func() bool { return w.Record().Sums().Commits >= run*200 })
		stop()
		if run == 1 {
			forgotten = w.Forget()
		}
	}
	agree(t, w, db, forgotten...)
	if n := len(w.Record().Rows()); len(forgotten) == 0 || n == 0 {
		t.Errorf("%d rows were forgotten, %d are kept", len(forgotten), n)
	}
}

func TestHistoriesEndAsTheTableIs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		entities int
		exec     exec
		tables   []string
		// lookups is how many commits had to be looked up at least; 0 is none.
		lookups int
	}{
		"as they are":                                 {200, nil, nil, 0},
		"over answers that are lost":                  {0, lossy(), nil, 50},
		"over deletes that are answered and not done": {0, undoneDeletes(), nil, 0},
		"in several tables":                           {60, nil, []string{"one", "two", "three"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			server := testenv.MariaDB(t)
			database := server.NewDatabase(t)
			db, opts := admin(t, server, database), workload.CapabilityOptions{Entities: c.entities}
			opts.DB, opts.Writers, opts.Changes, opts.Seed, opts.Tables = db, 4, 1200, 11, c.tables
			if c.exec != nil {
				newStates(t, opts)
				opts.DB = openFaulty(t, server, database, c.exec)
			}
			opts.Mix = workload.EveryChange()
			if c.tables == nil {
				c.tables = []string{"strict"}
			} else {
				opts.Mix = workload.HoppingChanges(true)
			}
			// A writer with few rows makes none of these; how many it has is chance.
			for _, rare := range []workload.Change{workload.InsertMany, workload.InsertDead, workload.Purge, workload.ReplaceCrossed} {
				if opts.Mix[rare] > 0 {
					opts.Mix[rare] = 4
				}
			}
			w := newStates(t, opts)
			for _, table := range c.tables {
				if _, err := db.Exec("ALTER TABLE " + table + " ADD hidden tinyint(1) NOT NULL DEFAULT 0"); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			lower, sums, met := agreeStates(t, w, db, c.tables), w.Sums(), w.Lookups()
			t.Logf("%v, %+v, %d newer states have a lower id", sums, met, lower)
			for change := range opts.Mix {
				if sums[change] == 0 {
					t.Errorf("no %s was made", change)
				}
			}
			if least := c.lookups; least > 0 != (met.Found+met.Doubtful > 0) || met.Found < least || met.Doubtful < least || lower < 10 {
				t.Errorf("%+v, %d newer states have a lower id: want many of each", met, lower)
			}
		})
	}
}

func TestTheEndOfTheContextRollsBackWhatIsOpen(t *testing.T) {
	server := testenv.MariaDB(t)
	w := newRows(t, workload.Options{
		DB: admin(t, server, server.NewDatabase(t)), Writers: 4, Hold: workload.Hold{Long: time.Minute, LongShare: 1},
	})
	stop := start(t, w.Run)
	until(t, func() bool { return len(w.Record().Rows()) == 4 })
	stop()
	for _, row := range w.Record().Rows() {
		if row.Outcome != workload.RolledBack {
			t.Errorf("%+v", row)
		}
	}
}

// until waits for a condition.
func until(t *testing.T, condition func() bool) {
	t.Helper()
	deadline, tick := time.After(2*time.Minute), time.NewTicker(5*time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-deadline:
			t.Fatal("not within two minutes")
		case <-tick.C:
		}
	}
}
