package acceptance

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"bridge/tests/testall"
	"bridge/tests/testenv"
	"bridge/tests/workload"
	"bridge/tests/world"
)

// TestVerifyNamesMovedEntities plants the three false ends that entities can have which move
// between the tables of a stream, in a copy of what bridge published.
func TestVerifyNamesMovedEntities(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	world.EachBus(t, func(t *testing.T, b *world.Bus) {
		w := world.Empty(t, testenv.MariaDB(t))
		for _, table := range []string{"d_0", "d_1"} {
			w.Exec("CREATE TABLE " + table + " (id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY, k varchar(20) COLLATE utf8mb4_bin NOT NULL UNIQUE, state varchar(20) NOT NULL) ENGINE=InnoDB")
		}
		p := w.Publish(b, world.Publishing{
			Streams: []world.Stream{{Name: "moved", Table: "d_0,d_1", Kind: "capability", Env: world.Env{"KEY": "k"}}},
			Env:     world.Env{"BRIDGE_STABILITY_WINDOW": "0s", "BRIDGE_RECONCILE_MAX_DELETES": "100%"},
		})
		p.Start()
		count := int64(0)
		publishes := func() {
			t.Helper()
			count++
			world.Eventually(t, time.Minute, fmt.Sprintf("%d messages are there", count), func() bool { return b.Count(t, p.Destination("moved")) >= count })
		}
		insert := func(table, key, state string) {
			t.Helper()
			w.Exec("INSERT INTO "+table+" (k, state) VALUES (?, ?)", key, state)
			publishes()
		}
		moves := func(from, to, key, state string) {
			t.Helper()
			// In one transaction: a lookup of the entity between two would publish that it is gone.
			tx, err := w.DB.Begin()
			if err != nil {
				t.Fatal(err)
			}
			_, gone := tx.Exec("DELETE FROM "+from+" WHERE k = ?", key)
			_, made := tx.Exec("INSERT INTO "+to+" (k, state) VALUES (?, ?)", key, state)
			if err := errors.Join(gone, made, tx.Commit()); err != nil {
				t.Fatal(err)
			}
			publishes()
		}
		for _, key := range []string{"back", "there", "deleted", "stays", "stays too"} {
			insert("d_0", key, "active")
		}
		moves("d_0", "d_1", "back", "moved")
		moves("d_1", "d_0", "back", "active")
		moves("d_0", "d_1", "there", "moved")
		w.Exec("DELETE FROM d_0 WHERE k = 'deleted'")
		p.Reconcile()
		publishes()
		insert("d_1", "deleted", "moved")
		if status, _ := p.Term(); status != 0 {
			t.Fatalf("exit status %d", status)
		}

		clean := p.Received("moved")
		mustVerify(t, replay(t, p, "moved", clean))
		at := func(key string) []int { return of(clean, fmt.Sprintf(`"k":%q`, key)) }
		for _, c := range []struct {
			name     string
			messages []world.Message
			want     []string
			says     string
		}{
			{"it ends with the state of the table that it has left", slices.Delete(slices.Clone(clean), at("back")[2], at("back")[2]+1), []string{"lost 1", "stale 1"}, "is of the table d_1"},
			{"the state of the former table follows that of the new one", swap(clean, at("there")[0], at("there")[1]), []string{"outOfOrder 1", "stale 1"}, "is of the table d_0"},
			{"its delete follows the row of the new table", swap(clean, at("deleted")[1], at("deleted")[2]), []string{"outOfOrder 1", "stale 1"}, "the last event says that it is gone"},
		} {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				r := mustVerify(t, replay(t, p, "moved", c.messages), c.want...)
				for _, f := range r.Streams[0].Faults {
					if f.Fault == "stale" && !strings.Contains(fmt.Sprint(f.Examples), c.says) {
						t.Errorf("it says %v, want %q", f.Examples, c.says)
					}
				}
			})
		}
	})
}

// TestVerifyAfterABusLoss puts an older state of the bus back. What bridge has published since is
// healed,
// and counted.
func TestVerifyAfterABusLoss(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	world.EachOwnBus(t, func(t *testing.T, b *world.Bus) {
		w := newRows(t, testenv.MariaDB(t), workload.Options{})
		p := w.Publish(b, world.Publishing{Streams: twoStreams[:1]})
		write := func(version int) {
			t.Helper()
			for i := range 10 {
				w.Exec("REPLACE INTO orders (entity, token, body, created) VALUES (?, uuid(), ?, now() - interval 1 hour)", fmt.Sprint("e-", i), fmt.Sprint("version-", version))
			}
			p.Drained()
		}
		p.Start()
		write(1)
		write(2)
		before := b.Snapshot(t)
		write(3)
		write(4)
		b.Restore(t, before)
		p.Drained()
		write(5)
		world.Eventually(t, time.Minute, "bridge has noticed", func() bool { return strings.Contains(p.Log.String(), "a topic or stream is not as it was") })
		write(6)
		found := make(map[string]int)
		for _, f := range mustVerify(t, p.Env).Streams[0].Healed {
			found[f.Fault] = f.Count
		}
		// Events that were published before bridge had noticed follow on what is lost.
		lost := found["lost"]
		delete(found, "lost")
		delete(found, "brokenLink")
		if lost != 20 || len(found) > 0 {
			t.Errorf("healed: %d lost, %v", lost, found)
		}
	})
}
