package mysql_test

import (
	"database/sql"
	"log/slog"
	"math"
	"testing"
	"time"

	"example.org/bridge/source/mysql"
	"example.org/bridge/source/sourcetest"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// eachProduct runs a test on each product at the same time. Each has a server of its own, and the
// tests of one server run one after the other: many of them read its counters.
func eachProduct(t *testing.T, test func(*testing.T, testenv.Product)) {
	t.Helper()
	testenv.EachProduct(t, func(t *testing.T, product testenv.Product) {
		t.Parallel()
		test(t, product)
	})
}

// ignored is what makes an index one that no statement may use.
func ignored(product testenv.Product) string {
	if product.IsMySQL() {
		return "INVISIBLE"
	}
	return "IGNORED"
}

// base is a database on a real server, with an administrator's pool and a source that reads as the
// administrator.
type base struct {
	server *testenv.DatabaseServer
	name   string
	admin  *sql.DB
	source *mysql.Source
	// log is what the sources of this base log.
	log *sourcetest.Log
}

func newBase(t *testing.T, server *testenv.DatabaseServer, changes ...func(*mysql.Options)) base {
	t.Helper()
	b := base{server: server, name: server.NewDatabase(t), log: new(sourcetest.Log)}
	b.admin = server.Admin(t, b.name)
	b.source = b.open(t, server.URL("", "", b.name), changes...)
	return b
}

func (b base) open(t testing.TB, url string, changes ...func(*mysql.Options)) *mysql.Source {
	t.Helper()
	return open(t, url, append(changes, func(o *mysql.Options) { o.Logger = slog.New(slog.NewTextHandler(b.log, nil)) })...)
}

func open(t testing.TB, url string, changes ...func(*mysql.Options)) *mysql.Source {
	t.Helper()
	o := must.Get(mysql.ParseURL(url))(t)
	for _, change := range changes {
		change(&o)
	}
	s := must.Get(mysql.Open(o))(t)
	t.Cleanup(func() { must.OK(t, s.Close()) })
	return s
}

// refreshAlways has columns read again at every page, refreshNever only where something tells that
// they have changed.
func refreshAlways(o *mysql.Options) { o.RefreshEvery = time.Nanosecond }
func refreshNever(o *mysql.Options)  { o.RefreshEvery = time.Hour }

func (b base) exec(t *testing.T, statement string, args ...any) {
	t.Helper()
	if _, err := b.admin.ExecContext(t.Context(), statement, args...); err != nil {
		t.Fatalf("%.200s: %v", statement, err)
	}
}

// replaceTable makes a table that may be there already.
func (b base) replaceTable(t *testing.T, name, definition string) {
	t.Helper()
	b.exec(t, "DROP TABLE IF EXISTS "+name)
	b.exec(t, "CREATE TABLE "+name+" "+definition)
}

// replaceUser makes a user@host that may be there already.
func (b base) replaceUser(t *testing.T, user, password string) {
	t.Helper()
	b.exec(t, "DROP USER IF EXISTS "+user)
	b.exec(t, "CREATE USER "+user+" IDENTIFIED BY '"+password+"'")
}

func (b base) status(t *testing.T, name string) (value string) {
	t.Helper()
	must.OK(t, b.admin.QueryRowContext(t.Context(), "SHOW GLOBAL STATUS LIKE '"+name+"'").Scan(&name, &value))
	return value
}

func (b base) query(t *testing.T, query string, args ...any) (text string) {
	t.Helper()
	must.OK(t, b.admin.QueryRowContext(t.Context(), query, args...).Scan(&text))
	return text
}

func TestSource(t *testing.T) {
	eachProduct(t, func(t *testing.T, product testenv.Product) {
		server := product.Shared(t)
		conform(t, func(t *testing.T) base { return newBase(t, server, refreshNever) })
	})
}

// conform runs the suite of sources on the bases that open makes.
func conform(t *testing.T, open func(*testing.T) base) {
	sourcetest.Run(t, func(t *testing.T) sourcetest.Fixture {
		b := open(t)
		fixture := sourcetest.Fixture{Source: b.source, Log: b.log, HighestID: math.MaxUint64, Quote: "`"}
		return sourcetest.SQL(fixture, b.admin, "BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY", "DATETIME(6) NOT NULL DEFAULT NOW(6)", true)
	})
}
