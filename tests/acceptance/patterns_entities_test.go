package acceptance

import (
	"fmt"
	"maps"
	"strings"
	"syscall"
	"testing"
	"time"

	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/world"
)

// entityTables are the tables ent_* of a capability stream with a key, and what they hold.
type entityTables struct {
	t     *testing.T
	w     *world.World
	b     *world.Bus
	d     *world.Daemon
	topic string
	last  int
}

// TestEntitiesOfPatterns has entities move to tables that are created meanwhile, while the program
// is killed and reloads its configuration, and resets the stream in the end: the last event of each
// entity is its row.
func TestEntitiesOfPatterns(t *testing.T) {
	testall.Beside(t)
	world.EachBus(t, func(t *testing.T, b *world.Bus) {
		w := world.Empty(t, testenv.MariaDB(t))
		e := &entityTables{t: t, w: w, b: b, topic: w.Name + "_ent"}
		e.create(100)
		e.d = world.NewDaemon(t, world.Binary(t, false), b.Env().With(world.Env{
			"BRIDGE_SOURCE_URL": w.URL, "BRIDGE_STREAMS": "ent", "BRIDGE_POLL_INTERVAL": "50ms", "BRIDGE_STREAM_ENT_TABLE": w.Name + ".ent_*",
			"BRIDGE_STREAM_ENT_KIND": "capability", "BRIDGE_STREAM_ENT_KEY": "k", "BRIDGE_STREAM_ENT_DESTINATION": b.Open(t, e.topic),
		}))
		e.d.Start()
		world.AwaitReady(t, e.d)
		for i := range 3 {
			former := e.name()
			e.create(20)
			e.move(former, i)
			world.Pause(world.Between(0, time.Second))
			if i == 1 {
				e.d.Signal(syscall.SIGHUP)
			} else {
				e.d.Kill()
				e.d.Start()
			}
			e.run()
			e.same()
		}
		e.d.Ends()
		if status, out, errs := world.Command(t, e.d.Env, "checkpoint", "reset", "ent"); status != 0 || !strings.Contains(out, "4 shards") {
			t.Fatalf("exit status %d: %s%s", status, out, errs)
		}
		// Of those that are there when it begins START decides.
		e.create(5)
		e.d.Start()
		e.run()
		e.same()
		world.Eventually(t, time.Minute, "all 165 entities are published again", func() bool { return e.d.Metric("bridge_records_total") == 165 })
		e.create(5)
		e.run()
		e.same()
	})
}

func (e *entityTables) name() string { return fmt.Sprintf("ent_%d", e.last) }

// create makes another table, with so many entities of its own.
func (e *entityTables) create(entities int) {
	e.last++
	e.w.Exec("CREATE TABLE " + e.name() + " (id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY, k int NOT NULL UNIQUE, v int NOT NULL)")
	var values []string
	for i := range entities {
		values = append(values, fmt.Sprintf("(%d, %d)", e.last*1000+i, i))
	}
	e.w.Exec("INSERT INTO " + e.name() + " (k, v) VALUES " + strings.Join(values, ", "))
}

// move moves a third of the entities to the table that was made last, with other values.
func (e *entityTables) move(former string, third int) {
	e.t.Helper()
	tx, err := e.w.DB.Begin()
	for _, statement := range []string{"INSERT INTO " + e.name() + " (k, v) SELECT k, v + 1000 FROM " + former, "DELETE FROM " + former} {
		if err == nil {
			_, err = tx.Exec(statement+" WHERE k % 3 = ?", third)
		}
	}
	if err == nil {
		err = tx.Commit()
	}
	check(e.t, err)
}

// run waits until all tables run.
func (e *entityTables) run() {
	e.t.Helper()
	world.Eventually(e.t, 2*time.Minute, fmt.Sprintf("%d tables run", e.last), func() bool {
		shards := e.d.Shards("ent")
		for _, s := range shards {
			if s.State != "running" {
				return false
			}
		}
		return len(shards) == e.last
	})
}

// same waits until the last events of the entities say what the tables hold.
func (e *entityTables) same() {
	e.t.Helper()
	rows := make(map[string]string)
	for i := range e.last {
		maps.Copy(rows, e.w.Pairs(fmt.Sprintf("SELECT k, v FROM ent_%d", i+1)))
	}
	world.Eventually(e.t, time.Minute, fmt.Sprintf("the bus has %d entities", len(rows)), func() bool {
		last, _ := fold(e.t, e.b, e.topic, func(e world.Event) (string, string) { return member(e, "k"), member(e, "v") })
		return maps.Equal(last, rows)
	})
}
