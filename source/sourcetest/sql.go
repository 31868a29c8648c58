package sourcetest

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"strings"
	"testing"

	"example.org/bridge/source"
	"example.org/bridge/tests/must"
)

type execer interface {
	ExecContext(ctx context.Context, statement string, args ...any) (sql.Result, error)
}

func exec(t *testing.T, db execer, statement string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), statement, args...); err != nil {
		t.Fatalf("%.200s: %v", statement, err)
	}
}

func begin(t *testing.T, db *sql.DB) (tx *sql.Tx, end func(commit bool)) {
	t.Helper()
	tx = must.Get(db.BeginTx(t.Context(), nil))(t)
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx, func(commit bool) {
		end := tx.Rollback
		if commit {
			end = tx.Commit
		}
		must.OK(t, end())
	}
}

// SQL completes a fixture that has Source, Log and HighestID by what writes through db. Here id and
// created are the definitions of columns that databases write differently. Concurrent says that
// readers and several writers do not exclude each other.
func SQL(f Fixture, db *sql.DB, id, created string, concurrent bool) Fixture {
	tables := 0
	create := func(t *testing.T, columns string) string {
		tables++
		table := fmt.Sprint("suite_", tables)
		exec(t, db, "CREATE TABLE "+table+" (id "+id+", "+columns+")")
		return table
	}
	insert := func(t *testing.T, tx *sql.Tx, table string, rows []Row) {
		for _, row := range rows {
			exec(t, tx, "INSERT INTO "+table+" (id, name, note) VALUES (?, ?, ?)", row.ID, row.Name, row.Note)
		}
	}
	touch := func(t *testing.T, on execer, table string, id uint64, modified string) {
		exec(t, on, "UPDATE "+table+" SET modified = NULLIF(?, '') WHERE id = ?", modified, id)
	}
	f.Exec = func(t *testing.T, statement string, args ...any) { exec(t, db, statement, args...) }
	f.NewTable = func(t *testing.T) string {
		return create(t, "name LONGTEXT NOT NULL, note LONGTEXT, created "+created)
	}
	f.Insert = func(t *testing.T, table string, rows ...Row) {
		tx, end := begin(t, db)
		insert(t, tx, table, rows)
		end(true)
	}
	f.NewKeyed = func(t *testing.T) string {
		table := create(t, "name VARCHAR(100) NOT NULL, part INT NOT NULL, ratio DOUBLE, modified DATETIME(3), UNIQUE (part, name)")
		exec(t, db, "CREATE INDEX by_modified ON "+table+" (modified)")
		return table
	}
	f.InsertKeyed = func(t *testing.T, table string, rows ...KeyedRow) {
		tx, end := begin(t, db)
		for _, row := range rows {
			exec(t, tx, "INSERT INTO "+table+" (id, name, part, modified) VALUES (?, ?, ?, NULLIF(?, ''))", row.ID, row.Name, row.Part, row.Modified)
		}
		end(true)
	}
	f.Touch = func(t *testing.T, table string, id uint64, modified string) { touch(t, db, table, id, modified) }
	f.AddColumn = func(t *testing.T, table, column string) { exec(t, db, "ALTER TABLE "+table+" ADD "+column+" TEXT") }
	f.DropColumn = func(t *testing.T, table, column string) { exec(t, db, "ALTER TABLE "+table+" DROP "+column) }
	if !concurrent {
		return f
	}
	f.TouchOpen = func(t *testing.T, table string, id uint64, modified string) func(commit bool) {
		tx, end := begin(t, db)
		touch(t, tx, table, id, modified)
		return end
	}
	f.Uncommitted = func(t *testing.T, table string, row Row) func() {
		tx, end := begin(t, db)
		insert(t, tx, table, []Row{row})
		return func() { end(true) }
	}
	return f
}

func testNames(t *testing.T, f Fixture) {
	if f.Exec == nil {
		t.Skip("no SQL")
	}
	for _, name := range []string{"order", "``x`", `""x"`, "'quoted' 日本", "[brackets]", "a;b,c", `back\slash%_`, "?1", ":a", "--", "/*", "AUTOINCREMENT"} {
		quote := func(name string) string {
			return f.Quote + strings.ReplaceAll(name, f.Quote, f.Quote+f.Quote) + f.Quote
		}
		f.Exec(t, "CREATE TABLE "+quote(name)+" ("+quote(name)+" INTEGER PRIMARY KEY, "+quote("Json "+name)+" JSON, plain TEXT)")
		f.Exec(t, "INSERT INTO "+quote(name)+" VALUES (7, '{}', 'x')")
		sp := source.Spec{Table: name, ID: strings.ToUpper(name), Fields: []string{"json " + name}}
		p := Read(t, f.Source.Shard(sp), source.Query{Limit: 9})
		if len(p.Rows) != 1 || p.Rows[0].ID != 7 || len(p.Columns.List) != 2 || p.Columns.List[1].Name != "Json "+name || p.Columns.List[1].Kind != source.JSON {
			t.Errorf("%s: %d rows, columns %v", name, len(p.Rows), p.Columns.List)
		}
	}
}

func testLowIDs(t *testing.T, f Fixture) {
	if f.Exec == nil {
		t.Skip("no SQL")
	}
	f.Exec(t, "CREATE TABLE low (id BIGINT NOT NULL PRIMARY KEY)")
	s := f.Source.Shard(source.Spec{Table: "low", ID: "id"})
	f.Exec(t, "INSERT INTO low VALUES (-5), (0)")
	if p := Read(t, s, source.Query{Limit: 9}); len(p.Rows) != 0 || p.MaxID != 0 {
		t.Fatalf("%d rows, highest %d", len(p.Rows), p.MaxID)
	}
	f.Exec(t, "DELETE FROM low WHERE id = 0")
	f.Exec(t, "INSERT INTO low VALUES (3), (9223372036854775807)")
	for _, through := range []uint64{0, math.MaxUint64} {
		if p := Read(t, s, source.Query{Limit: 9, Through: through}); len(p.Rows) != 2 || p.MaxID != math.MaxInt64 {
			t.Fatalf("%d rows, highest %d", len(p.Rows), p.MaxID)
		}
	}
	for _, after := range []uint64{math.MaxInt64, math.MaxInt64 + 1, math.MaxUint64} {
		if p := Read(t, s, source.Query{Limit: 9, After: after}); len(p.Rows) != 0 || p.More {
			t.Fatalf("%d rows behind %d", len(p.Rows), after)
		}
	}
	if next, err := s.NextID(t.Context()); err != nil || next != 0 {
		t.Errorf("a table that does not count has the next id %d, %v", next, err)
	}
}
