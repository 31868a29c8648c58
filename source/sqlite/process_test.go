package sqlite_test

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"bridge/source"
)

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
	if _, err := app.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stdout, err := app.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := app.Start(); err != nil {
		t.Fatal(err)
	}
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
		if p := read(t, b.source.Shard(events), source.Query{Limit: 1000}); len(p.Rows) != 200 {
			t.Fatalf("%d rows", len(p.Rows))
		}
		// The reader is the last to close.
		if err := b.source.Close(); err != nil {
			t.Fatal(err)
		}
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
			if err := app.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = app.Wait()
			s := b.source.Shard(events)
			if settings == rollback {
				// The file holds half of a transaction: only the application may repair it.
				err := s.Read(t.Context(), source.Query{Limit: 5000}, new(source.Page))
				isTransient(t, err)
				if !strings.Contains(err.Error(), "repairs the file when") {
					t.Fatalf("error %v", err)
				}
				b.app = openApp(t, b.path, settings)
				b.query(t, "SELECT COUNT(*) FROM t")
			}
			if p := read(t, s, source.Query{Limit: 5000}); len(p.Rows) != 20 || p.MaxID != 20 {
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
		if err := insertPair(t.Context(), exclusive, 1); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		var p source.Page
		go func() { done <- b.source.Shard(events).Read(t.Context(), source.Query{Limit: 9}, &p) }()
		if err := exclusive.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil || len(p.Rows) != 2 {
			t.Fatalf("%d rows, %v", len(p.Rows), err)
		}
	})
}
