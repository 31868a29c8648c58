package acceptance

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"example.org/bridge/sink"
	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/world"
)

// TestFigures measures what the README says about size, start and memory. It is part of `make
// figures`, not of the tests: what it measures depends on the machine.
func TestFigures(t *testing.T) {
	if os.Getenv("BRIDGE_TEST_FIGURES") == "" {
		t.Skip("part of `make figures`")
	}
	path := filepath.Join(t.TempDir(), "bridge")
	staticBinary(t, path)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	table := newSecured(t, testenv.MariaDB(t))
	insertSecured(table)
	e := secured("").With(world.Env{"BRIDGE_SOURCE_URL": table.URL, "BRIDGE_SINK_URL": "stdout:", "BRIDGE_STABILITY_WINDOW": "1s"})
	world.Pause(2 * time.Second)

	var starts []time.Duration
	var idle int64
	for range 5 {
		d := world.NewDaemon(t, path, e)
		begun := time.Now()
		d.Start()
		// Nobody waits for a tick here: a start takes less than one.
		for !strings.Contains(d.Log.String(), "SecuredPublishedEvent") {
			if time.Since(begun) > 30*time.Second {
				t.Fatal("no event")
			}
			world.Pause(time.Millisecond)
		}
		starts = append(starts, time.Since(begun))
		if len(starts) == 5 {
			world.Pause(30 * time.Second)
			if idle, err = d.RSSAnon(); err != nil {
				t.Fatal(err)
			}
		}
		d.Kill()
	}
	slices.Sort(starts)
	fmt.Printf("static binary            %.1f MiB\n", float64(info.Size())/(1<<20))
	fmt.Printf("start to first event     %d ms (median of 5: process start, login, first page, event on stdout)\n", starts[2].Milliseconds())
	fmt.Printf("RssAnon, one idle stream %.1f MiB (after 30 s)\n", float64(idle)/(1<<20))
}

// TestIdleTables has hundreds of tables become idle, again and again: behind late rows, an altered
// and a dropped table, an outage of the database, and a restart.
func TestIdleTables(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	// A table that is not idle has three goroutines.
	const tables = 200
	w, b, want := world.Empty(t, testenv.StartMariaDB(t)), world.NATSBus(testenv.NATS(t)), 0
	const create = "CREATE TABLE bill_%03d (id bigint NOT NULL AUTO_INCREMENT PRIMARY KEY, name varchar(20) NOT NULL) ENGINE=InnoDB"
	insert := func(table int) {
		t.Helper()
		w.Exec(fmt.Sprintf("INSERT INTO bill_%03d (name) VALUES ('row')", table))
		want++
	}
	for i := range tables {
		w.Exec(fmt.Sprintf(create, i))
		insert(i)
	}
	d := w.Publish(b, world.Publishing{
		Path: world.Faulty(t), Streams: []world.Stream{{Name: "bills", Table: fmt.Sprintf("bill_{000..%03d}", tables-1), Kind: "release"}},
		// A table with a hot gap is not idle.
		Env: world.Env{timesVariable: "hot_time=5s"},
	})
	topic := d.Destination("bills")
	// idle waits until all rows are published and all tables are idle.
	idle := func(what string) {
		t.Helper()
		world.Eventually(t, 4*time.Minute, what, func() bool {
			shards := d.Shards("bills")
			for i := range shards {
				if shards[i].State != "running" {
					return false
				}
			}
			return len(shards) == tables && b.Count(t, topic) >= int64(want) && d.Metric("go_goroutines") < tables/2
		})
	}
	d.Start()
	idle("the first rows")

	// Each tenth table has a transaction that is open while a higher id is published.
	var open []*sql.Tx
	for i := 0; i < tables; i += 10 {
		tx, err := w.DB.Begin()
		if err == nil {
			_, err = tx.Exec(fmt.Sprintf("INSERT INTO bill_%03d (name) VALUES ('late')", i))
		}
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, tx)
		insert(i)
	}
	world.Eventually(t, 4*time.Minute, "rows above open transactions are published", func() bool { return b.Count(t, topic) >= int64(want) })
	for _, tx := range open {
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		want++
	}
	w.Exec("ALTER TABLE bill_001 ADD COLUMN note varchar(20) NOT NULL DEFAULT 'new'")
	w.Exec("DROP TABLE bill_002")
	world.Eventually(t, 4*time.Minute, "the table that is gone stops", func() bool {
		shards := d.Shards("bills")
		return len(shards) == tables && shards[2].State == "stopped"
	})
	w.Exec(fmt.Sprintf(create, 2) + " AUTO_INCREMENT=1000")
	insert(1)
	insert(2)
	idle("late rows, and those of an altered table and of one that was made again")

	w.Server.Restart(t)
	for i := range tables {
		insert(i)
	}
	idle("rows behind an outage")
	if status, _ := d.Term(); status != 0 {
		t.Errorf("exit status %d", status)
	}
	d.Start()
	idle("a restart")
	insert(7)
	idle("a row behind a restart")
	rows, late := make(map[string]bool), 0
	for _, m := range b.ReadAll(t, topic) {
		rows[m.Headers[sink.HeaderShard]+" "+m.Headers[sink.HeaderRowID]] = true
		if m.Headers[sink.HeaderOrigin] == "late" {
			late++
		}
	}
	if n := b.Count(t, topic); n != int64(want) || len(rows) != want || late != len(open) {
		t.Errorf("%d messages of %d rows, %d of them late, want %d and %d", n, len(rows), late, want, len(open))
	}
}
