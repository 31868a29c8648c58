package acceptance

import (
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"

	"bridge/internal/testenv"
	"bridge/internal/workload"
)

// stateChanges is how many commits the large run of states makes.
func stateChanges() int {
	if soak {
		return 500 * 600
	}
	return 500 * 40
}

// TestWhateverHappensToATableTheBusFoldsToIt changes two tables in every way while three programs publish them: two that are killed, and
// one that is left alone.
func TestWhateverHappensToATableTheBusFoldsToIt(t *testing.T) {
	t.Parallel()
	occupy(t, wholeMachine)
	s := newStates(t, testenv.MariaDB(t), workload.CapabilityOptions{
		Entities: 10_000, Writers: 8, Changes: stateChanges(), Rate: 500, Seed: 1,
	}, strict, loose)
	// Kills keep reconciles from their end: what is gone by then may be many.
	often := env{"BRIDGE_RECONCILE_INTERVAL": "2s", "BRIDGE_RECONCILE_MAX_DELETES": "45%", "BRIDGE_BATCH_ROWS": "500"}
	kafka, nats := kafkaBus{testenv.Kafka(t)}, natsBus{testenv.NATS(t)}
	steady := s.publish(nats, "steady", often)
	killed := []*publisher{s.publish(kafka, "killed", often), s.publish(nats, "killed_too", often.with(env{"BRIDGE_STABILITY_WINDOW": "200ms"}))}
	all := append(killed, steady)
	for _, p := range all {
		p.start()
		p.drained()
	}
	// A count begins anew with each start.
	duplicates := make(map[*publisher]float64)
	var stops []func()
	for _, p := range killed {
		count := 0.0
		stop := p.killing(2*time.Second, 8*time.Second, func() { count += p.metric("bridge_duplicate_acks_total") })
		stops = append(stops, func() { stop(); duplicates[p] = count })
	}
	s.run()
	for _, stop := range stops {
		stop()
	}
	// One after the other: they share the machine.
	for _, p := range all {
		t.Run(fmt.Sprintf("%s, %T", p.name, p.bus), func(t *testing.T) {
			p.t = t
			p.settled()
			for stream := range s.loads {
				r := p.judge(stream, true)
				if r.ops["modified"] == 0 || r.ops["deletedabsent_in_snapshot"] == 0 || r.ops["deletedtombstone"] == 0 || r.origins["reconcile"] == 0 {
					t.Errorf("%s: %v from %v: the test shows too little", stream, r.ops, r.origins)
				}
				if r.repeated > 0 && p == steady {
					t.Errorf("%d events were repeated without a kill", r.repeated)
				}
			}
			sent, again := duplicates[p]+p.metric("bridge_duplicate_acks_total"), p.sentAgain()
			t.Logf("%v messages were acknowledged as repeats, %d were sent again after kills", sent, again)
			if sent > float64(again) {
				t.Errorf("%v first sends were acknowledged as repeats, at least", sent-float64(again))
			}
			p.verifies()
		})
	}
}

// onTheirWay matches what a start logs when it sends the messages of a journal.
var onTheirWay = regexp.MustCompile(`sent again.*[^a-z]messages=(\d+)`)

// sentAgain returns how many messages all starts of the daemon have sent a second time, by its log.
func (d *daemon) sentAgain() (n int) {
	for _, match := range onTheirWay.FindAllStringSubmatch(d.log.String(), -1) {
		messages, err := strconv.Atoi(match[1])
		if err != nil {
			d.t.Fatal(err)
		}
		n += messages
	}
	return n
}

// settled waits until all that was committed is published: the tail has come to the end, and one more reconcile has run.
func (p *publisher) settled() {
	p.t.Helper()
	eventually(p.t, time.Minute, p.name+" is ready", func() bool {
		code, _ := p.get("/readyz")
		return code == 200
	})
	p.drained()
	// What is younger than the window is not judged.
	pause(1100 * time.Millisecond)
	for stream := range p.states.loads {
		p.t.Logf("%s: %s", p.name, p.reconcile(stream))
	}
}

// verifies fails the test unless `bridge verify` finds the bus to be what the tables are.
func (p *publisher) verifies() {
	p.t.Helper()
	started := time.Now()
	status, stdout, stderr := bridge(p.t, p.env, "verify", "--json")
	p.t.Logf("%s: bridge verify took %s", p.name, time.Since(started).Round(time.Millisecond))
	if status != 0 {
		p.t.Errorf("%s: bridge verify: exit status %d\n%s\n%s", p.name, status, stdout, stderr)
	}
}
