package sqlite_test

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"example.org/bridge/source"
	"example.org/bridge/source/sourcetest"
	"example.org/bridge/tests/must"
)

var events = source.Spec{Table: "t", ID: "id"}

func TestFile(t *testing.T) {
	t.Run("that is missing is waited for", func(t *testing.T) {
		b := base{path: filepath.Join(t.TempDir(), "app.db")}
		b.source = open(t, b.path)
		s := b.source.Shard(events)
		for range 2 {
			sourcetest.Refused(t, s, nil, b.path, "waited for")
			sourcetest.Transient(t, b.source.Ready(t.Context()), nil)
			_, err := s.NextID(t.Context())
			sourcetest.Transient(t, err, nil)
		}
		must.Fail(t, must.Err(os.Stat(b.path)), os.ErrNotExist)
		// The application makes the file before the table.
		must.OK(t, os.WriteFile(b.path, nil, 0o600))
		must.Fail(t, s.Read(t.Context(), source.Query{Limit: 1}, new(source.Page)), source.ErrMissing)
		b.app = openApp(t, b.path, wal)
		b.exec(t, "CREATE TABLE t (id INTEGER PRIMARY KEY); INSERT INTO t VALUES (1)")
		sourcetest.Holds(t, s, 1)
		must.OK(t, b.source.Ready(t.Context()))
	})
	t.Run("that is replaced is read from then on", func(t *testing.T) {
		b := newBase(t, rollback)
		b.exec(t, "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT, b TEXT); INSERT INTO t VALUES (1, 'a', 'b')")
		other := newBase(t, rollback)
		// As many changes of the schema, so that its version is the same.
		other.exec(t, "CREATE TABLE t (id INTEGER PRIMARY KEY, b TEXT, a TEXT); INSERT INTO t VALUES (5, 'b', 'a')")
		s := b.source.Shard(events)
		before := sourcetest.Read(t, s, source.Query{Limit: 9})
		if again := sourcetest.Read(t, s, source.Query{Limit: 9}); again.Server != before.Server || !strings.Contains(before.Server, b.path) {
			t.Fatalf("servers %q and %q", before.Server, again.Server)
		}
		_ = b.app.Close()
		_ = other.app.Close()
		must.OK(t, os.Rename(other.path, b.path))
		after := sourcetest.Read(t, s, source.Query{Limit: 9})
		if after.Rows[0].ID != 5 || after.Server == before.Server || after.Columns.List[1].Name != "b" || string(after.Rows[0].Values[1]) != "b" {
			t.Fatalf("row %d of %q, columns %v", after.Rows[0].ID, after.Server, after.Columns.List)
		}
		// One that is deleted is not read on.
		must.OK(t, os.Remove(b.path))
		sourcetest.Refused(t, s, nil, b.path)
	})
	t.Run("of another user in WAL mode is read only while the application has it open", func(t *testing.T) {
		b := newBase(t, wal)
		b.exec(t, "CREATE TABLE t (id INTEGER PRIMARY KEY); INSERT INTO t VALUES (1)")
		b.source.PretendUser(54321)
		s := b.source.Shard(events)
		_ = b.app.Close()
		for range 2 {
			sourcetest.Refused(t, s, nil, "lock out user")
		}
		beside, err := filepath.Glob(b.path + "-*")
		if err != nil || len(beside) != 0 {
			t.Fatalf("the reader made %q, %v", beside, err)
		}
		b.app = openApp(t, b.path, wal)
		b.query(t, "SELECT COUNT(*) FROM t")
		sourcetest.Holds(t, s, 1)
	})
	t.Run("of another user with a rollback journal is read at any time", func(t *testing.T) {
		b := newBase(t, rollback)
		b.exec(t, "CREATE TABLE t (id INTEGER PRIMARY KEY); INSERT INTO t VALUES (1)")
		_ = b.app.Close()
		b.source.PretendUser(54321)
		sourcetest.Holds(t, b.source.Shard(events), 1)
		other := newBase(t, wal)
		other.exec(t, "CREATE TABLE t (id INTEGER PRIMARY KEY)")
		_ = other.app.Close()
		must.OK(t, os.Rename(other.path, b.path))
		sourcetest.Transient(t, b.source.Ready(t.Context()), nil)
	})
	t.Run("that is not a database is refused", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "app.db")
		must.OK(t, os.WriteFile(path, []byte(strings.Repeat("this is not a database ", 500)), 0o600))
		s := open(t, path)
		sourcetest.Refused(t, s.Shard(events), source.ErrUnfit, "no SQLite database")
		must.Fail(t, s.Ready(t.Context()), source.ErrUnfit)
	})
	t.Run("that is damaged is refused", func(t *testing.T) {
		b := newBase(t, rollback)
		b.exec(t, "CREATE TABLE t (id INTEGER PRIMARY KEY, v); WITH RECURSIVE s (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < 2000) INSERT INTO t SELECT i, hex(zeroblob(100)) FROM s")
		_ = b.app.Close()
		contents := must.Get(os.ReadFile(b.path))(t)
		for i := 4096; i < len(contents); i++ {
			contents[i] = 0xee
		}
		must.OK(t, os.WriteFile(b.path, contents, 0o600))
		sourcetest.Refused(t, b.source.Shard(events), source.ErrUnfit, "integrity_check")
	})
	t.Run("that is a directory is refused", func(t *testing.T) {
		sourcetest.Refused(t, open(t, t.TempDir()).Shard(events), source.ErrUnfit, "directory")
	})
	t.Run("may have any name", func(t *testing.T) {
		b := base{path: filepath.Join(t.TempDir(), "we?ird #%41 &mode=rwc;ü '\".db")}
		b.app = openApp(t, b.path, wal)
		b.exec(t, "CREATE TABLE t (id INTEGER PRIMARY KEY); INSERT INTO t VALUES (1)")
		sourcetest.Holds(t, open(t, b.path).Shard(events), 1)
	})
	t.Run("may be named from the working directory", func(t *testing.T) {
		b := newBase(t, wal)
		b.exec(t, "CREATE TABLE t (id INTEGER PRIMARY KEY); INSERT INTO t VALUES (1)")
		t.Chdir(filepath.Dir(b.path))
		s := open(t, mustOpenURL(t, "sqlite:app.db").Path).Shard(events)
		t.Chdir("/")
		sourcetest.Holds(t, s, 1)
	})
}

// An application in a process of its own is this test's binary with these variables: what it does
// and on which file.
const (
	appTask = "SQLITE_TEST_APP_TASK"
	appPath = "SQLITE_TEST_APP_PATH"
)

func TestMain(m *testing.M) {
	task := os.Getenv(appTask)
	if task == "" {
		os.Exit(m.Run())
	}
	if err := runApp(task, os.Getenv(appPath)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// runApp writes pairs of rows: "pairs 50" commits 50 and ends; "open 50" commits 50, writes more
// without commit and waits.
func runApp(task, path string) error {
	kind, number, _ := strings.Cut(task, " ")
	count, err := strconv.Atoi(number)
	if err != nil {
		return err
	}
	// Without a busy timeout any lock of a reader would surface. The small cache has an open
	// transaction reach the file.
	db, err := sql.Open("sqlite", "file:"+path+"?_busy_timeout=0&_pragma=cache_size(5)&_synchronous=OFF")
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(1)
	ctx := context.Background()
	for i := range count {
		if err := insertPair(ctx, db, i); err != nil {
			return err
		}
	}
	if kind == "pairs" {
		return db.Close()
	}
	const spill = "BEGIN; WITH RECURSIVE s (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < 2001) INSERT INTO t (v, body) SELECT -i, hex(zeroblob(300)) FROM s"
	if _, err := db.ExecContext(ctx, spill); err != nil {
		return err
	}
	fmt.Println("open")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

func startApp(t *testing.T, path, task string) (app *exec.Cmd, output *bufio.Reader) {
	t.Helper()
	app = exec.CommandContext(t.Context(), os.Args[0])
	app.Env = append(os.Environ(), appTask+"="+task, appPath+"="+path)
	app.Stderr = os.Stderr
	must.Get(app.StdinPipe())(t)
	stdout := must.Get(app.StdoutPipe())(t)
	must.OK(t, app.Start())
	return app, bufio.NewReader(stdout)
}

func TestApplicationInAnotherProcess(t *testing.T) {
	t.Run("is never told to wait with a write-ahead log", func(t *testing.T) {
		b := newBase(t, wal)
		b.exec(t, pairs)
		_ = b.app.Close()
		beside(t, b, func() error {
			app, _ := startApp(t, b.path, "pairs 100")
			return app.Wait()
		})
		sourcetest.Holds(t, b.source.Shard(events), 200)
		// The reader is the last to close.
		must.OK(t, b.source.Close())
		b.app = openApp(t, b.path, wal)
		if got := b.query(t, "SELECT COUNT(*) || (SELECT integrity_check FROM pragma_integrity_check) FROM t"); got != "200ok" {
			t.Fatalf("afterwards the application finds %s", got)
		}
	})
	for name, settings := range map[string]string{"with a write-ahead log": wal, "with a rollback journal": rollback} {
		t.Run("may be killed while it writes "+name, func(t *testing.T) {
			b := newBase(t, settings)
			b.exec(t, pairs)
			_ = b.app.Close()
			app, output := startApp(t, b.path, "open 10")
			if line, err := output.ReadString('\n'); err != nil {
				t.Fatal(line, err)
			}
			must.OK(t, app.Process.Kill())
			_ = app.Wait()
			s := b.source.Shard(events)
			if settings == rollback {
				// The file holds half of a transaction: only the application may repair it.
				sourcetest.Refused(t, s, nil, "repairs the file when")
				b.app = openApp(t, b.path, settings)
				b.query(t, "SELECT COUNT(*) FROM t")
			}
			if p := sourcetest.Read(t, s, source.Query{Limit: 5000}); len(p.Rows) != 20 || p.MaxID != 20 {
				t.Fatalf("%d rows, highest id %d", len(p.Rows), p.MaxID)
			}
		})
	}
	t.Run("may leave a database that it locked for itself", func(t *testing.T) {
		b := newBase(t, wal)
		b.exec(t, pairs)
		_ = b.app.Close()
		exclusive := openApp(t, b.path, "_busy_timeout=1000&_pragma=locking_mode(EXCLUSIVE)")
		exclusive.SetMaxOpenConns(1)
		must.OK(t, insertPair(t.Context(), exclusive, 1))
		done := make(chan error, 1)
		var p source.Page
		go func() { done <- b.source.Shard(events).Read(t.Context(), source.Query{Limit: 9}, &p) }()
		must.OK(t, exclusive.Close())
		if err := <-done; err != nil || len(p.Rows) != 2 {
			t.Fatalf("%d rows, %v", len(p.Rows), err)
		}
	})
}
