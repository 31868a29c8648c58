package acceptance

import (
	"testing"
	"time"

	"bridge/internal/testenv"
	"bridge/internal/workload"
)

// commits is how many transactions the large runs commit.
func commits() int {
	if soak {
		return 200_000
	}
	return 50_000
}

// unruly is the workload that the ledger exists for: half a percent of the transactions stays open for up to 20 s.
func unruly() workload.Options {
	return workload.Options{
		Writers: 32, Commits: commits(), Rate: 500,
		Hold: workload.Hold{Short: 5 * time.Millisecond, Long: 20 * time.Second, LongShare: 0.005},
		Mix:  workload.Mix{Rollback: 0.02, Burn: 0.01, MultiRow: 0.03, InsertSelect: 0.01, Replace: 0.05, Delete: 0.01},
	}
}

// TestTransactionsOfAnyLength has one workload tailed by four programs at the same time.
func TestTransactionsOfAnyLength(t *testing.T) {
	t.Parallel()
	occupy(t, wholeMachine)
	kafka, nats := kafkaBus{testenv.Kafka(t)}, natsBus{testenv.NATS(t)}
	l := newLoad(t, testenv.MariaDB(t), unruly())
	atOnce := l.tail(kafka, "at_once", env{"BRIDGE_STABILITY_WINDOW": "0s"})
	windowed := l.tail(nats, "windowed", nil)
	// On Kafka, since JetStream drops repeats. Without CREATED the time of an event is a clock's, and a repeat must have the same one still.
	killed := l.tail(kafka, "killed", env{"BRIDGE_STABILITY_WINDOW": "200ms", "BRIDGE_STREAM_ORDERS_CREATED": ""})
	without := l.tail(nats, "without_ledger", nil, "bridge_noledger")
	stop := killed.killing(2*time.Second, 5*time.Second)
	l.start()()
	stop()
	for _, d := range []*tailer{atOnce, windowed, killed} {
		d.complete(time.Minute)
	}
	without.drained()

	t.Run("arrive at once without a window", func(t *testing.T) {
		a := atOnce.judge(expectations{steady: true})
		atOnce.bounded("all", a.delay, 0.5, patience/2)
		atOnce.bounded("all", a.delay, 0.99, patience)
		atOnce.bounded("late records", a.lateDelay, 0.99, patience)
		if a.late == 0 {
			t.Error("no record was late: the test shows nothing")
		}
	})
	t.Run("arrive behind the default window", func(t *testing.T) {
		a := windowed.judge(expectations{steady: true})
		windowed.bounded("all", a.delay, 0.99, time.Second+patience)
		windowed.bounded("late records", a.lateDelay, 0.99, patience)
	})
	t.Run("arrive over kills", func(t *testing.T) {
		if a := killed.judge(expectations{}); a.repeated == 0 {
			t.Log("no kill hit a batch in flight")
		}
	})
	t.Run("are lost without the ledger", func(t *testing.T) {
		a := judgeTape(without.tape.all(), l.rows(), expectations{})
		t.Logf("without the ledger: %s", a)
		if len(a.lost) == 0 {
			t.Error("nothing was lost: the test cannot fail")
		}
		if len(a.counts) > 0 {
			t.Errorf("%s", a.verdict())
		}
	})
}

// TestADatabaseThatCrashes kills the server in the middle of the same workload; one of the programs is killed, too.
func TestADatabaseThatCrashes(t *testing.T) {
	t.Parallel()
	occupy(t, 1)
	server := testenv.StartMariaDB(t)
	opts := unruly()
	opts.Seed = 2
	l := newLoad(t, server, opts)
	steady := l.tail(natsBus{testenv.NATS(t)}, "steady", env{"BRIDGE_STABILITY_WINDOW": "0s"})
	killed := l.tail(kafkaBus{testenv.Kafka(t)}, "killed", nil)
	wait := l.start()
	stop := killed.killing(2*time.Second, 5*time.Second)
	const crashes = 3
	for crash := range crashes {
		due := opts.Commits * (crash + 1) / (crashes + 1)
		eventually(t, 20*time.Minute, "commits", func() bool { return l.Record().Sums().Commits > due })
		server.Restart(t)
	}
	wait()
	stop()
	for _, d := range []*tailer{steady, killed} {
		d.complete(time.Minute)
		d.judge(expectations{steady: d == steady})
	}
}

// TestTheStrictlyOrderedIssuer tails its 64 tables as one stream.
func TestTheStrictlyOrderedIssuer(t *testing.T) {
	t.Parallel()
	l := newLoad(t, testenv.MariaDB(t), workload.Options{
		IDs: workload.Ordered{}, Writers: 16, Commits: 3000, Rate: 150, Seed: 3,
		Hold: workload.Hold{Short: 5 * time.Millisecond, Long: 10 * time.Second, LongShare: 0.01},
		Mix:  workload.Mix{Rollback: 0.05, Burn: 0.02, MultiRow: 0.05, Replace: 0.05},
	})
	d := l.tail(natsBus{testenv.NATS(t)}, "ordered", env{"BRIDGE_STABILITY_WINDOW": "100ms"})
	l.start()()
	d.complete(time.Minute)
	if a := d.judge(expectations{}); a.late == 0 {
		t.Error("no record was late: the test shows nothing")
	}
}
