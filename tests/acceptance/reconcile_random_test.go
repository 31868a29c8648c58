package acceptance

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"bridge/tests/world"

	"bridge/tests/testall"
	"bridge/tests/testenv"
	"bridge/tests/workload"
)

// states is what the large run of states does: 40 s of changes, or ten minutes.
func states() workload.CapabilityOptions {
	if world.Soak {
		return workload.CapabilityOptions{Entities: 10_000, Writers: 8, Changes: 500 * 600, Rate: 500, Seed: 1}
	}
	return workload.CapabilityOptions{Entities: 4000, Writers: 8, Changes: 250 * 40, Rate: 250, Seed: 1}
}

// TestWhateverHappensToATableTheBusFoldsToIt changes two tables in every way while three programs
// publish them: two that are killed, and one that is left alone. For one that is killed and for
// that one, some rows do not match a condition, and a column is masked.
func TestWhateverHappensToATableTheBusFoldsToIt(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	occupy(t, wholeMachine)
	s := newEntities(t, testenv.MariaDB(t), states(), world.Strict, world.Loose)
	// Kills keep reconciles from their end: what is gone by then may be many.
	often := world.Env{"BRIDGE_RECONCILE_INTERVAL": "2s", "BRIDGE_RECONCILE_MAX_DELETES": "45%", "BRIDGE_BATCH_ROWS": "500"}
	kafka, nats := world.KafkaBus(testenv.Kafka(t)), world.NATSBus(testenv.NATS(t))
	hidden := often
	for _, stream := range []string{world.Strict, world.Loose} {
		for name, value := range world.Hiding(true).Env() {
			hidden = hidden.With(world.Env{"BRIDGE_STREAM_" + strings.ToUpper(stream) + "_" + name: value})
		}
	}
	steady := follow(s, nats, "steady", hidden)
	killed := []*world.Publisher{follow(s, kafka, "killed", hidden), follow(s, nats, "killed_too", often.With(world.Env{"BRIDGE_STABILITY_WINDOW": "200ms"}))}
	all := append(killed, steady)
	for _, p := range all {
		p.Start()
		p.Drained()
	}
	// A count begins again with each start.
	duplicates, kills := make(map[*world.Publisher]float64), make(map[*world.Publisher]int)
	var stops []func()
	for _, p := range killed {
		count, n := 0.0, 0
		stop := p.KillEvery(2*time.Second, 8*time.Second, func() { count += p.Metric("bridge_duplicate_acks_total"); n++ })
		stops = append(stops, func() { stop(); duplicates[p], kills[p] = count, n })
	}
	s.Run()
	for _, stop := range stops {
		stop()
	}
	// One after the other: they share the machine.
	for _, p := range all {
		t.Run(fmt.Sprintf("%s, %s", p.Name, p.Bus), func(t *testing.T) {
			steadily, hiding := p == steady, world.Hiding(p.Env["BRIDGE_STREAM_STRICT_FILTER"] != "")
			sentBefore, cuts := duplicates[p], kills[p]
			p := p.With(t)
			reconciled(p)
			for stream := range s.Entities {
				r := p.MustMatch(stream, world.Expect{Hiding: hiding})
				if r.Ops["modified"] == 0 || r.Ops["deletedabsent_in_snapshot"] == 0 || r.Ops["deletedtombstone"] == 0 || r.Origins["reconcile"] == 0 || (r.Ops["deletedfiltered"] > 0) != bool(hiding) {
					t.Errorf("%s: %v from %v: the test shows too little", stream, r.Ops, r.Origins)
				}
				if r.Repeated > 0 && steadily {
					t.Errorf("%d events were repeated without a kill", r.Repeated)
				}
			}
			// What a kill left on its way may arrive when catch-up has read the end.
			sent, most := sentBefore+p.Metric("bridge_duplicate_acks_total"), cuts*len(s.Entities)*500
			t.Logf("%v messages were acknowledged as repeats, at most %d may be: %d kills", sent, most, cuts)
			if sent > float64(most) {
				t.Errorf("%v messages were acknowledged as repeats, at most %d may be", sent, most)
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
