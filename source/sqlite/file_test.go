package sqlite_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bridge/source"
)

var events = source.Spec{Table: "t", ID: "id"}

func TestFile(t *testing.T) {
	t.Run("that is missing is waited for", func(t *testing.T) {
		b := base{path: filepath.Join(t.TempDir(), "app.db")}
		b.source = open(t, b.path)
		s := b.source.Shard(events)
		for range 2 {
			err := s.Read(t.Context(), source.Query{Limit: 1}, new(source.Page))
			isTransient(t, err)
			if !strings.Contains(err.Error(), b.path) || !strings.Contains(err.Error(), "waited for") {
				t.Fatalf("error %v", err)
			}
			isTransient(t, b.source.Ready(t.Context()))
			_, err = s.NextID(t.Context())
			isTransient(t, err)
		}
		if _, err := os.Stat(b.path); !errors.Is(err, os.ErrNotExist) {
			t.Fatal("the reader made the file")
		}
		// The application makes the file before the table.
		if err := os.WriteFile(b.path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := s.Read(t.Context(), source.Query{Limit: 1}, new(source.Page)); !errors.Is(err, source.ErrMissing) {
			t.Fatalf("error %v", err)
		}
		b.app = openApp(t, b.path, wal)
		b.exec(t, "CREATE TABLE t (id INTEGER PRIMARY KEY); INSERT INTO t VALUES (1)")
		if p := read(t, s, source.Query{Limit: 9}); len(p.Rows) != 1 {
			t.Fatalf("%d rows", len(p.Rows))
		}
		if err := b.source.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("that is replaced is read from then on", func(t *testing.T) {
		b := newBase(t, rollback)
		b.exec(t, "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT, b TEXT); INSERT INTO t VALUES (1, 'a', 'b')")
		other := newBase(t, rollback)
		// As many changes of the schema, so that its version is the same.
		other.exec(t, "CREATE TABLE t (id INTEGER PRIMARY KEY, b TEXT, a TEXT); INSERT INTO t VALUES (5, 'b', 'a')")
		s := b.source.Shard(events)
		before := read(t, s, source.Query{Limit: 9})
		if again := read(t, s, source.Query{Limit: 9}); again.Server != before.Server || !strings.Contains(before.Server, b.path) {
			t.Fatalf("servers %q and %q", before.Server, again.Server)
		}
		_ = b.app.Close()
		_ = other.app.Close()
		if err := os.Rename(other.path, b.path); err != nil {
			t.Fatal(err)
		}
		after := read(t, s, source.Query{Limit: 9})
		if after.Rows[0].ID != 5 || after.Server == before.Server || after.Columns.List[1].Name != "b" || string(after.Rows[0].Values[1]) != "b" {
			t.Fatalf("row %d of %q, columns %v", after.Rows[0].ID, after.Server, after.Columns.List)
		}
	})
	t.Run("that is deleted is not read on", func(t *testing.T) {
		b := newBase(t, rollback)
		b.exec(t, "CREATE TABLE t (id INTEGER PRIMARY KEY)")
		s := b.source.Shard(events)
		read(t, s, source.Query{Limit: 9})
		_ = b.app.Close()
		if err := os.Remove(b.path); err != nil {
			t.Fatal(err)
		}
		isTransient(t, s.Read(t.Context(), source.Query{Limit: 9}, new(source.Page)))
	})
	t.Run("of another user in WAL mode is read only while the application has it open", func(t *testing.T) {
		b := newBase(t, wal)
		b.exec(t, "CREATE TABLE t (id INTEGER PRIMARY KEY); INSERT INTO t VALUES (1)")
		b.source.PretendUser(54321)
		s := b.source.Shard(events)
		_ = b.app.Close()
		for range 2 {
			err := s.Read(t.Context(), source.Query{Limit: 9}, new(source.Page))
			isTransient(t, err)
			if !strings.Contains(err.Error(), "lock out user") {
				t.Fatalf("error %v", err)
			}
		}
		beside, err := filepath.Glob(b.path + "-*")
		if err != nil || len(beside) != 0 {
			t.Fatalf("the reader made %q, %v", beside, err)
		}
		b.app = openApp(t, b.path, wal)
		b.query(t, "SELECT COUNT(*) FROM t")
		if p := read(t, s, source.Query{Limit: 9}); len(p.Rows) != 1 {
			t.Fatalf("%d rows", len(p.Rows))
		}
	})
	t.Run("of another user with a rollback journal is read at any time", func(t *testing.T) {
		b := newBase(t, rollback)
		b.exec(t, "CREATE TABLE t (id INTEGER PRIMARY KEY); INSERT INTO t VALUES (1)")
		_ = b.app.Close()
		b.source.PretendUser(54321)
		if p := read(t, b.source.Shard(events), source.Query{Limit: 9}); len(p.Rows) != 1 {
			t.Fatalf("%d rows", len(p.Rows))
		}
		other := newBase(t, wal)
		other.exec(t, "CREATE TABLE t (id INTEGER PRIMARY KEY)")
		_ = other.app.Close()
		if err := os.Rename(other.path, b.path); err != nil {
			t.Fatal(err)
		}
		isTransient(t, b.source.Ready(t.Context()))
	})
	t.Run("that is not a database is refused", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "app.db")
		if err := os.WriteFile(path, []byte(strings.Repeat("this is not a database ", 500)), 0o600); err != nil {
			t.Fatal(err)
		}
		s := open(t, path)
		err := s.Shard(events).Read(t.Context(), source.Query{Limit: 1}, new(source.Page))
		if !errors.Is(err, source.ErrUnfit) || !strings.Contains(err.Error(), "no SQLite database") {
			t.Fatalf("error %v", err)
		}
		if err := s.Ready(t.Context()); !errors.Is(err, source.ErrUnfit) {
			t.Fatalf("ready: error %v", err)
		}
	})
	t.Run("that is damaged is refused", func(t *testing.T) {
		b := newBase(t, rollback)
		b.exec(t, "CREATE TABLE t (id INTEGER PRIMARY KEY, v); WITH RECURSIVE s (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < 2000) INSERT INTO t SELECT i, hex(zeroblob(100)) FROM s")
		_ = b.app.Close()
		contents, err := os.ReadFile(b.path)
		if err != nil {
			t.Fatal(err)
		}
		for i := 4096; i < len(contents); i++ {
			contents[i] = 0xee
		}
		if err := os.WriteFile(b.path, contents, 0o600); err != nil {
			t.Fatal(err)
		}
		err = b.source.Shard(events).Read(t.Context(), source.Query{Limit: 5000}, new(source.Page))
		if !errors.Is(err, source.ErrUnfit) || !strings.Contains(err.Error(), "integrity_check") {
			t.Fatalf("error %v", err)
		}
	})
	t.Run("that is a directory is refused", func(t *testing.T) {
		err := open(t, t.TempDir()).Shard(events).Read(t.Context(), source.Query{Limit: 1}, new(source.Page))
		if !errors.Is(err, source.ErrUnfit) || !strings.Contains(err.Error(), "directory") {
			t.Fatalf("error %v", err)
		}
	})
	t.Run("may have any name", func(t *testing.T) {
		b := base{path: filepath.Join(t.TempDir(), "we?ird #%41 &mode=rwc;ü '\".db")}
		b.app = openApp(t, b.path, wal)
		b.exec(t, "CREATE TABLE t (id INTEGER PRIMARY KEY); INSERT INTO t VALUES (1)")
		if p := read(t, open(t, b.path).Shard(events), source.Query{Limit: 9}); len(p.Rows) != 1 {
			t.Fatalf("%d rows", len(p.Rows))
		}
	})
	t.Run("may be named from the working directory", func(t *testing.T) {
		b := newBase(t, wal)
		b.exec(t, "CREATE TABLE t (id INTEGER PRIMARY KEY); INSERT INTO t VALUES (1)")
		t.Chdir(filepath.Dir(b.path))
		s := open(t, mustOpenURL(t, "sqlite:app.db").Path).Shard(events)
		t.Chdir("/")
		if p := read(t, s, source.Query{Limit: 9}); len(p.Rows) != 1 {
			t.Fatalf("%d rows", len(p.Rows))
		}
	})
}
