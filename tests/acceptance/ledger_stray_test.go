package acceptance

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bridge/tests/world"

	"bridge/checkpoint/store"
	"bridge/checkpoint/store/pebble"
	"bridge/internal/progress"
	"bridge/source/ledger"
	"bridge/tests/testall"
	"bridge/tests/testenv"
)

// strayID is the id of a row that was inserted by mistake.
const strayID = 9_000_000_000_000_000_000

// TestAStrayHighID inserts a row with a high id and deletes it; rows go on below, before GAP_TTL
// and after it, in a burst with kills.
func TestAStrayHighID(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	world.EachBus(t, func(t *testing.T, b *world.Bus) {
		table := world.Empty(t, testenv.MariaDB(t))
		table.Exec("CREATE TABLE facts (id bigint unsigned NOT NULL PRIMARY KEY, name varchar(64) NOT NULL)")
		insert := func(first, last uint64) {
			table.Exec(fmt.Sprintf("INSERT INTO facts SELECT seq, concat('row-', seq) FROM seq_%d_to_%d", first, last))
		}
		name := table.Name + "_facts"
		file := filepath.Join(t.TempDir(), "bridge.db")
		e := b.Env().With(world.Env{
			"BRIDGE_SOURCE_URL": table.URL, "BRIDGE_STREAMS": "facts", "BRIDGE_STREAM_FACTS_KIND": "release",
			"BRIDGE_STREAM_FACTS_TABLE": "facts", "BRIDGE_STREAM_FACTS_DESTINATION": b.Open(t, name),
			"BRIDGE_CHECKPOINT_URL": "file:" + file, "BRIDGE_POLL_INTERVAL": world.PollInterval.String(),
		})
		d := world.NewDaemon(t, world.Binary(t, false), e)
		d.Start()
		arrive := func(what string, rows int64) {
			t.Helper()
			begun := time.Now()
			world.Eventually(t, time.Minute, what, func() bool { return b.Count(t, name) >= rows })
			// Without the front they would come with a sweep or a reconcile.
			if took := time.Since(begun); took > 30*time.Second {
				t.Errorf("%s came after %s", what, took)
			} else {
				t.Logf("%s came after %s", what, took)
			}
		}
		insert(1, 100)
		arrive("the first rows", 100)
		insert(strayID, strayID)
		arrive("the stray row", 101)
		table.Exec("DELETE FROM facts WHERE id > 100")
		insert(101, 110)
		arrive("rows before GAP_TTL", 111)
		world.Eventually(t, time.Minute, "saved", func() bool { return d.Position("facts") == strayID })
		world.Eventually(t, time.Minute, "the stray id in the log", func() bool { return strings.Contains(d.Log.String(), "stray_id") })
		d.Term()
		if log := d.Log.String(); strings.Count(log, "stray_id=9000000000000000000") != 1 {
			t.Errorf("the log does not name the stray id once:\n%s", log)
		}

		age(t, file, store.Key{Stream: "facts", Shard: "facts"}, 48*time.Hour)
		if found := world.Check(t, e).Find("stray-id"); len(found) != 1 || !strings.Contains(found[0].Statement, "bridge checkpoint set facts facts 110") {
			t.Errorf("check finds %+v", found)
		}
		d.Start()
		world.Eventually(t, time.Minute, "past GAP_TTL", func() bool {
			_, metrics := d.Get("/metrics")
			return strings.Contains(metrics, `bridge_unpolled_ids{stream="facts"} 8.99`) ||
				strings.Contains(metrics, `bridge_unpolled_ids{stream="facts"} 9e+18`)
		})
		for id := uint64(111); id <= 115; id++ {
			insert(id, id)
			arrive(fmt.Sprintf("row %d, long after GAP_TTL", id), int64(id)+1)
		}
		d.Kill()
		insert(1000, 40_999)
		d.Start()
		world.Eventually(t, time.Minute, "some of the burst", func() bool { return b.Count(t, name) > 5000 })
		d.Kill()
		d.Start()
		begun := time.Now()
		distinct := func() int {
			ids := make(map[string]bool)
			for _, r := range b.ReadAll(t, name) {
				ids[r.Headers["eiffel-id"]] = true
			}
			return len(ids)
		}
		world.Eventually(t, 2*time.Minute, "the burst", func() bool { return b.Count(t, name) >= 40_116 && distinct() == 40_116 })
		t.Logf("40,000 rows at the low end came after %s", time.Since(begun))
		// A row that was left out before is in a gap like others now.
		insert(500, 500)
		world.Eventually(t, time.Minute, "a row that was left out", func() bool { return distinct() == 40_117 })
	})
}

// age changes the checkpoint of a shard as if so much time had passed, and everything vacant been
// looked for.
func age(t *testing.T, folder string, key store.Key, passed time.Duration) {
	t.Helper()
	ctx := t.Context()
	kept, err := pebble.Open(ctx, folder, pebble.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	saved, _, err := kept.Progress(ctx, key)
	if err != nil {
		t.Fatal(err)
	}
	p, err := progress.Open(ctx, kept, key, saved, ledger.Options{Away: math.MaxInt64})
	if err != nil {
		t.Fatal(err)
	}
	l := p.Ledger()
	now := time.Now().Add(passed)
	for range 10_000 {
		l.Observe(ledger.Evidence{Ranges: l.Hot(now).IDs, Now: now})
		ranges := l.Sweep(now)
		if len(ranges) == 0 {
			break
		}
		l.Swept(ledger.Evidence{Ranges: ranges, Now: now})
	}
	change, err := p.Flush(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := kept.Apply(ctx, &store.Batch{Shards: []store.ShardChange{change}}); err != nil {
		t.Fatal(err)
	}
}
