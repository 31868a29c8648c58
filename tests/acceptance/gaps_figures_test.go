package acceptance

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"bridge/tests/world"

	"bridge/checkpoint/store"
	"bridge/checkpoint/store/pebble"
	"bridge/internal/progress"
	"bridge/source/ledger"
)

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
