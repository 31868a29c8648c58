package sqlite_test

import (
	"database/sql"
	"fmt"
	"log/slog"
	"math"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"example.org/bridge/source/sourcetest"
	"example.org/bridge/source/sqlite"
	"example.org/bridge/tests/must"
)

// base is a database file with the application's pool and a source that reads the file.
type base struct {
	path   string
	app    *sql.DB
	source *sqlite.Source
	// log is what source logs.
	log *sourcetest.Log
}

// The ways in which an application may keep its database.
const (
	wal      = "_journal_mode=WAL&_busy_timeout=10000"
	rollback = "_journal_mode=DELETE&_busy_timeout=10000"
)

func newBase(t testing.TB, settings string, changes ...func(*sqlite.Options)) base {
	t.Helper()
	b := base{path: filepath.Join(t.TempDir(), "app.db"), log: new(sourcetest.Log)}
	b.app = openApp(t, b.path, settings)
	b.source = open(t, b.path, append(changes, func(o *sqlite.Options) { o.Logger = slog.New(slog.NewTextHandler(b.log, nil)) })...)
	return b
}

func openApp(t testing.TB, path, settings string) *sql.DB {
	t.Helper()
	db := must.Get(sql.Open("sqlite", (&url.URL{Scheme: "file", Path: path, RawQuery: settings}).String()))(t)
	t.Cleanup(func() { _ = db.Close() })
	must.OK(t, db.PingContext(t.Context()))
	return db
}

func open(t testing.TB, path string, changes ...func(*sqlite.Options)) *sqlite.Source {
	t.Helper()
	o := sqlite.Options{Path: path}
	for _, change := range changes {
		change(&o)
	}
	s := must.Get(sqlite.Open(o))(t)
	t.Cleanup(func() { must.OK(t, s.Close()) })
	return s
}

func (b base) exec(t testing.TB, statement string, args ...any) {
	t.Helper()
	if _, err := b.app.ExecContext(t.Context(), statement, args...); err != nil {
		t.Fatalf("%.200s: %v", statement, err)
	}
}

func (b base) query(t *testing.T, query string, args ...any) (text string) {
	t.Helper()
	must.OK(t, b.app.QueryRowContext(t.Context(), query, args...).Scan(&text))
	return text
}

func TestSource(t *testing.T) {
	for name, settings := range map[string]string{"with a write-ahead log": wal, "with a rollback journal": rollback} {
		t.Run(name, func(t *testing.T) {
			sourcetest.Run(t, func(t *testing.T) sourcetest.Fixture {
				b := newBase(t, settings)
				fixture := sourcetest.Fixture{Source: b.source, Log: b.log, HighestID: math.MaxInt64, Quote: `"`}
				return sourcetest.SQL(fixture, b.app, "INTEGER PRIMARY KEY AUTOINCREMENT", "DATETIME NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now'))", false)
			})
		})
	}
}

func mustOpenURL(t *testing.T, text string) sqlite.Options {
	t.Helper()
	o, err := sqlite.ParseURL(text)
	if err != nil {
		t.Fatal(fmt.Errorf("%s: %w", text, err))
	}
	return o
}

func TestParseURL(t *testing.T) {
	for text, want := range map[string]sqlite.Options{
		"sqlite:///var/lib/app.db":                 {Path: "/var/lib/app.db"},
		"sqlite:app.db":                            {Path: "app.db"},
		"sqlite:../data/app.db?epoch=ms":           {Path: "../data/app.db", Epoch: time.Millisecond},
		"sqlite:a%20b%3F%23%25.db":                 {Path: "a b?#%.db"},
		"sqlite:///with space/and=equals&more.db?": {Path: "/with space/and=equals&more.db"},
	} {
		t.Run("reads "+text, func(t *testing.T) {
			if got := mustOpenURL(t, text); got != want {
				t.Fatalf("%+v, want %+v", got, want)
			}
		})
	}
	for text, want := range map[string]string{
		"":                              "must look like sqlite:///",
		"sqlite://app.db":               "three slashes",
		"sqlite://u:p@/app.db":          "must look like sqlite:///",
		"sqlite:///a#b.db":              "%23",
		"sqlite:///a%zz.db":             "%25",
		"sqlite:":                       "must name the database file",
		"sqlite::memory:":               "in memory",
		"sqlite:a%00b":                  "NUL",
		"sqlite:///app.db?epoch=us":     "epoch must be s or ms",
		"sqlite:///app.db?mode=rw":      "unknown parameter",
		"sqlite:///app.db?epoch=s;x=ms": "malformed parameters",
	} {
		t.Run("refuses "+text, func(t *testing.T) {
			must.Fail(t, must.Err(sqlite.ParseURL(text)), want)
		})
	}
}
