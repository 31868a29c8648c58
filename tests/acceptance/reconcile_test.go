package acceptance

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"example.org/bridge/event"
	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/workload"
	"example.org/bridge/tests/world"
)

// TestManyThatVanishAtOnceAreNoDeletes until a person agrees: by a command, or by HTTP to a program
// that is killed in the midst of the deletes.
func TestManyThatVanishAtOnceAreNoDeletes(t *testing.T) {
	testall.Beside(t)
	for name, c := range map[string]struct {
		rows   int
		bus    func() *world.Bus
		strike func(s *world.World)
		agree  func(p *world.Publisher)
	}{
		"a restore of yesterday's table": {50, func() *world.Bus { return world.KafkaBus(testenv.Kafka(t)) }, func(s *world.World) {
			s.Exec("CREATE TABLE yesterday LIKE strict")
			s.Exec("INSERT INTO yesterday SELECT * FROM strict ORDER BY id LIMIT 20")
			s.Exec("UPDATE yesterday SET note = 'as it was' WHERE id % 5 = 0")
			s.Exec("RENAME TABLE strict TO today, yesterday TO strict")
		}, func(p *world.Publisher) { p.Reconcile("--allow-deletes", world.Strict) }},
		"TRUNCATE": {30_000, func() *world.Bus { return world.NATSBus(testenv.NATS(t)) }, func(s *world.World) { s.Exec("TRUNCATE strict") }, killedWhileAllowed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newEntities(t, testenv.MariaDB(t), workload.CapabilityOptions{Entities: c.rows, Seed: 3})
			p := follow(s, c.bus(), "guarded", world.Env{"BRIDGE_RECONCILE_INTERVAL": "2s", "BRIDGE_STABILITY_WINDOW": "200ms"})
			p.Start()
			p.Drained()
			if got := len(p.Received(world.Strict)); got != c.rows {
				t.Fatalf("%d events of %d rows", got, c.rows)
			}
			guarded(p, func() { c.strike(s) })
			c.agree(p)
			goesOn(p)
			// Of rows that are gone nothing proves values that their events do not tell.
			if r := world.Verify(p.T, p.Env); !r.Good {
				p.T.Errorf("bridge verify: %+v", r)
			}
		})
	}
}

// guarded lets disaster strike and fails the test unless the stream says so and publishes no
// delete.
func guarded(p *world.Publisher, strike func()) {
	p.T.Helper()
	strike()
	const command = "bridge reconcile --allow-deletes"
	world.AwaitUnready(p.T, p.Daemon, command, world.Strict)
	world.Eventually(p.T, time.Minute, "the log says so, too", func() bool { return strings.Contains(p.Log.String(), command) })
	// Some more runs of the schedule.
	world.Pause(6 * time.Second)
	for _, m := range p.Received(world.Strict) {
		if e, err := world.DecodeEvent(m); err != nil || e.Op == event.Deleted {
			p.T.Fatalf("published before anyone agreed: %s (%v)", m.Value, err)
		}
	}
}

// killedWhileAllowed agrees to the deletes by HTTP and kills the daemon in the midst of them. What
// a person agreed to it has to remember.
func killedWhileAllowed(p *world.Publisher) {
	p.T.Helper()
	gone := p.Tape(world.Strict).Count()
	if status, body := p.Post("/api/v1/streams/" + world.Strict + "/reconcile?allowDeletes=true"); status != http.StatusAccepted {
		p.T.Fatalf("the agreement: %d %s", status, body)
	}
	world.Eventually(p.T, time.Minute, "some deletes", func() bool { return deletes(p) > 1000 })
	p.Kill()
	p.T.Logf("killed behind %d deletes", deletes(p))
	p.Start()
	// The run that was killed goes on by itself. Where that one was begun before disaster struck it
	// had passed over part of the table; the run that was to follow it is forgotten, and a person
	// is asked again.
	last, since := 0, time.Now()
	asked := false
	world.Eventually(p.T, 2*time.Minute, "the deletes go on", func() bool {
		if n := deletes(p); n != last {
			last, since = n, time.Now()
		}
		_, body := p.Get("/readyz")
		asked = strings.Contains(body, "--allow-deletes")
		return time.Since(since) > 6*time.Second && (asked || last >= gone)
	})
	if asked {
		p.T.Logf("asked again behind %d deletes: %+v", last, p.ReconcileByHTTP(world.Strict, "allowDeletes=true"))
	}
}

// deletes counts the messages about deleted entities that the consumer has received.
func deletes(p *world.Publisher) (n int) {
	for _, m := range p.Tape(world.Strict).All() {
		if world.OpOf(world.TypeOf(m)) == event.Deleted {
			n++
		}
	}
	return n
}

// goesOn fails the test unless the bus comes to fold to the table and the stream goes on, once the
// deletes are allowed.
func goesOn(p *world.Publisher) {
	p.T.Helper()
	p.World.Exec("INSERT INTO strict (app, name, state, n) VALUES ('later', 'one', 's1', 1)")
	p.Drained()
	// Each look reads all that the bus has.
	found := p.Difference(world.Strict)
	for deadline := time.Now().Add(3 * time.Minute); found != "" && time.Now().Before(deadline); found = p.Difference(world.Strict) {
		world.Pause(500 * time.Millisecond)
	}
	if found != "" {
		p.T.Errorf("the bus folds to something else than the table:\n%s", found)
	}
	world.AwaitReady(p.T, p.Daemon)
}
