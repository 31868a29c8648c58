package workload_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-sql-driver/mysql"

	"bridge/tests/testenv"
	"bridge/tests/workload"
)

// exec answers a statement, which run runs.
type exec func(query string, run func() (driver.Result, error)) (driver.Result, error)

// faulty is a connector whose connections run each statement through exec.
type faulty struct {
	driver.Connector
	exec exec
}

func (f *faulty) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := f.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return faultyConn{conn, f}, nil
}

type faultyConn struct {
	driver.Conn
	*faulty
}

func (c faultyConn) CheckNamedValue(v *driver.NamedValue) error {
	return c.Conn.(driver.NamedValueChecker).CheckNamedValue(v)
}

func (c faultyConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	return c.exec(query, func() (driver.Result, error) {
		return c.Conn.(driver.ExecerContext).ExecContext(ctx, query, args)
	})
}

// openFaulty opens a database whose statements go through exec.
func openFaulty(t *testing.T, server *testenv.DatabaseServer, database string, answer exec) *sql.DB {
	t.Helper()
	cfg, err := mysql.ParseDSN(server.DSN("", "", database))
	if err != nil {
		t.Fatal(err)
	}
	cfg.InterpolateParams, cfg.Logger = true, slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(&faulty{Connector: connector, exec: answer})
	db.SetMaxIdleConns(8)
	t.Cleanup(func() { db.Close() })
	return db
}

// lossy loses every tenth statement, and the answer of every other tenth.
func lossy() exec {
	var statements atomic.Int64
	return func(_ string, run func() (driver.Result, error)) (driver.Result, error) {
		turn := statements.Add(1) % 10
		if turn == 3 {
			return nil, mysql.ErrInvalidConn
		}
		result, err := run()
		if err == nil && turn == 7 {
			return nil, mysql.ErrInvalidConn
		}
		return result, err
	}
}

func TestAnswersThatAreLostAreLookedUp(t *testing.T) {
	t.Parallel()
	for what, loose := range map[string]bool{"where case counts": false, "where it does not": true} {
		t.Run(what, func(t *testing.T) {
			server := testenv.MariaDB(t)
			database := server.NewDatabase(t)
			whole := workload.CapabilityOptions{DB: server.Admin(t, database), Loose: loose}
			newCapabilities(t, whole)
			opts := workload.CapabilityOptions{DB: openFaulty(t, server, database, lossy()), Loose: loose, Writers: 4, Changes: 1200, Seed: 11}
			opts.Mix = workload.EveryChange()
			// A writer with few rows makes none of these; how many it has is chance.
			for _, rare := range []workload.Change{workload.InsertMany, workload.InsertDead, workload.Purge, workload.ReplaceCrossed} {
				opts.Mix[rare] = 4
			}
			w := workload.NewCapabilities(opts)
			if err := w.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			agreeStates(t, w, whole.DB)
			sums, met := w.Sums(), w.Interruptions()
			t.Logf("%v, %+v", sums, met)
			for change := range workload.EveryChange() {
				if sums[change] == 0 {
					t.Errorf("no %s was made", change)
				}
			}
			if met.Found < 100 || met.Doubtful < 100 {
				t.Errorf("%+v: want many of each", met)
			}
		})
	}
}

// TestDeletesThatAreAnsweredAndNotDone has every other DELETE answered as MariaDB answers one that
// was killed early: no error, no row.
func TestDeletesThatAreAnsweredAndNotDone(t *testing.T) {
	t.Parallel()
	server := testenv.MariaDB(t)
	database := server.NewDatabase(t)
	whole := server.Admin(t, database)
	var deletes, undone atomic.Int64
	db := openFaulty(t, server, database, func(query string, run func() (driver.Result, error)) (driver.Result, error) {
		if strings.HasPrefix(query, "DELETE") && deletes.Add(1)%2 == 0 {
			undone.Add(1)
			return driver.RowsAffected(0), nil
		}
		return run()
	})
	releases := newWorkload(t, workload.Options{DB: db, Writers: 4, Commits: 300, Mix: workload.Mix{Delete: 0.3}})
	states := newCapabilities(t, workload.CapabilityOptions{DB: db, Writers: 4, Changes: 300, Mix: map[workload.Change]int{
		workload.Insert: 4, workload.Delete: 1, workload.Reinsert: 1,
	}})
	for _, run := range []func(context.Context) error{releases.Run, states.Run} {
		before := undone.Load()
		if err := run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if undone.Load() < before+20 {
			t.Errorf("%d deletes were not done: too few", undone.Load()-before)
		}
	}
	agree(t, releases, whole)
	agreeStates(t, states, whole)
}
