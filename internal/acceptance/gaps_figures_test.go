package acceptance

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"bridge/tests/world"

	"bridge/checkpoint"
	"bridge/checkpoint/bolt"
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
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("%-40s RssAnon %5.1f MiB, disk %5.1f MiB\n", t.Name()+", "+phase, float64(phases[phase])/(1<<20), float64(info.Size())/(1<<20))
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
func plantGaps(t *testing.T, file string, n, mean int) uint64 {
	t.Helper()
	store, err := bolt.Open(file, bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	l, err := ledger.New(ledger.Options{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	key := checkpoint.Key{Stream: "facts", Shard: "facts"}
	rng := rand.New(rand.NewPCG(1, 2))
	now, page := time.Now(), make([]uint64, 0, 5000)
	for id, pages := uint64(1), 0; n > 0; id++ {
		if gap := mean == 2 && id%2 == 1 || mean > 2 && rng.IntN(mean) == 0; gap {
			n--
			continue
		}
		if page = append(page, id); len(page) < cap(page) {
			continue
		}
		l.See(id, now)
		l.Advance(id, page, now)
		if page, pages = page[:0], pages+1; pages%500 == 0 || n < 5000 {
			state := checkpoint.State{Position: ledger.Position{ID: id}, Ledger: l.Changed(), Saved: time.Now()}
			if err := store.Save(context.Background(), key, state); err != nil {
				t.Fatal(err)
			}
		}
	}
	state := checkpoint.State{Position: ledger.Position{ID: l.Position()}, Ledger: l.Changed(), Saved: time.Now()}
	if err := store.Save(context.Background(), key, state); err != nil {
		t.Fatal(err)
	}
	return l.Position()
}
