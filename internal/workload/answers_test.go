package workload_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/go-sql-driver/mysql"

	"bridge/internal/testenv"
	"bridge/internal/workload"
)

// lossy is a connector to whose connections every tenth statement is lost, and the answer of every
// other tenth.
type lossy struct {
	driver.Connector
	statements atomic.Int64
}

func (l *lossy) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := l.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return lossyConn{conn, l}, nil
}

type lossyConn struct {
	driver.Conn
	*lossy
}

func (c lossyConn) CheckNamedValue(v *driver.NamedValue) error {
	return c.Conn.(driver.NamedValueChecker).CheckNamedValue(v)
}

func (c lossyConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	turn := c.statements.Add(1) % 10
	if turn == 3 {
		return nil, mysql.ErrInvalidConn
	}
	result, err := c.Conn.(driver.ExecerContext).ExecContext(ctx, query, args)
	if err == nil && turn == 7 {
		return nil, mysql.ErrInvalidConn
	}
	return result, err
}

func TestAnswersThatAreLostAreLookedUp(t *testing.T) {
	t.Parallel()
	for what, loose := range map[string]bool{"where case counts": false, "where it does not": true} {
		t.Run(what, func(t *testing.T) {
			server := testenv.MariaDB(t)
			database := server.NewDatabase(t)
			cfg, err := mysql.ParseDSN(server.DSN("", "", database))
			if err != nil {
				t.Fatal(err)
			}
			cfg.InterpolateParams, cfg.Logger = true, slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
			connector, err := mysql.NewConnector(cfg)
			if err != nil {
				t.Fatal(err)
			}
			whole := workload.CapabilityOptions{DB: server.Admin(t, database), Loose: loose}
			newCapabilities(t, whole)
			opts := workload.CapabilityOptions{DB: sql.OpenDB(&lossy{Connector: connector}), Loose: loose, Writers: 4, Changes: 1200, Seed: 11}
			opts.Mix = workload.EveryChange()
			// A writer with few rows makes none of these; how many it has is chance.
			for _, rare := range []workload.Change{workload.InsertMany, workload.InsertDead, workload.Purge, workload.ReplaceCrossed} {
				opts.Mix[rare] = 4
			}
			defer opts.DB.Close()
			opts.DB.SetMaxIdleConns(8)
			w, err := workload.NewCapabilities(opts)
			if err != nil {
				t.Fatal(err)
			}
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
