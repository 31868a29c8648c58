package acceptance

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bridge/checkpoint/store"
	"bridge/checkpoint/store/pebble"
	"bridge/internal/progress"
	"bridge/source/ledger"
	"bridge/tests/testall"
	"bridge/tests/testenv"
	"bridge/tests/workload"
	"bridge/tests/world"
)

// statements counts what one login has asked a table.
type statements struct {
	// pages are reads of the table behind a position, rows reads of ranges with all columns, ids
	// reads of ranges without; others are all else.
	pages, rows, ids, others int
}

// statementsOf counts the statements of everyone but the administrator while the time d passes, by
// the server's general log, and returns how long that was indeed.
func statementsOf(l *world.World, d time.Duration) (s statements, length time.Duration) {
	l.T.Helper()
	begun := time.Now()
	l.Exec("TRUNCATE mysql.general_log")
	world.Pause(d)
	var text string
	l.Each("SELECT argument FROM mysql.general_log WHERE user_host LIKE '%reader%' AND command_type IN ('Query', 'Execute')", []any{&text}, func() {
		ofTable := strings.Contains(text, "`orders`") && strings.Contains(text, "ORDER BY")
		switch ranges, values := strings.Contains(text, "BETWEEN"), strings.Contains(text, "`token`"); {
		case ofTable && ranges && values:
			s.rows++
		case ofTable && ranges:
			s.ids++
		case ofTable && values:
			s.pages++
		default:
			s.others++
		}
	})
	return s, time.Since(begun)
}

// TestStatements counts what the server is asked, by its own log.
func TestStatements(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	l := newRows(t, testenv.StartMariaDB(t, "--general-log=1", "--log-output=TABLE"), workload.Options{})
	insert := func(n int) { l.Insert(fmt.Sprint(time.Now().UnixNano()), n) }
	insert(50)
	d := l.Tail(world.NATSBus(testenv.NATS(t)), "counted", nil)
	d.Drained()
	// What was there before says nothing about how busy the table is.
	insert(1)
	d.Drained()
	count := func(t *testing.T) statements {
		t.Helper()
		s, length := statementsOf(l, 10*time.Second)
		polls := int(length/world.PollInterval) + 5
		t.Logf("in %s of %d polls: %+v", length, polls, s)
		if s.pages == 0 || s.pages > polls {
			t.Errorf("%d pages, want one a poll at most", s.pages)
		}
		if s.others > polls/5 {
			t.Errorf("%d other statements", s.others)
		}
		return s
	}
	alone := func(t *testing.T) {
		t.Helper()
		// A poll that was under way when the last gap was filled may still look for it.
		if s := count(t); s.rows > 1 || s.ids > 1 {
			t.Errorf("%d reads of hot gaps and %d of evidence without a gap", s.rows, s.ids)
		}
	}

	t.Run("are one a poll without gaps", alone)
	var open []*world.Transaction
	for i := range 20 {
		open = append(open, l.Begin(fmt.Sprintf("open-%d", i), 5))
		insert(40)
	}
	world.Eventually(t, time.Minute, "the gaps are known", func() bool {
		shards := d.Shards(world.Orders)
		return len(shards) == 1 && shards[0].Gaps.InFlight == 100
	})
	t.Run("are one more for hot gaps and one for evidence while there are some", func(t *testing.T) {
		// A sweep may come between.
		if s := count(t); s.rows == 0 || s.rows > s.pages+1 || s.ids == 0 || s.ids > s.pages+2 {
			t.Errorf("%d reads of hot gaps and %d of evidence at %d pages, want one each", s.rows, s.ids, s.pages)
		}
	})
	for _, transaction := range open {
		transaction.Commit()
	}
	world.Eventually(t, time.Minute, "the gaps are filled", func() bool {
		shards := d.Shards(world.Orders)
		return len(shards) == 1 && shards[0].Gaps.Hot+shards[0].Gaps.Cold == 0
	})
	t.Run("are one a poll again once they are filled", alone)
}

// memoryLimit is what a program may take that drains a backlog.
const memoryLimit = 100 << 20

// memoryRows is how many rows of about 300 bytes a backlog has: three times the limit, without what
// events add.
func memoryRows() int {
	if world.Soak {
		return 2_000_000
	}
	return 1_000_000
}

func TestMemoryStaysBoundedWhileDrainingABacklog(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	rows := memoryRows()
	table := world.Empty(t, testenv.MariaDB(t))
	table.Exec(`CREATE TABLE backlog (id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY, name varchar(64) NOT NULL,
		amount decimal(12,2) NOT NULL, created datetime(3) NOT NULL, payload varchar(400) NOT NULL)`)
	table.Exec(fmt.Sprintf(`INSERT INTO backlog (name, amount, created, payload)
		SELECT concat('row-', seq), seq / 7, now(3) - interval 1 hour, repeat(md5(seq), 8) FROM %s ORDER BY seq`, testenv.Sequence(rows)))
	world.EachBus(t, func(t *testing.T, b *world.Bus) {
		occupy(t, 1)
		name := table.Name + "_backlog"
		e := b.Env().With(world.Env{
			"BRIDGE_SOURCE_URL":                 table.URL,
			"BRIDGE_STREAMS":                    "backlog",
			"BRIDGE_STREAM_BACKLOG_TABLE":       "backlog",
			"BRIDGE_STREAM_BACKLOG_KIND":        "release",
			"BRIDGE_STREAM_BACKLOG_CREATED":     "created",
			"BRIDGE_STREAM_BACKLOG_DESTINATION": b.Open(t, name),
		})
		d := world.NewDaemon(t, world.Binary(t, false), e)
		started := time.Now()
		d.Start()
		var peak int64
		world.Eventually(t, 10*time.Minute, "backlog drained", func() bool {
			rss, err := d.RSSAnon()
			if err != nil {
				t.Fatal(err)
			}
			peak = max(peak, rss)
			return d.Position("backlog") == uint64(rows)
		})
		t.Logf("%d rows in %s, RssAnon at most %d MiB", rows, time.Since(started).Round(time.Second), peak>>20)
		if got := b.Count(t, name); got != int64(rows) {
			t.Errorf("%d messages arrived, want %d", got, rows)
		}
		if peak > memoryLimit {
			t.Errorf("RssAnon reached %d MiB, want less than %d", peak>>20, memoryLimit>>20)
		}
	})
}

// TestFiguresOfTenMillionGaps measures memory and disk of the program with ten million ids that
// were not published: while they are polled, while their time passes, and after it. It is part of
// `make figures`.
func TestFiguresOfTenMillionGaps(t *testing.T) {
	if os.Getenv("BRIDGE_TEST_FIGURES") == "" {
		t.Skip("part of `make figures`")
	}
	for _, pattern := range []struct {
		name string
		mean int
	}{{"stride of 2", 2}, {"at random, one in a hundred", 100}} {
		t.Run(pattern.name, func(t *testing.T) {
			file, db := filepath.Join(t.TempDir(), "bridge.db"), filepath.Join(t.TempDir(), "app.db")
			position := plantGaps(t, file, 10_000_000, pattern.mean)
			app, err := sql.Open("sqlite", "file:"+db)
			if err != nil {
				t.Fatal(err)
			}
			defer app.Close()
			if _, err := app.Exec(fmt.Sprintf("CREATE TABLE facts (id INTEGER PRIMARY KEY, name TEXT); INSERT INTO facts VALUES (%d, 'row')", position)); err != nil {
				t.Fatal(err)
			}
			d := world.NewDaemon(t, world.Binary(t, false), world.Env{
				"BRIDGE_SOURCE_URL": "sqlite://" + db, "BRIDGE_STREAMS": "facts", "BRIDGE_STREAM_FACTS_TABLE": "facts",
				"BRIDGE_STREAM_FACTS_KIND": "release", "BRIDGE_SINK_URL": "stdout:", "BRIDGE_CHECKPOINT_URL": "file:" + file,
				"BRIDGE_GAP_TTL": "1m", "BRIDGE_POLL_INTERVAL": "10ms", "BRIDGE_RECONCILE_INTERVAL": "8760h",
			})
			d.Start()
			measureGaps(t, d, file)
			if status, _ := d.Term(); status != 0 {
				t.Errorf("ended with %d", status)
			}
		})
	}
}

// measureGaps prints what the program takes until no id is polled any more, and half a minute
// longer.
func measureGaps(t *testing.T, d *world.Daemon, file string) {
	phases := map[string]int64{}
	look := func(phase string) {
		rss, err := d.RSSAnon()
		if err != nil {
			t.Fatal(err)
		}
		phases[phase] = max(phases[phase], rss)
	}
	report := func(phase string) {
		disk := sizeOf(t, file)
		fmt.Printf("%-40s RssAnon %5.1f MiB, disk %5.1f MiB\n", t.Name()+", "+phase, float64(phases[phase])/(1<<20), float64(disk)/(1<<20))
	}
	begun := time.Now()
	world.Eventually(t, 5*time.Minute, "hot no more", func() bool {
		look("before")
		return time.Since(begun) > 30*time.Second
	})
	report("before")
	world.Eventually(t, 15*time.Minute, "no longer polled", func() bool {
		look("while the TTL passes")
		shards := d.Shards("facts")
		return len(shards) == 1 && shards[0].Gaps.Hot+shards[0].Gaps.Cold == 0
	})
	report("while the TTL passes")
	begun = time.Now()
	world.Eventually(t, time.Minute, "half a minute", func() bool {
		look("after")
		return time.Since(begun) > 30*time.Second
	})
	report("after")
}

// plantGaps makes a checkpoint with n ids that were not published, one in so many, and returns its
// position.
func plantGaps(t *testing.T, folder string, n, mean int) uint64 {
	t.Helper()
	ctx := t.Context()
	kept, err := pebble.Open(ctx, folder, pebble.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	key := store.Key{Stream: "facts", Shard: "facts"}
	p, err := progress.Open(ctx, kept, key, store.Progress{Started: true}, ledger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	now, page := time.Now(), make([]uint64, 0, 5000)
	for id := uint64(1); n > 0; id++ {
		if gap := mean == 2 && id%2 == 1 || mean > 2 && rng.IntN(mean) == 0; gap {
			n--
			continue
		}
		if page = append(page, id); len(page) < cap(page) {
			continue
		}
		p.Ledger().See(id, now)
		change, err := p.Advance(progress.Batch{Through: id, Passed: page, At: now, Now: now})
		if err != nil {
			t.Fatal(err)
		}
		if err := kept.Apply(ctx, &store.Batch{Shards: []store.ShardChange{change.ShardChange}}); err != nil {
			t.Fatal(err)
		}
		p.Applied(change.Number)
		page = page[:0]
	}
	return p.Position()
}

// sizeOf returns how many bytes the files of a folder take. One may go meanwhile.
func sizeOf(t *testing.T, folder string) (bytes int64) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil {
			bytes += info.Size()
		}
	}
	return bytes
}
