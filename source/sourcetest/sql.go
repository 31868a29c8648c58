package sourcetest

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
)

// execer is a pool or a transaction.
type execer interface {
	ExecContext(ctx context.Context, statement string, args ...any) (sql.Result, error)
}

func exec(t *testing.T, db execer, statement string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), statement, args...); err != nil {
		t.Fatalf("%.200s: %v", statement, err)
	}
}

// begin begins a transaction, and returns what ends it.
func begin(t *testing.T, db *sql.DB) (tx *sql.Tx, end func(commit bool)) {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx, func(commit bool) {
		end := tx.Rollback
		if commit {
			end = tx.Commit
		}
		if err := end(); err != nil {
			t.Fatal(err)
		}
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
