package apptest

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"

	"example.org/bridge/internal/config/configtest"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testenv"
)

// Shop is an SQLite database with a table of 60 orders, and the environment of a bridge that
// publishes it to a server inside the process.
type Shop struct {
	db *sql.DB
	// Env is to be changed before it is read.
	Env configtest.Env
}

// NewShop makes a shop in a temporary folder.
func NewShop(t testing.TB) *Shop {
	t.Helper()
	dir := t.TempDir()
	db := must.Get(sql.Open("sqlite", "file:"+filepath.Join(dir, "shop.db")+"?_pragma=busy_timeout(5000)"))(t)
	t.Cleanup(func() { must.OK(t, db.Close()) })
	s := &Shop{db: db, Env: configtest.Env{
		"BRIDGE_SOURCE_URL": "sqlite://" + filepath.Join(dir, "shop.db"), "BRIDGE_SINK_URL": "embedded:", "BRIDGE_CHECKPOINT_URL": "file:" + filepath.Join(dir, "bridge.db"),
		"BRIDGE_STREAMS": "orders", "BRIDGE_STREAM_ORDERS_TABLE": "orders", "BRIDGE_STREAM_ORDERS_KIND": "capability", "BRIDGE_STREAM_ORDERS_KEY": "name",
		"BRIDGE_HTTP_ADDR": fmt.Sprint("127.0.0.1:", testenv.FreePort(t)), "BRIDGE_STABILITY_WINDOW": "0s", "BRIDGE_POLL_INTERVAL": "10ms",
	}}
	s.Exec(t, "PRAGMA journal_mode=wal")
	s.Exec(t, "CREATE TABLE orders (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, total INT)")
	s.Exec(t, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60) INSERT INTO orders (name, total) SELECT 'o' || i, i FROM n")
	return s
}

// NewTwoShops returns shops of two sources in the environment of a, without a source of no name:
// orders are those of a, and the release stream logs has the tables log_* of both.
func NewTwoShops(t testing.TB) (a, b *Shop) {
	t.Helper()
	a, b = NewShop(t), NewShop(t)
	a.Env["BRIDGE_SOURCES"], a.Env["BRIDGE_STREAMS"] = "a,b", "orders,logs"
	a.Env["BRIDGE_SOURCE_A_URL"], a.Env["BRIDGE_SOURCE_B_URL"] = a.Env["BRIDGE_SOURCE_URL"], b.Env["BRIDGE_SOURCE_URL"]
	delete(a.Env, "BRIDGE_SOURCE_URL")
	a.Env["BRIDGE_STREAM_ORDERS_TABLE"] = "a/orders"
	a.Env["BRIDGE_STREAM_LOGS_TABLE"], a.Env["BRIDGE_STREAM_LOGS_KIND"] = "a/log_*,b/log_*", "release"
	return a, b
}

// Exec runs a statement.
func (s *Shop) Exec(t testing.TB, statement string) {
	t.Helper()
	if _, err := s.db.Exec(statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// Create makes a table of totals with so many rows.
func (s *Shop) Create(t testing.TB, name string, rows int) {
	t.Helper()
	s.Exec(t, "CREATE TABLE "+name+" (id INTEGER PRIMARY KEY AUTOINCREMENT, total INT)")
	for range rows {
		s.Exec(t, "INSERT INTO "+name+" (total) VALUES (1)")
	}
}
