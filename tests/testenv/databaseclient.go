package testenv

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-sql-driver/mysql"
)

func (s *DatabaseServer) open(db string) (*sql.DB, error) {
	cfg := s.admin.Clone()
	cfg.DBName, cfg.MultiStatements = db, true
	cfg.Logger = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}

// reportedVersions has each version that was reported.
var reportedVersions sync.Map

// identify asks the server for its version and notes that it takes part.
func (s *DatabaseServer) identify(ctx context.Context) error {
	db, err := s.open("")
	if err != nil {
		return err
	}
	defer db.Close()
	if err := db.QueryRowContext(ctx, "SELECT VERSION()").Scan(&s.Version); err != nil {
		return err
	}
	if _, reported := reportedVersions.LoadOrStore(s.Version, true); !reported {
		kind := "MySQL"
		if s.IsMariaDB() {
			kind = "MariaDB"
		}
		report("real", kind+" "+s.Version)
	}
	return nil
}

// IsMariaDB reports whether the server is a MariaDB, as its version tells.
func (s *DatabaseServer) IsMariaDB() bool { return strings.Contains(s.Version, "MariaDB") }

// Root returns a connection pool of the administrator without a default database, closed when the
// test ends. It accepts several statements in one call.
func (s *DatabaseServer) Root(t testing.TB) *sql.DB {
	t.Helper()
	return s.Admin(t, "")
}

// Admin is Root with a default database.
func (s *DatabaseServer) Admin(t testing.TB, db string) *sql.DB {
	t.Helper()
	pool, err := s.open(db)
	check(t, err)
	t.Cleanup(func() { _ = pool.Close() })
	return pool
}

var databases atomic.Uint64

// NewDatabase creates a database with a name that nobody uses and drops it when the test ends.
func (s *DatabaseServer) NewDatabase(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("bridge_test_%d_%d", os.Getpid(), databases.Add(1))
	db := s.Root(t)
	_, err := db.Exec("CREATE DATABASE " + name + " CHARACTER SET utf8mb4")
	check(t, err)
	t.Cleanup(func() {
		// A server that the test has killed takes its databases with it.
		_, _ = db.Exec("DROP DATABASE IF EXISTS " + name)
	})
	return name
}

// DSN returns the address of a database in the form of go-sql-driver/mysql.
func (s *DatabaseServer) DSN(user, pass, db string) string {
	cfg := s.admin.Clone()
	if user != "" {
		cfg.User, cfg.Passwd = user, pass
	}
	cfg.DBName = db
	return cfg.FormatDSN()
}

// URL returns the address of a database in the form of BRIDGE_SOURCE_URL.
func (s *DatabaseServer) URL(user, pass, db string) string {
	if user == "" {
		user, pass = s.admin.User, s.admin.Passwd
	}
	u := url.URL{Scheme: "mysql", User: url.UserPassword(user, pass), Host: s.Addr, Path: "/" + db}
	return u.String()
}
