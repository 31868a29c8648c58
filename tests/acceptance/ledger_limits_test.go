package acceptance

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"example.org/bridge/tests/world"

	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/workload"
)

// TestWithoutEvidence tails a table whose id is not its primary key: what is in flight cannot be
// seen there, so gaps expire by age.
func TestWithoutEvidence(t *testing.T) {
	testall.Beside(t)
	l := newRows(t, testenv.MariaDB(t), steadily(2*hotTime+20*time.Second))
	if _, err := l.DB.Exec("ALTER TABLE orders DROP PRIMARY KEY, ADD PRIMARY KEY (entity), DROP KEY entity, ADD UNIQUE KEY entity (entity), ADD UNIQUE KEY id (id)"); err != nil {
		t.Fatal(err)
	}
	patient := tailBriefly(l, world.NATSBus(testenv.NATS(t)), "patient", nil)
	hasty := tailBriefly(l, world.KafkaBus(testenv.Kafka(t)), "hasty", world.Env{"BRIDGE_GAP_TTL": "1m"})
	wait, _ := l.Write()
	world.Eventually(t, time.Minute, "first rows", func() bool { return patient.Tape().Count() > 20 && hasty.Tape().Count() > 20 })
	long := l.Begin("long", 3)
	last := long.FirstID() + 2
	short := commitsWhileHot(l, patient, hasty)
	// Far longer than what the status may lie behind.
	world.Pause(hotTime)
	world.Eventually(t, 2*sweepTime+time.Minute, "hasty gives ids up", func() bool { return hasty.Metric("bridge_ids_given_up_total") > 0 })
	world.Eventually(t, 2*sweepTime+time.Minute, "hasty gives up the ids of the transaction that stays open", func() bool {
		s := hasty.Shard(world.Orders)
		// The lowest comes first.
		return s.State != "" && (len(s.Gaps.Oldest) == 0 || s.Gaps.Oldest[0].First > last)
	})
	long.Commit()
	wait()
	patient.complete(sweepTime + time.Minute)

	t.Run("comes late, within a sweep once it is cold", func(t *testing.T) {
		a := patient.mustMatch(world.Expect{Steady: true})
		patient.bounded("all", a.Delay(), 1, sweepTime+time.Second+slack)
		if at, ok := patient.arrived(short.Rows[0].Token); !ok || at.Sub(short.Rows[0].CommitEnded) > time.Second+slack+patient.noiseOf(1) {
			t.Errorf("what committed while it was hot came after %s (%v)", at.Sub(short.Rows[0].CommitEnded), ok)
		}
	})
	t.Run("is lost to the tail when it commits after GAP_TTL, and counted", func(t *testing.T) {
		a := hasty.Verdict(world.Orders, world.Expect{Steady: true})
		t.Logf("hasty: %s", a)
		if len(a.Counts) > 0 {
			t.Errorf("%s", a.Wrong())
		}
		for _, row := range a.Lost {
			if !strings.HasPrefix(row.Token, "long-") {
				t.Errorf("%s was lost", row.Token)
			}
		}
		if len(a.Lost) != len(long.Rows) {
			t.Errorf("%d rows lost, expected the %d that committed too late", len(a.Lost), len(long.Rows))
		}
	})
}

// commitsWhileHot commits a transaction when programs have passed its ids, while those are hot. On
// a machine that is held for too long meanwhile, it begins another one.
func commitsWhileHot(l *world.World, programs ...*tailer) *world.Transaction {
	l.T.Helper()
	for try := range 10 {
		begun, short := time.Now(), l.Begin(fmt.Sprintf("short-%d", try), 3)
		last := short.FirstID() + 2
		l.Insert(fmt.Sprintf("behind-%d", try), 1)
		for _, p := range programs {
			world.Eventually(l.T, time.Minute, p.Name+" has missed the ids", func() bool { return p.Position(world.Orders) > last })
		}
		if time.Since(begun) > hotTime/4 {
			_ = short.Tx.Rollback() // nothing of it is recorded
			continue
		}
		if short.Commit(); short.Rows[0].CommitEnded.Sub(begun) < hotTime/2 {
			return short
		}
	}
	l.T.Fatal("no transaction has committed within half the hot time")
	return nil
}

// TestAStartAtTheLatestRow begins while transactions are open below the latest row.
func TestAStartAtTheLatestRow(t *testing.T) {
	testall.Beside(t)
	for i, start := range []string{"latest", "an id"} {
		t.Run("at "+start, func(t *testing.T) {
			t.Parallel()
			l := newRows(t, testenv.MariaDB(t), workload.Options{})
			l.Insert("before", 10)
			open := l.Begin("open", 3)
			l.Insert("between", 10)
			b := []*world.Bus{world.KafkaBus(testenv.Kafka(t)), world.NATSBus(testenv.NATS(t))}[i]
			at := start
			if start != "latest" {
				at = "23"
			}
			d := plainTail(l, b, "from_"+strings.ReplaceAll(start, " ", "_"), world.Env{"BRIDGE_STREAM_ORDERS_START": at})
			world.Eventually(t, time.Minute, "the start is saved", func() bool { return d.Position(world.Orders) == 23 })
			l.Insert("behind", 5)
			world.Eventually(t, time.Minute, "rows behind the start", func() bool { return d.Tape().Count() == 5 })
			open.Commit()
			world.Eventually(t, time.Minute, "rows that were open at the start", func() bool { return d.Tape().Count() == 8 })
			for i := range 3 {
				if at, ok := d.arrived(fmt.Sprintf("open-%d", i+1)); !ok || at.Before(open.Rows[i].CommitBegun) {
					t.Errorf("open-%d arrived: %v, at %s", i+1, ok, at)
				}
			}
			if _, ok := d.arrived("before-1"); ok {
				t.Error("a row from before the start was published")
			}
		})
	}
}

// TestAFileOfSQLite has one writer at a time, so that ids commit in their order, save where the
// application chooses them.
func TestAFileOfSQLite(t *testing.T) {
	testall.Beside(t)
	for order, ids := range map[string]workload.IDs{"auto": workload.AutoIncrement{}, "segmented": workload.Segments{Block: 500}} {
		t.Run("with ID_ORDER="+order, func(t *testing.T) {
			t.Parallel()
			l := newRows(t, nil, workload.Options{
				IDs: ids, Writers: 4, Commits: 2000, Rate: 200,
				Mix: workload.Mix{Rollback: 0.05, Burn: 0.02, MultiRow: 0.05, Replace: 0.05, Delete: 0.01},
			})
			d := plainTail(l, world.NATSBus(testenv.NATS(t)), "file", world.Env{"BRIDGE_ID_ORDER": order, "BRIDGE_STABILITY_WINDOW": "0s"})
			l.Run()
			d.complete(time.Minute)
			a := d.mustMatch(world.Expect{Steady: true})
			d.bounded("all", a.Delay(), 0.99, slack)
			if (a.Late() > 0) != (order == "segmented") {
				t.Errorf("%d late rows", a.Late())
			}
		})
	}
}
