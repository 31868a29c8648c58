package processlist_test

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"testing"
	"time"

	"example.org/bridge/client/backoff"
	"example.org/bridge/tests/processlist"
	"example.org/bridge/tests/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func TestSessionsAreReadWhateverTheyRun(t *testing.T) {
	testenv.EachProduct(t, func(t *testing.T, product testenv.Product) {
		server := product.Shared(t)
		name := server.NewDatabase(t)
		db := server.Admin(t, name)
		conn, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		var id int64
		if err := conn.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&id); err != nil {
			t.Fatal(err)
		}
		await(t, db, func(p processlist.Process) bool { return p.ID == id && p.Database == name && p.Command == "Sleep" })
		done := make(chan error, 1)
		go func() {
			_, err := conn.ExecContext(t.Context(), "DO SLEEP(600), '😀'")
			done <- err
		}()
		running := await(t, db, func(p processlist.Process) bool { return p.ID == id && p.Command == "Query" })
		if running.User == "" {
			t.Errorf("%+v has no user", running)
		}
		if _, err := db.Exec(fmt.Sprintf("KILL %d", id)); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err == nil {
			t.Error("the statement ended well")
		}
	})
}

// await returns the first session that is so.
func await(t *testing.T, db *sql.DB, so func(processlist.Process) bool) processlist.Process {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	pause := backoff.Backoff{Max: 100 * time.Millisecond}
	for {
		all, err := processlist.Read(ctx, db)
		if err != nil {
			t.Fatal(err)
		}
		if i := slices.IndexFunc(all, so); i >= 0 {
			return all[i]
		}
		if err := pause.Wait(ctx); err != nil {
			t.Fatalf("%v: %+v", err, all)
		}
	}
}
