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

	"example.org/bridge/tests/testenv"
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

// undoneDeletes answers every other DELETE without doing it.
func undoneDeletes() exec {
	var deletes atomic.Int64
	return func(query string, run func() (driver.Result, error)) (driver.Result, error) {
		if strings.HasPrefix(query, "DELETE") && deletes.Add(1)%2 == 0 {
			return driver.RowsAffected(0), nil
		}
		return run()
	}
}
