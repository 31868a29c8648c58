package acceptance

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/world"
)

// TestUpdatesOfAKey updates columns of the key of a table whose soft deletes do that, too: the
// former entity is deleted within two polls, without a reconcile.
func TestUpdatesOfAKey(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	world.EachBus(t, func(t *testing.T, b *world.Bus) {
		k := newKeyUpdates(t, b)
		k.daemon.Start()
		k.do("INSERT INTO ns (Name) VALUES ('db'), ('cache'), ('a'), ('b')")
		k.expect("Added db+0", "Added cache+0", "Added a+0", "Added b+0")
		t.Run("by a soft delete", func(t *testing.T) {
			k.do("UPDATE ns SET IsDeleted = 1, DeletedAt = 1700000000001 WHERE Name = 'db'")
			k.expect("Deleted db+0")
			k.do("INSERT INTO ns (Name) VALUES ('db')")
			k.expect("Added db+0")
		})
		t.Run("by a new name", func(t *testing.T) {
			k.do("UPDATE ns SET Name = 'store' WHERE Name = 'cache'")
			k.expect("Added store+0", "Deleted cache+0")
		})
		t.Run("of two rows that change their names", func(t *testing.T) {
			k.do("UPDATE ns SET Name = 'tmp' WHERE Name = 'a'", "UPDATE ns SET Name = 'a' WHERE Name = 'b'", "UPDATE ns SET Name = 'b' WHERE Name = 'tmp'")
			k.do("INSERT INTO ns (Name) VALUES ('last')")
			k.matches()
			for _, text := range k.texts(k.seen) {
				if strings.HasPrefix(text, "Deleted") {
					t.Errorf("%s, though all are there", text)
				}
			}
			k.seen = k.tape.Count()
		})
		for _, text := range k.texts(0) {
			if strings.HasPrefix(text, "Deleted") && !strings.HasSuffix(text, "+0") {
				t.Errorf("%s, which never was", text)
			}
		}
		mustNotReconcile(t, k.daemon)
		k.daemon.Reconcile("ns")
		if n := k.daemon.Metric(reconciledRows); n == 0 {
			t.Errorf("%s is 0 after a reconcile", reconciledRows)
		}
		t.Run("while bridge is killed, also with its checkpoint lost", func(t *testing.T) {
			k.seen = k.tape.Count()
			k.daemon.Kill()
			k.do("UPDATE ns SET Name = 'killed' WHERE Name = 'store'")
			k.daemon.Start()
			k.expect("Added killed+0", "Deleted store+0")
			k.daemon.Kill()
			k.daemon.LoseCheckpoint()
			k.do("UPDATE ns SET Name = 'lost' WHERE Name = 'killed'")
			k.daemon.Start()
			k.expect("Added lost+0", "Deleted killed+0")
		})
		mustVerify(t, k.daemon.Env)
	})
}

// reconciledRows is the metric of the rows that reconciles have read.
const reconciledRows = "bridge_reconcile_rows"

// mustNotReconcile fails the test if a reconcile has begun since the start of a daemon. The
// interval of one hour has the first one begin half an hour later at the earliest: what is on the
// bus by now was found without it.
func mustNotReconcile(t testing.TB, d *world.Daemon) {
	t.Helper()
	if n, interval := d.Metric(reconciledRows), d.Metric("bridge_reconcile_interval_seconds"); n != 0 || interval < time.Hour.Seconds() {
		t.Errorf("a reconcile has read %v rows, at an interval of %v s", n, interval)
	}
}

// keyUpdates is a table whose soft deletes update its key, and the program that publishes it.
type keyUpdates struct {
	*testing.T
	world  *world.World
	daemon *world.Daemon
	tape   *world.Tape
	// seen counts the messages that the test has dealt with.
	seen int
}

func newKeyUpdates(t *testing.T, b *world.Bus) *keyUpdates {
	w := world.Empty(t, testenv.MariaDB(t))
	w.Exec(`CREATE TABLE ns (
		Id int unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY, Name varchar(32) COLLATE utf8mb4_bin NOT NULL,
		IsDeleted bit(1) NOT NULL DEFAULT b'0', DeletedAt bigint NOT NULL DEFAULT 0,
		T timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, UNIQUE (Name, DeletedAt), KEY (T))`)
	p := w.Publish(b, world.Publishing{Follow: true, Streams: []world.Stream{{Name: "ns", Table: "ns", Kind: "capability", Env: world.Env{
		"ID": "Id", "KEY": "Name,DeletedAt", "DELETED": "IsDeleted", "MODIFIED": "T", "STABILITY_WINDOW": "0s", "RECONCILE_INTERVAL": "1h",
	}}}})
	return &keyUpdates{T: t, world: w, tape: p.Tape(), daemon: p.Daemon}
}

// do executes statements in one transaction.
func (k *keyUpdates) do(statements ...string) {
	k.Helper()
	tx, err := k.world.DB.Begin()
	if err != nil {
		k.Fatal(err)
	}
	for _, s := range statements {
		if _, err := tx.Exec(s); err != nil {
			k.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		k.Fatal(err)
	}
}

// texts returns what the messages from one on say, such as "Added db+0".
func (k *keyUpdates) texts(from int) (list []string) {
	for _, m := range k.tape.From(from) {
		var e struct {
			Meta struct{ Type string }
			Data struct {
				Name      string
				DeletedAt int64
			}
		}
		if err := json.Unmarshal(m.Value, &e); err != nil {
			k.Fatal(err)
		}
		list = append(list, fmt.Sprintf("%s %s+%d", strings.TrimSuffix(strings.TrimPrefix(e.Meta.Type, "Ns"), "Event"), e.Data.Name, e.Data.DeletedAt))
	}
	return list
}

// expect waits for further messages, in any order, and nothing else.
func (k *keyUpdates) expect(want ...string) {
	k.Helper()
	count := func(list []string) map[string]int {
		all := make(map[string]int)
		for _, one := range list {
			all[one]++
		}
		return all
	}
	world.Eventually(k, time.Minute, fmt.Sprint(want), func() bool { return len(k.texts(k.seen)) >= len(want) })
	got := k.texts(k.seen)
	if !maps.Equal(count(got), count(want)) {
		k.Fatalf("the bus says %v, want %v", got, want)
	}
	k.seen += len(got)
}

// matches waits until the entities that live by the events are those of the table.
func (k *keyUpdates) matches() {
	k.Helper()
	live, table := make(map[string]bool), make(map[string]bool)
	k.Cleanup(func() {
		if !maps.Equal(live, table) {
			k.Logf("live are %v, the table has %v", live, table)
		}
	})
	world.Eventually(k, time.Minute, "the entities of the table", func() bool {
		clear(live)
		clear(table)
		for _, text := range k.texts(0) {
			op, key, _ := strings.Cut(text, " ")
			if live[key] = true; op == "Deleted" {
				delete(live, key)
			}
		}
		var name string
		k.world.Each("SELECT Name FROM ns WHERE IsDeleted = 0", []any{&name}, func() { table[name+"+0"] = true })
		return maps.Equal(live, table)
	})
}
