package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"example.org/bridge/source"
	"example.org/bridge/source/sourcetest"
	"example.org/bridge/source/sqlite"
	"example.org/bridge/tests/must"
)

const pairs = "CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, v INT, body TEXT)"

func insertPair(ctx context.Context, db *sql.DB, v int) error {
	body := strings.Repeat("b", 500)
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	for range 2 {
		if _, err := tx.ExecContext(ctx, "INSERT INTO t (v, body) VALUES (?, ?)", v, body); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// beside reads the table by several readers until the writer is done, and checks each page for
// being one moment.
func beside(t *testing.T, b base, write func() error) {
	t.Helper()
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			s := b.source.Shard(source.Spec{Table: "t", ID: "id"})
			var p source.Page
			for last := 0; ; {
				select {
				case <-done:
					return
				default:
				}
				if err := s.Read(t.Context(), source.Query{Limit: 1_000_000}, &p); err != nil {
					t.Errorf("reader: %v", err)
					return
				}
				if n := len(p.Rows); n%2 != 0 || uint64(n) != p.MaxID || n < last {
					t.Errorf("%d rows, highest id %d, %d rows before", n, p.MaxID, last)
					return
				}
				last = len(p.Rows)
			}
		})
	}
	if err := write(); err != nil {
		t.Errorf("writer: %v", err)
	}
	close(done)
	wg.Wait()
}

func TestBesideAWriter(t *testing.T) {
	t.Run("with a rollback journal both get on", func(t *testing.T) {
		b := newBase(t, rollback)
		b.app.SetMaxOpenConns(1)
		b.exec(t, "PRAGMA synchronous = OFF")
		b.exec(t, pairs)
		beside(t, b, func() error {
			for i := range 60 {
				if err := insertPair(t.Context(), b.app, i); err != nil {
					return err
				}
			}
			return nil
		})
	})
	for name, settings := range map[string]string{"with a write-ahead log": wal, "with a rollback journal": rollback} {
		t.Run(name+" an uncommitted row is not read", func(t *testing.T) {
			b := newBase(t, settings)
			b.exec(t, pairs)
			b.exec(t, "INSERT INTO t (v) VALUES (1)")
			tx := must.Get(b.app.BeginTx(t.Context(), nil))(t)
			must.Get(tx.ExecContext(t.Context(), "INSERT INTO t (v) VALUES (2)"))(t)
			s := b.source.Shard(source.Spec{Table: "t", ID: "id"})
			if p := sourcetest.Read(t, s, source.Query{Limit: 9}); len(p.Rows) != 1 || p.MaxID != 1 {
				t.Fatalf("%d rows, highest id %d", len(p.Rows), p.MaxID)
			}
			must.OK(t, tx.Commit())
			sourcetest.Holds(t, s, 2)
		})
	}
	t.Run("no page leaves a snapshot behind that would hold the log back", func(t *testing.T) {
		b := newBase(t, wal)
		b.exec(t, pairs)
		for i := range 50 {
			must.OK(t, insertPair(t.Context(), b.app, i))
		}
		s := b.source.Shard(source.Spec{Table: "t", ID: "id"})
		for _, q := range []source.Query{{Limit: 1000}, {Limit: 1000, MaxBytes: 1}, {Limit: 3}} {
			sourcetest.Read(t, s, q)
		}
		var busy, pages, moved int
		if err := b.app.QueryRowContext(t.Context(), "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &pages, &moved); err != nil || busy != 0 {
			t.Fatalf("busy %d, %v", busy, err)
		}
		if log, err := os.Stat(b.path + "-wal"); err != nil || log.Size() != 0 {
			t.Fatalf("the log was not emptied: %v, %v", log, err)
		}
	})
}

func TestNothingIsWritten(t *testing.T) {
	b := newBase(t, rollback)
	b.exec(t, pairs)
	for _, statement := range []string{
		"INSERT INTO t (v) VALUES (1)", "DELETE FROM t", "CREATE TABLE u (x)", "PRAGMA user_version = 7", "PRAGMA query_only = 0; INSERT INTO t (v) VALUES (1)", "VACUUM",
	} {
		if _, err := b.source.Query(t.Context(), statement); err == nil {
			// A pragma may be silent.
			if got := b.query(t, "SELECT COUNT(*) || (SELECT user_version FROM pragma_user_version) FROM t"); got != "00" {
				t.Errorf("%s was done", statement)
			}
		}
	}
	if got := b.query(t, "SELECT COUNT(*) FROM t"); got != "0" {
		t.Fatalf("%s rows", got)
	}
}

func TestALockedDatabaseIsWaitedFor(t *testing.T) {
	lock := func(t *testing.T, b base) (unlock func()) {
		t.Helper()
		app := openApp(t, b.path, "_busy_timeout=10000")
		conn := must.Get(app.Conn(t.Context()))(t)
		must.Get(conn.ExecContext(t.Context(), "BEGIN EXCLUSIVE"))(t)
		return func() {
			if _, err := conn.ExecContext(t.Context(), "COMMIT"); err != nil {
				t.Error(err)
			}
			_ = conn.Close()
		}
	}
	t.Run("until it is unlocked", func(t *testing.T) {
		b := newBase(t, rollback)
		b.exec(t, pairs)
		b.exec(t, "INSERT INTO t (v) VALUES (1)")
		unlock := lock(t, b)
		done := make(chan error, 1)
		var p source.Page
		go func() {
			done <- b.source.Shard(source.Spec{Table: "t", ID: "id"}).Read(t.Context(), source.Query{Limit: 9}, &p)
		}()
		select {
		case err := <-done:
			t.Fatalf("a page of a locked database, error %v", err)
		case <-time.After(200 * time.Millisecond):
		}
		unlock()
		if err := <-done; err != nil || len(p.Rows) != 1 {
			t.Fatalf("%d rows, %v", len(p.Rows), err)
		}
	})
	t.Run("until the time limit", func(t *testing.T) {
		b := newBase(t, rollback, func(o *sqlite.Options) { o.StatementTimeout = time.Second })
		b.exec(t, pairs)
		unlock := lock(t, b)
		s := b.source.Shard(source.Spec{Table: "t", ID: "id"})
		// A machine that is busy may let the time pass before the lock is met, or once it is gone.
		must.Until(t, time.Minute, "it is locked and the time is up", func() any {
			err := s.Read(t.Context(), source.Query{Limit: 9}, new(source.Page))
			sourcetest.Transient(t, err, nil)
			if strings.Contains(err.Error(), "locked by the application") && strings.Contains(err.Error(), "time limit") {
				return nil
			}
			return err
		})
		sourcetest.Transient(t, b.source.Ready(t.Context()), nil)
		unlock()
		must.Until(t, time.Minute, "it is read", func() any { return s.Read(t.Context(), source.Query{Limit: 9}, new(source.Page)) })
	})
	t.Run("until the caller gives up", func(t *testing.T) {
		b := newBase(t, rollback)
		b.exec(t, pairs)
		defer lock(t, b)()
		ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, errors.New("the reason"))
		defer cancel()
		start := time.Now()
		err := b.source.Shard(source.Spec{Table: "t", ID: "id"}).Read(ctx, source.Query{Limit: 9}, new(source.Page))
		if err == nil || !strings.Contains(err.Error(), "the reason") || time.Since(start) > time.Minute {
			t.Fatalf("after %v: %v", time.Since(start), err)
		}
	})
}
