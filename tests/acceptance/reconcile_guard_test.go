package acceptance

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"bridge/tests/world"

	"bridge/event"
	"bridge/tests/testall"
	"bridge/tests/testenv"
	"bridge/tests/workload"
)

// disasters are what makes many entities vanish at once though nobody deleted them one by one.
var disasters = []struct {
	name   string
	strike func(s *world.World)
	// large has it strike a large table, too, where time is short.
	large bool
}{
	{name: "TRUNCATE", large: true, strike: func(s *world.World) { s.Exec("TRUNCATE strict") }},
	{name: "a DELETE without WHERE", strike: func(s *world.World) { s.Exec("DELETE FROM strict") }},
	{name: "a restore of yesterday's table", large: true, strike: func(s *world.World) {
		s.Exec("CREATE TABLE yesterday LIKE strict")
		s.Exec("INSERT INTO yesterday SELECT * FROM strict ORDER BY id LIMIT " + fmt.Sprint(countRows(s)*2/5))
		s.Exec("UPDATE yesterday SET note = 'as it was' WHERE id % 5 = 0")
		s.Exec("RENAME TABLE strict TO today, yesterday TO strict")
	}},
	{name: "an empty table of the same shape", strike: func(s *world.World) {
		s.Exec("CREATE TABLE empty LIKE strict")
		s.Exec("RENAME TABLE strict TO full, empty TO strict")
	}},
}

// countRows returns how many rows the table strict has.
func countRows(s *world.World) (n int) {
	s.T.Helper()
	s.Scan("SELECT count(*) FROM strict", &n)
	return n
}

// TestManyThatVanishAtOnceAreNoDeletes until a person agrees.
func TestManyThatVanishAtOnceAreNoDeletes(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	for _, rows := range []int{50, 50_000} {
		for _, disaster := range disasters {
			if rows > 50 && !disaster.large && !world.Soak {
				continue
			}
			t.Run(fmt.Sprintf("%s over %d rows", disaster.name, rows), func(t *testing.T) {
				t.Parallel()
				if rows > 50 {
					occupy(t, 1)
				}
				s := newEntities(t, testenv.MariaDB(t), workload.CapabilityOptions{Entities: rows, Seed: 3}, world.Strict)
				b := world.NATSBus(testenv.NATS(t))
				if rows == 50 {
					b = world.KafkaBus(testenv.Kafka(t))
				}
				p := follow(s, b, "guarded", world.Env{"BRIDGE_RECONCILE_INTERVAL": "2s", "BRIDGE_STABILITY_WINDOW": "200ms"})
				p.Start()
				p.Drained()
				if got := len(p.Received(world.Strict)); got != rows {
					t.Fatalf("%d events of %d rows", got, rows)
				}
				guarded(p, func() { disaster.strike(s) })
				if rows == 50 {
					t.Logf("allowed: %s", p.Reconcile("--allow-deletes", world.Strict))
				} else {
					killedWhileAllowed(p, rows-countRows(s))
				}
				goesOn(p)
				p.MustVerify()
			})
		}
	}
}

// guarded lets disaster strike and fails the test unless the stream says so and publishes no
// delete.
func guarded(p *world.Publisher, strike func()) {
	p.T.Helper()
	before := countRows(p.World)
	strike()
	var body string
	world.Eventually(p.T, time.Minute, "the stream waits for a person", func() bool {
		var code int
		code, body = p.Get("/readyz")
		return code == 503 && strings.Contains(body, "--allow-deletes")
	})
	p.T.Logf("%d rows before, %d now: %s", before, countRows(p.World), body)
	world.Eventually(p.T, time.Minute, "the log says so, too", func() bool { return strings.Contains(p.Log.String(), "--allow-deletes") })
	for where, text := range map[string]string{"/readyz": body, "the log": p.Log.String()} {
		for _, word := range []string{world.Strict, "bridge reconcile --allow-deletes"} {
			if !strings.Contains(text, word) {
				p.T.Errorf("%s lacks %q:\n%.2000s", where, word, text)
			}
		}
	}
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
func killedWhileAllowed(p *world.Publisher, gone int) {
	p.T.Helper()
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
