package testenv_test

import (
	"testing"

	"bridge/tests/testenv"
)

func TestAReplicaGoesOnAfterACrash(t *testing.T) {
	testenv.OnEveryDatabase(t)
	testenv.EachProduct(t, func(t *testing.T, p testenv.Product) {
		primary, replica := p.StartReplicated(t)
		copies(t, primary, replica, func() { replica.CatchUp(t, primary) })
	})
}

func TestANodeOfAClusterGoesOnAfterACrash(t *testing.T) {
	testenv.OnEveryDatabase(t)
	first, second := testenv.StartGalera(t)
	copies(t, first, second, func() { second.AwaitCluster(t) })
}

// copies writes to one server before, while and after another is away, and expects all rows there.
func copies(t *testing.T, from, to *testenv.DatabaseServer, caughtUp func()) {
	t.Helper()
	run := func(statement string) {
		t.Helper()
		if _, err := from.Root(t).ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	run("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY); INSERT INTO d.t VALUES (1)")
	caughtUp()
	to.Kill()
	run("INSERT INTO d.t VALUES (2)")
	to.Start(t)
	run("INSERT INTO d.t VALUES (3)")
	caughtUp()
	var rows int
	if err := to.Root(t).QueryRow("SELECT COUNT(*) FROM d.t").Scan(&rows); err != nil || rows != 3 {
		t.Errorf("%d rows, %v; want 3", rows, err)
	}
}
