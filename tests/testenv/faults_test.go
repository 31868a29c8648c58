package testenv_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"bridge/tests/testenv"
)

// server is what every kind of server can be told.
type server interface {
	Pause()
	Resume()
	Kill()
	Stop()
	Start(t testing.TB)
	Restart(t testing.TB)
	Answers() bool
	Heal(t testing.TB)
	Snapshot(t testing.TB) string
	Restore(t testing.TB, snapshot string)
}

var (
	_ server = (*testenv.DatabaseServer)(nil)
	_ server = (*testenv.KafkaServer)(nil)
	_ server = (*testenv.NATSServer)(nil)
)

// heals has a server fail in each way and checks that Heal ends it.
func heals(t *testing.T, s server) {
	t.Helper()
	eventually(t, "the server answers at the beginning", s.Answers)
	for name, fault := range map[string]func(){"paused": s.Pause, "killed": s.Kill} {
		fault()
		start := time.Now()
		if s.Answers() {
			t.Errorf("a %s server answers", name)
		}
		if d := time.Since(start); d > 20*time.Second {
			t.Errorf("it took %v to see that a %s server does not answer", d, name)
		}
		s.Heal(t)
		eventually(t, "a "+name+" server answers after Heal", s.Answers)
	}
}

func TestDatabaseFaults(t *testing.T) {
	testenv.EachProduct(t, func(t *testing.T, p testenv.Product) { databaseFaults(t, p.Start(t)) })
}

func databaseFaults(t *testing.T, s *testenv.DatabaseServer) {
	t.Helper()
	root := s.Root(t)
	run := func(statement string) {
		t.Helper()
		if _, err := root.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	run("CREATE DATABASE d; CREATE TABLE d.t (n INT); INSERT INTO d.t VALUES (1); CREATE USER reader@'%' IDENTIFIED BY 'first'; GRANT SELECT ON d.* TO reader@'%'")
	rows := func() (n int) {
		t.Helper()
		if err := s.Root(t).QueryRow("SELECT COUNT(*) FROM d.t").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}

	t.Run("statements and connections of one user are killed", func(t *testing.T) {
		conn := session(t, s, "first")
		slept, start := make(chan error, 1), time.Now()
		go func() {
			var n int
			slept <- conn.QueryRowContext(t.Context(), "SELECT SLEEP(300) FROM d.t").Scan(&n)
		}()
		eventually(t, "a statement was killed", func() bool { return s.KillQueries(t, "reader") == 1 })
		// SLEEP returns 1 when it is killed, or fails.
		<-slept
		if d := time.Since(start); d > 200*time.Second {
			t.Errorf("the statement went on for %v", d)
		}
		if err := conn.PingContext(t.Context()); err != nil {
			t.Errorf("the connection is gone with its statement: %v", err)
		}
		if n := s.KillConnections(t, "reader"); n != 1 {
			t.Errorf("%d connections were killed, want 1", n)
		}
		if err := conn.PingContext(t.Context()); err == nil {
			t.Error("a killed connection answers")
		}
	})
	t.Run("a password changes for those who come next", func(t *testing.T) {
		conn := session(t, s, "first")
		s.SetPassword(t, "reader", `se'co\nd`)
		if err := conn.PingContext(t.Context()); err != nil {
			t.Error(err)
		}
		db := open(t, s.DSN("reader", "first", "d"))
		if err := db.PingContext(t.Context()); err == nil {
			t.Error("the former password still works")
		}
		session(t, s, `se'co\nd`)
	})
	t.Run("faults heal", func(t *testing.T) { heals(t, s) })
	t.Run("data goes back to a snapshot", func(t *testing.T) {
		before := s.Snapshot(t)
		if _, err := s.Root(t).Exec("INSERT INTO d.t VALUES (2)"); err != nil {
			t.Fatal(err)
		}
		if n := rows(); n != 2 {
			t.Fatalf("%d rows", n)
		}
		s.Restore(t, before)
		if n := rows(); n != 1 {
			t.Errorf("%d rows, want the one of the snapshot", n)
		}
	})
}

func open(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// session is a connection of the reader.
func session(t *testing.T, s *testenv.DatabaseServer, password string) *sql.Conn {
	t.Helper()
	conn, err := open(t, s.DSN("reader", password, "d")).Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// eventually waits up to 20 s until check says yes.
func eventually(t *testing.T, what string, check func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !check() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("not within %s: %s", soon, what)
		}
	}
}
