package acceptance

import (
	"fmt"
	"testing"
	"time"

	"bridge/tests/world"

	"bridge/internal/testall"
	"bridge/internal/testenv"
	"bridge/internal/workload"
)

// stateChanges is how many commits the large run of states makes.
func stateChanges() int {
	if world.Soak {
		return 500 * 600
	}
	return 500 * 40
}

// TestWhateverHappensToATableTheBusFoldsToIt changes two tables in every way while three programs
// publish them: two that are killed, and one that is left alone.
func TestWhateverHappensToATableTheBusFoldsToIt(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	occupy(t, wholeMachine)
	s := newEntities(t, testenv.MariaDB(t), workload.CapabilityOptions{
		Entities: 10_000, Writers: 8, Changes: stateChanges(), Rate: 500, Seed: 1,
	}, world.Strict, world.Loose)
	// Kills keep reconciles from their end: what is gone by then may be many.
	often := world.Env{"BRIDGE_RECONCILE_INTERVAL": "2s", "BRIDGE_RECONCILE_MAX_DELETES": "45%", "BRIDGE_BATCH_ROWS": "500"}
	kafka, nats := world.KafkaBus(testenv.Kafka(t)), world.NATSBus(testenv.NATS(t))
	steady := follow(s, nats, "steady", often)
	killed := []*world.Publisher{follow(s, kafka, "killed", often), follow(s, nats, "killed_too", often.With(world.Env{"BRIDGE_STABILITY_WINDOW": "200ms"}))}
	all := append(killed, steady)
	for _, p := range all {
		p.Start()
		p.Drained()
	}
	// A count begins again with each start.
	duplicates := make(map[*world.Publisher]float64)
	var stops []func()
	for _, p := range killed {
		count := 0.0
		stop := p.KillEvery(2*time.Second, 8*time.Second, func() { count += p.Metric("bridge_duplicate_acks_total") })
		stops = append(stops, func() { stop(); duplicates[p] = count })
	}
	s.Run()
	for _, stop := range stops {
		stop()
	}
	// One after the other: they share the machine.
	for _, p := range all {
		t.Run(fmt.Sprintf("%s, %s", p.Name, p.Bus), func(t *testing.T) {
			steadily := p == steady
			sentBefore := duplicates[p]
			p := p.With(t)
			reconciled(p)
			for stream := range s.Entities {
				r := p.MustMatch(stream, world.Expect{})
				if r.Ops["modified"] == 0 || r.Ops["deletedabsent_in_snapshot"] == 0 || r.Ops["deletedtombstone"] == 0 || r.Origins["reconcile"] == 0 {
					t.Errorf("%s: %v from %v: the test shows too little", stream, r.Ops, r.Origins)
				}
				if r.Repeated > 0 && steadily {
					t.Errorf("%d events were repeated without a kill", r.Repeated)
				}
			}
			sent, again := sentBefore+p.Metric("bridge_duplicate_acks_total"), p.SentAgain()
			t.Logf("%v messages were acknowledged as repeats, %d were sent again after kills", sent, again)
			if sent > float64(again) {
				t.Errorf("%v first sends were acknowledged as repeats, at least", sent-float64(again))
			}
			p.MustVerify()
		})
	}
}

// reconciled waits until all that was committed is published: the tail has come to the end, and one
// more reconcile has run.
func reconciled(p *world.Publisher) {
	p.T.Helper()
	world.AwaitReady(p.T, p.Daemon)
	p.Drained()
	// What is younger than the window is not judged.
	world.Pause(1100 * time.Millisecond)
	for stream := range p.World.Entities {
		p.T.Logf("%s: %s", p.Name, p.Reconcile(stream))
	}
}
