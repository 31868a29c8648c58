package acceptance

import (
	"testing"
	"time"

	"bridge/tests/faulty/failpoint"
	"bridge/tests/testall"
	"bridge/tests/testenv"
	"bridge/tests/workload"
	"bridge/tests/world"
)

// load is how many transactions the large runs commit, and how many a second. Of 10,000 fifty stay
// open for up to 20 s, while 40 s of writing go on.
func load() (commits int, rate float64) {
	if world.Soak {
		return 200_000, 500
	}
	return 10_000, 250
}

// unruly is the workload that the ledger exists for: half a percent of the transactions stays open
// for up to 20 s.
func unruly() workload.Options {
	commits, rate := load()
	return workload.Options{
		Writers: 32, Commits: commits, Rate: rate,
		Hold: workload.Hold{Short: 5 * time.Millisecond, Long: 20 * time.Second, LongShare: 0.005},
		Mix:  workload.Mix{Rollback: 0.02, Burn: 0.01, MultiRow: 0.03, InsertSelect: 0.01, Replace: 0.05, Delete: 0.01},
	}
}

// TestTransactionsOfAnyLength has one workload tailed by four programs at the same time.
func TestTransactionsOfAnyLength(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	occupy(t, wholeMachine)
	kafka, nats := world.KafkaBus(testenv.Kafka(t)), world.NATSBus(testenv.NATS(t))
	l := newRows(t, testenv.MariaDB(t), unruly())
	atOnce := l.Tail(kafka, "at_once", world.Env{"BRIDGE_STABILITY_WINDOW": "0s"})
	windowed := l.Tail(nats, "windowed", nil)
	// On Kafka, since JetStream drops repeats. Without CREATED the time of an event is a clock's,
	// and a repeat must have the same one still.
	killed := l.Tail(kafka, "killed", world.Env{"BRIDGE_STABILITY_WINDOW": "200ms", "BRIDGE_STREAM_ORDERS_CREATED": ""})
	without := l.TailFaulty(nats, "without_ledger", world.Env{failpoint.MutantVariable: string(failpoint.NoLedger)})
	stop := killed.KillEvery(2*time.Second, 5*time.Second)
	l.Run()
	stop()
	for _, d := range []*world.Publisher{atOnce, windowed, killed} {
		d.Complete(world.Orders, time.Minute)
	}
	without.Drained()

	t.Run("arrive at once without a window", func(t *testing.T) {
		a := atOnce.MustMatch(world.Orders, world.Expect{Steady: true})
		atOnce.Bounded("all", a.Delay(), 0.5, world.Slack/2)
		atOnce.Bounded("all", a.Delay(), 0.99, world.Slack)
		atOnce.Bounded("late rows", a.Delays["late"], 0.99, world.Slack)
		if a.Late() == 0 {
			t.Error("no row was late: the test shows nothing")
		}
	})
	t.Run("arrive behind the default window", func(t *testing.T) {
		a := windowed.MustMatch(world.Orders, world.Expect{Steady: true})
		windowed.Bounded("all", a.Delay(), 0.99, time.Second+world.Slack)
		windowed.Bounded("late rows", a.Delays["late"], 0.99, world.Slack)
	})
	t.Run("arrive over kills", func(t *testing.T) {
		if a := killed.MustMatch(world.Orders, world.Expect{}); a.Repeated == 0 {
			t.Log("no kill hit a batch in flight")
		}
	})
	t.Run("are lost without the ledger", func(t *testing.T) {
		a := without.Verdict(world.Orders, world.Expect{})
		t.Logf("without the ledger: %s", a)
		if len(a.Lost) == 0 {
			t.Error("nothing was lost: the test cannot fail")
		}
		if len(a.Counts) > 0 {
			t.Errorf("%s", a.Wrong())
		}
	})
}

// TestADatabaseThatCrashes kills the server in the middle of the same workload; one of the programs
// is killed, too.
func TestADatabaseThatCrashes(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	occupy(t, 1)
	server := testenv.StartMariaDB(t)
	opts := unruly()
	opts.Seed = 2
	l := newRows(t, server, opts)
	steady := l.Tail(world.NATSBus(testenv.NATS(t)), "steady", world.Env{"BRIDGE_STABILITY_WINDOW": "0s"})
	killed := l.Tail(world.KafkaBus(testenv.Kafka(t)), "killed", nil)
	wait, _ := l.Write()
	stop := killed.KillEvery(2*time.Second, 5*time.Second)
	const crashes = 3
	for crash := range crashes {
		due := opts.Commits * (crash + 1) / (crashes + 1)
		world.Eventually(t, 20*time.Minute, "commits", func() bool { return l.Rows.Record().Sums().Commits > due })
		server.Restart(t)
	}
	wait()
	stop()
	for _, d := range []*world.Publisher{steady, killed} {
		d.Complete(world.Orders, time.Minute)
		d.MustMatch(world.Orders, world.Expect{Steady: d == steady})
	}
}

// TestTheStrictlyOrderedIssuer tails its 64 tables as one stream.
func TestTheStrictlyOrderedIssuer(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	l := newRows(t, testenv.MariaDB(t), workload.Options{
		IDs: workload.Ordered{}, Writers: 16, Commits: 3000, Rate: 150, Seed: 3,
		Hold: workload.Hold{Short: 5 * time.Millisecond, Long: 10 * time.Second, LongShare: 0.01},
		Mix:  workload.Mix{Rollback: 0.05, Burn: 0.02, MultiRow: 0.05, Replace: 0.05},
	})
	d := l.Tail(world.NATSBus(testenv.NATS(t)), "ordered", world.Env{"BRIDGE_STABILITY_WINDOW": "100ms"})
	l.Run()
	d.Complete(world.Orders, time.Minute)
	if a := d.MustMatch(world.Orders, world.Expect{}); a.Late() == 0 {
		t.Error("no row was late: the test shows nothing")
	}
}
