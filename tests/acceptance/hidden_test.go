package acceptance

import (
	"strings"
	"testing"
	"time"

	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/world"
)

// TestAKeyThatMayBeNull publishes a table whose unique index has a column that may be NULL: rows
// with NULL there are left out one by one.
func TestAKeyThatMayBeNull(t *testing.T) {
	testall.Beside(t)
	w := world.Empty(t, testenv.MariaDB(t))
	w.Exec("CREATE TABLE items (id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY, a varchar(20) NOT NULL, b varchar(20), v int, UNIQUE (a, b))")
	w.Exec("INSERT INTO items (a, b) VALUES ('x', '1'), ('x', NULL), ('x', NULL), ('y', '2')")
	d := w.Publish(world.NATSBus(testenv.NATS(t)), world.Publishing{
		Streams: []world.Stream{{Name: "items", Table: "items", Kind: "capability", Env: world.Env{"KEY": "a,b", "STABILITY_WINDOW": "0s"}}},
	})
	if found := answered(t, d.Env).find("key-null"); len(found) != 1 || found[0].Severity != "note" {
		t.Errorf("check finds %+v", found)
	}
	d.Start()
	expect := func(want string) {
		t.Helper()
		got := ""
		world.Eventually(t, time.Minute, want, func() bool {
			var texts []string
			for _, m := range d.Received("items") {
				texts = append(texts, strings.TrimSuffix(strings.TrimPrefix(world.TypeOf(m), "Items"), "Event"))
			}
			got = strings.Join(texts, " ")
			return len(got) >= len(want)
		})
		if got != want {
			t.Fatalf("the bus has %s, want %s", got, want)
		}
	}
	expect("Added Added")
	world.AwaitReady(t, d.Daemon)
	d.Reconcile("items")
	expect("Added Added")
	if n := d.Metric("bridge_bad_values_total"); n < 2 || !strings.Contains(d.Log.String(), "id=2 column=b") {
		t.Errorf("%v bad values; the log: %s", n, d.Log.String())
	}
	w.Exec("UPDATE items SET b = NULL WHERE a = 'y'")
	d.Reconcile("items")
	expect("Added Added Deleted")
	w.Exec("UPDATE items SET b = '3' WHERE id = 2")
	d.Reconcile("items")
	expect("Added Added Deleted Added")
	mustVerify(t, d.Env)
	d.Kill()
	d.Env = d.Env.With(world.Env{"BRIDGE_ON_BAD_VALUE": "stop"})
	w.Exec("INSERT INTO items (a, b) VALUES ('z', NULL)")
	d.Start()
	world.AwaitStopped(t, d.Daemon, "items", "row 5", "ON_BAD_VALUE=null")
}
