package acceptance

import (
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
	check(t, err)
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

// TestIdleTables has hundreds of tables become idle: behind their first rows, a table that is
// dropped and made again, and an outage of the database.
func TestIdleTables(t *testing.T) {
	testall.Beside(t)
	// A table that is not idle has three goroutines.
	const tables = 200
	w, b, want := world.Empty(t, testenv.StartMariaDB(t)), world.NATSBus(testenv.NATS(t)), 0
	create := func(table int, more string) {
		t.Helper()
		w.Exec(fmt.Sprintf("CREATE TABLE bill_%03d (id bigint NOT NULL AUTO_INCREMENT PRIMARY KEY, name varchar(20) NOT NULL) ENGINE=InnoDB ", table) + more)
	}
	insert := func(table int) {
		t.Helper()
		w.Exec(fmt.Sprintf("INSERT INTO bill_%03d (name) VALUES ('row')", table))
		want++
	}
	for i := range tables {
		create(i, "")
		insert(i)
	}
	d := w.Publish(b, world.Publishing{
		Path: world.Faulty(t), Env: world.Env{timesVariable: "quiet_after=1s,hot_time=1s"},
		Streams: []world.Stream{{Name: "bills", Table: fmt.Sprintf("bill_{000..%03d}", tables-1), Kind: "release"}},
	})
	idle := func(what string) {
		t.Helper()
		world.Eventually(t, 2*time.Minute, what, func() bool {
			shards := d.Shards("bills")
			for i := range shards {
				if shards[i].State != "running" {
					return false
				}
			}
			goroutines := d.Metric("go_goroutines")
			return len(shards) == tables && b.Count(t, d.Destination("bills")) >= int64(want) && 0 < goroutines && goroutines < tables/2
		})
	}
	d.Start()
	idle("all are idle behind the first rows")
	w.Exec("DROP TABLE bill_002")
	world.Eventually(t, time.Minute, "the table that is gone stops", func() bool {
		shards := d.Shards("bills")
		return len(shards) == tables && shards[2].State == "stopped"
	})
	create(2, "AUTO_INCREMENT=1000")
	insert(2)
	w.Server.Restart(t)
	for i := range tables {
		insert(i)
	}
	idle("all are idle behind a table that was made again and an outage")
	rows := make(map[string]bool)
	messages := b.ReadAll(t, d.Destination("bills"))
	for _, m := range messages {
		rows[m.Headers[sink.HeaderShard]+" "+m.Headers[sink.HeaderRowID]] = true
	}
	if len(messages) != want || len(rows) != want {
		t.Errorf("%d messages of %d rows, want %d", len(messages), len(rows), want)
	}
}
