package acceptance

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"bridge/tests/testall"
	"bridge/tests/testenv"
	"bridge/tests/world"
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

// manyTables is how many tables TestIdleTables has: a table that is not idle has three goroutines.
const manyTables = 300

// TestIdleTables has hundreds of tables become idle, again and again: before and behind late rows,
// an altered and a dropped table, an outage of the database, and a restart.
func TestIdleTables(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	world.EachBus(t, func(t *testing.T, b *world.Bus) {
		w := world.Empty(t, testenv.StartMariaDB(t))
		if b.Kafka != nil {
			b = b.ExactlyOnce(w.Name)
		}
		for i := range manyTables {
			w.Exec(fmt.Sprintf("CREATE TABLE bill_%03d (id bigint NOT NULL AUTO_INCREMENT PRIMARY KEY, name varchar(20) NOT NULL) ENGINE=InnoDB", i))
			insert(w, i, "first")
		}
		d := world.NewDaemon(t, world.Faulty(t), b.Env().With(world.Env{
			"BRIDGE_SOURCE_URL": w.URL, "BRIDGE_STREAMS": "bills", "BRIDGE_STREAM_BILLS_TABLE": fmt.Sprintf("bill_{000..%03d}", manyTables-1),
			"BRIDGE_STREAM_BILLS_KIND": "release", "BRIDGE_STREAM_BILLS_DESTINATION": b.Open(t, w.Name),
			// A table with a hot gap is not idle.
			timesVariable: "hot_time=5s",
		}))
		tape, want := b.Follow(t, w.Name), manyTables
		published := func(what string) {
			t.Helper()
			world.Eventually(t, 4*time.Minute, what, func() bool { return tape.Count() >= want })
		}
		waitIdle := func() {
			t.Helper()
			world.Eventually(t, 4*time.Minute, "all tables are idle", func() bool {
				shards := d.Shards("bills")
				for i := range shards {
					if shards[i].State != "running" {
						return false
					}
				}
				return len(shards) == manyTables && d.Metric("go_goroutines") < manyTables/2
			})
		}
		ended := func() {
			t.Helper()
			if status, _ := d.Term(); status != 0 {
				t.Errorf("exit status %d", status)
			}
		}
		d.Start()
		published("the first rows are published")
		waitIdle()

		// Each tenth table has a transaction that is open while a higher id is published.
		var open []*sql.Tx
		for i := 0; i < manyTables; i += 10 {
			tx, err := w.DB.Begin()
			if err == nil {
				_, err = tx.Exec(fmt.Sprintf("INSERT INTO bill_%03d (name) VALUES ('late')", i))
			}
			if err != nil {
				t.Fatal(err)
			}
			open = append(open, tx)
			insert(w, i, "quick")
			want++
		}
		published("rows above open transactions are published")
		for i, tx := range open {
			if i%2 == 1 {
				if err := tx.Rollback(); err != nil {
					t.Fatal(err)
				}
				continue
			}
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
			want++
		}
		published("late rows are published")

		w.Exec("ALTER TABLE bill_001 ADD COLUMN note varchar(20) NOT NULL DEFAULT 'new'")
		w.Exec("DROP TABLE bill_002")
		world.Eventually(t, 4*time.Minute, "the table that is gone stops", func() bool {
			shards := d.Shards("bills")
			return len(shards) == manyTables && shards[2].State == "stopped"
		})
		w.Exec("CREATE TABLE bill_002 (id bigint NOT NULL AUTO_INCREMENT PRIMARY KEY, name varchar(20) NOT NULL) ENGINE=InnoDB AUTO_INCREMENT=1000")
		for _, i := range []int{1, 2} {
			insert(w, i, "altered")
			want++
		}
		published("both are published")
		waitIdle()

		w.Server.Kill()
		w.Server.Start(t)
		for i := range manyTables {
			insert(w, i, "behind the outage")
			want++
		}
		published("rows behind an outage are published")
		waitIdle()
		ended()
		d.Start()
		waitIdle()
		insert(w, 7, "behind a restart")
		want++
		published("a row behind a restart is published")
		ended()
		if strings.Contains(d.Log.String(), "DATA RACE") {
			t.Error("a data race")
		}
		compareBills(t, b.ReadAll(t, w.Name), want)
	})
}

// insert commits a row of a table.
func insert(w *world.World, table int, name string) {
	w.T.Helper()
	w.Exec(fmt.Sprintf("INSERT INTO bill_%03d (name) VALUES (?)", table), name)
}

// compareBills compares messages with what was committed: each row once.
func compareBills(t *testing.T, messages []world.Message, want int) {
	t.Helper()
	seen := make(map[string]string)
	late := 0
	for _, m := range messages {
		var e struct {
			Data struct {
				Name, Note string
				Row        struct {
					Table string
					ID    uint64
				}
			}
		}
		if err := json.Unmarshal(m.Value, &e); err != nil {
			t.Fatal(err)
		}
		row := fmt.Sprintf("%s/%d", e.Data.Row.Table, e.Data.Row.ID)
		if was, twice := seen[row]; twice {
			t.Errorf("%s came twice: %s, then %s", row, was, m.Value)
		}
		seen[row] = string(m.Value)
		switch {
		case e.Data.Name == "late":
			if late++; m.Headers["bridge-origin"] != "late" {
				t.Errorf("%s has the origin %q", row, m.Headers["bridge-origin"])
			}
		case strings.HasSuffix(e.Data.Row.Table, "bill_001") && e.Data.Row.ID > 1 && e.Data.Note != "new":
			t.Errorf("%s lacks the new column: %s", row, m.Value)
		}
	}
	if len(seen) != want || late != manyTables/20 {
		t.Errorf("%d rows and %d late ones are published, want %d and %d", len(seen), late, want, manyTables/20)
	}
}
