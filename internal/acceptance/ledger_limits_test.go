package acceptance

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"bridge/internal/testenv"
	"bridge/internal/workload"
)

// TestWithoutEvidence tails a table whose id is not its primary key: what is in flight cannot be seen there, time alone decides.
func TestWithoutEvidence(t *testing.T) {
	t.Parallel()
	l := newLoad(t, testenv.MariaDB(t), steadily(hotTime+40*time.Second))
	if _, err := l.db.Exec("ALTER TABLE orders DROP PRIMARY KEY, ADD PRIMARY KEY (entity), DROP KEY entity, ADD UNIQUE KEY entity (entity), ADD UNIQUE KEY id (id)"); err != nil {
		t.Fatal(err)
	}
	patient := l.tail(natsBus{testenv.NATS(t)}, "patient", nil)
	hasty := l.tail(kafkaBus{testenv.Kafka(t)}, "hasty", env{"BRIDGE_GAP_TTL": "1m"})
	wait := l.start()
	eventually(t, 30*time.Second, "first rows", func() bool { return patient.tape.count() > 20 && hasty.tape.count() > 20 })
	short, long := l.open("short", 3), l.open("long", 3)
	pause(20 * time.Second)
	short.commit()
	pause(hotTime)
	eventually(t, 2*sweepTime, "hasty gives ids up", func() bool {
		_, metrics := hasty.get("/metrics")
		return strings.Contains(metrics, `bridge_ids_given_up_total{reason="ttl",stream="orders"}`)
	})
	// What is given up at last was missed at the same time as the rest of the transaction, or before.
	eventually(t, sweepTime, "hasty gives up all that is as old", func() bool {
		shards := hasty.shards(stream)
		return len(shards) == 1 && (len(shards[0].Gaps.Oldest) == 0 || shards[0].Gaps.Oldest[0].Missed.Sub(long.rows[0].Begun) > 5*time.Second)
	})
	long.commit()
	wait()
	patient.complete(sweepTime + 30*time.Second)

	t.Run("comes late, within a sweep once it is cold", func(t *testing.T) {
		a := patient.judge(expectations{steady: true})
		patient.bounded("all", a.delay, 1, sweepTime+time.Second+patience)
		if at, ok := patient.has("short-1"); !ok || at.Sub(short.rows[0].CommitEnded) > time.Second+patience+patient.slack(1) {
			t.Errorf("what committed while it was hot came after %s (%v)", at.Sub(short.rows[0].CommitEnded), ok)
		}
	})
	t.Run("is lost to the tail when it commits after GAP_TTL, and counted", func(t *testing.T) {
		a := judgeTape(hasty.tape.all(), l.rows(), expectations{steady: true})
		t.Logf("hasty: %s", a)
		if len(a.counts) > 0 {
			t.Errorf("%s", a.verdict())
		}
		for _, row := range a.lost {
			if !strings.HasPrefix(row.Token, "long-") {
				t.Errorf("%s was lost", row.Token)
			}
		}
		if len(a.lost) != len(long.rows) {
			t.Errorf("%d rows lost, expected the %d that committed too late", len(a.lost), len(long.rows))
		}
	})
}

// TestAStartAtTheLatestRow begins while transactions are open below the latest row.
func TestAStartAtTheLatestRow(t *testing.T) {
	t.Parallel()
	for i, start := range []string{"latest", "an id"} {
		t.Run("at "+start, func(t *testing.T) {
			t.Parallel()
			l := newLoad(t, testenv.MariaDB(t), workload.Options{})
			insert := func(name string, n int) {
				t.Helper()
				if _, err := l.db.Exec("INSERT INTO orders (entity, token, body) VALUES " + values(name, n)); err != nil {
					t.Fatal(err)
				}
			}
			insert("before", 10)
			open := l.open("open", 3)
			insert("between", 10)
			b := []bus{kafkaBus{testenv.Kafka(t)}, natsBus{testenv.NATS(t)}}[i]
			at := start
			if start != "latest" {
				at = "23"
			}
			d := l.tail(b, "from_"+strings.ReplaceAll(start, " ", "_"), env{"BRIDGE_STREAM_ORDERS_START": at})
			eventually(t, 30*time.Second, "the start is saved", func() bool { return d.position(stream) == 23 })
			insert("behind", 5)
			eventually(t, 30*time.Second, "rows behind the start", func() bool { return d.tape.count() == 5 })
			open.commit()
			eventually(t, 30*time.Second, "rows that were open at the start", func() bool { return d.tape.count() == 8 })
			for i := range 3 {
				if at, ok := d.has(fmt.Sprintf("open-%d", i+1)); !ok || at.Before(open.rows[i].CommitBegun) {
					t.Errorf("open-%d arrived: %v, at %s", i+1, ok, at)
				}
			}
			if _, ok := d.has("before-1"); ok {
				t.Error("a row from before the start was published")
			}
		})
	}
}

// TestAFileOfSQLite has one writer at a time, so that ids commit in their order, save where the application chooses them.
func TestAFileOfSQLite(t *testing.T) {
	t.Parallel()
	for order, ids := range map[string]workload.IDs{"auto": workload.AutoIncrement{}, "segmented": workload.Segments{Block: 500}} {
		t.Run("with ID_ORDER="+order, func(t *testing.T) {
			t.Parallel()
			l := newFileLoad(t, workload.Options{
				IDs: ids, Writers: 4, Commits: 2000, Rate: 200,
				Mix: workload.Mix{Rollback: 0.05, Burn: 0.02, MultiRow: 0.05, Replace: 0.05, Delete: 0.01},
			})
			d := l.tail(natsBus{testenv.NATS(t)}, "file", env{"BRIDGE_ID_ORDER": order, "BRIDGE_STABILITY_WINDOW": "0s"})
			l.start()()
			d.complete(30 * time.Second)
			a := d.judge(expectations{steady: true})
			d.bounded("all", a.delay, 0.99, patience)
			if (a.late > 0) != (order == "segmented") {
				t.Errorf("%d late records", a.late)
			}
		})
	}
}
