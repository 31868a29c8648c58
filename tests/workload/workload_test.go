package workload_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"bridge/tests/testenv"
	"bridge/tests/workload"
)

func TestMain(m *testing.M) { testenv.Main(m) }

var mix = workload.Mix{Rollback: 0.1, Burn: 0.05, MultiRow: 0.1, InsertSelect: 0.05, Replace: 0.1, Delete: 0.05}

func newWorkload(t *testing.T, opts workload.Options) *workload.Workload {
	t.Helper()
	w := workload.New(opts)
	if err := w.Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w
}

func openMariaDB(t *testing.T, server *testenv.DatabaseServer, writers int) *sql.DB {
	t.Helper()
	db := server.Admin(t, server.NewDatabase(t))
	db.SetMaxIdleConns(writers)
	return db
}

// agree compares what a record says with what the tables hold.
func agree(t *testing.T, w *workload.Workload, db *sql.DB) {
	t.Helper()
	there := make(map[string]uint64)
	for _, table := range w.Tables() {
		read(t, db, table, there)
	}
	should := 0
	for _, row := range w.Record().Rows() {
		id, ok := there[row.Token]
		switch want := row.Fate == workload.Committed && row.GoneFrom.IsZero(); {
		case row.Fate == workload.Open:
			t.Errorf("still open: %+v", row)
		case row.Fate != workload.Unknown && ok != want:
			t.Errorf("in the table: %v, the record says %+v", ok, row)
		case ok && row.ID != 0 && row.ID != id:
			t.Errorf("id %d in the table, the record says %+v", id, row)
		case want:
			should++
		}
	}
	if should != len(there) {
		t.Errorf("%d rows in the tables, %d by the record", len(there), should)
	}
}

func read(t *testing.T, db *sql.DB, table string, there map[string]uint64) {
	t.Helper()
	rows, err := db.Query("SELECT id, token FROM " + table)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var id uint64
		var token string
		if err := rows.Scan(&id, &token); err != nil {
			t.Fatal(err)
		}
		there[token] = id
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
}

func TestTheRecordAgreesWithTheTable(t *testing.T) {
	for name, ids := range map[string]workload.IDs{
		"of the database's own ids":            workload.AutoIncrement{},
		"of interleaving nodes":                workload.Strides{Nodes: 3, Silence: 200 * time.Millisecond},
		"of blocks that containers hold":       workload.Segments{Containers: 3, Block: 50},
		"of counters moved by compare-and-set": workload.Ordered{},
	} {
		t.Run(name, func(t *testing.T) {
			const commits = 1000
			db := openMariaDB(t, testenv.MariaDB(t), 8)
			w := newWorkload(t, workload.Options{
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

func TestSQLiteIsWrittenToo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.db")
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(10000)&_pragma=synchronous(0)&_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for table, ids := range map[string]workload.IDs{"counted": workload.AutoIncrement{}, "blocks": workload.Segments{Block: 50}} {
		w := newWorkload(t, workload.Options{
			DB: db, Dialect: workload.SQLite, IDs: ids, Table: table, Writers: 3, Commits: 200, Mix: mix,
		})
		if err := w.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		agree(t, w, db)
	}
}

func TestWritersGoOnOverARestartOfTheDatabase(t *testing.T) {
	server := testenv.StartMariaDB(t)
	db := openMariaDB(t, server, 16)
	w := newWorkload(t, workload.Options{
		DB: db, Writers: 16, Commits: 6000, Rate: 3000, Mix: mix,
		Hold: workload.Hold{Short: 5 * time.Millisecond, Long: time.Second, LongShare: 0.02},
	})
	done := make(chan error, 1)
	go func() { done <- w.Run(t.Context()) }()
	for kills := 1; kills <= 2; kills++ {
		until(t, func() bool { return w.Record().Sums().Commits >= kills*1500 })
		server.Restart(t)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	agree(t, w, db)
	sums := w.Record().Sums()
	t.Logf("%+v", sums)
	if sums.Reconnects == 0 || sums.Commits+sums.Unknown != 6000 {
		t.Errorf("%+v: want 6000 commits and reconnects", sums)
	}
}

func TestTheEndOfTheContextRollsBackWhatIsOpen(t *testing.T) {
	db := openMariaDB(t, testenv.MariaDB(t), 4)
	w := newWorkload(t, workload.Options{DB: db, Writers: 4, Hold: workload.Hold{Long: time.Minute, LongShare: 1}})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	until(t, func() bool { return len(w.Record().Rows()) == 4 })
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	for _, row := range w.Record().Rows() {
		if row.Fate != workload.RolledBack {
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
