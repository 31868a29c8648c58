package acceptance

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"bridge/event"
	"bridge/internal/testenv"
	"bridge/internal/workload"
)

// disasters are what makes many entities vanish at once though nobody deleted them one by one. Each returns the address of the source
// from then on.
var disasters = []struct {
	name   string
	strike func(s *states) (url string)
	// large has it strike a large table, too, where time is short.
	large bool
}{
	{name: "TRUNCATE", large: true, strike: func(s *states) string { return s.sql("TRUNCATE strict") }},
	{name: "a DELETE without WHERE", strike: func(s *states) string { return s.sql("DELETE FROM strict") }},
	{name: "a restore of yesterday's table", large: true, strike: func(s *states) string {
		s.sql("CREATE TABLE yesterday LIKE strict")
		s.sql("INSERT INTO yesterday SELECT * FROM strict ORDER BY id LIMIT " + fmt.Sprint(s.rows()*2/5))
		s.sql("UPDATE yesterday SET note = 'as it was' WHERE id % 5 = 0")
		return s.sql("RENAME TABLE strict TO today, yesterday TO strict")
	}},
	{name: "an empty table of the same shape", strike: func(s *states) string {
		empty := &revisions{t: s.t, server: testenv.MariaDB(s.t), name: testenv.MariaDB(s.t).NewDatabase(s.t)}
		empty.db = empty.server.Admin(s.t, empty.name)
		empty.exec("CREATE TABLE strict LIKE " + s.name + ".strict")
		s.db = empty.db
		return empty.sourceURL()
	}},
}

// sql runs a statement and returns the address of the source.
func (s *states) sql(statement string) string {
	s.t.Helper()
	if _, err := s.db.Exec(statement); err != nil {
		s.t.Fatalf("%s: %v", statement, err)
	}
	return s.url
}

// rows returns how many rows the table strict has.
func (s *states) rows() (n int) {
	s.t.Helper()
	if err := s.db.QueryRow("SELECT count(*) FROM strict").Scan(&n); err != nil {
		s.t.Fatal(err)
	}
	return n
}

// TestManyThatVanishAtOnceAreNoDeletes until a person agrees.
func TestManyThatVanishAtOnceAreNoDeletes(t *testing.T) {
	t.Parallel()
	for _, rows := range []int{50, 50_000} {
		for _, disaster := range disasters {
			if rows > 50 && !disaster.large && !soak {
				continue
			}
			t.Run(fmt.Sprintf("%s over %d rows", disaster.name, rows), func(t *testing.T) {
				t.Parallel()
				occupy(t, 1)
				s := newStates(t, testenv.MariaDB(t), workload.CapabilityOptions{Entities: rows, Seed: 3}, strict)
				var b bus = natsBus{testenv.NATS(t)}
				if rows == 50 {
					b = kafkaBus{testenv.Kafka(t)}
				}
				p := s.publish(b, "guarded", env{"BRIDGE_RECONCILE_INTERVAL": "2s", "BRIDGE_STABILITY_WINDOW": "200ms"})
				p.start()
				p.drained()
				if got := len(p.received(strict)); got != rows {
					t.Fatalf("%d events of %d rows", got, rows)
				}
				p.guarded(func() string { return disaster.strike(s) })
				if rows == 50 {
					t.Logf("allowed: %s", p.reconcile("--allow-deletes", strict))
				} else {
					p.killedWhileAllowed(rows - s.rows())
				}
				p.goesOn()
				// An event names its database: to verify those of before are of another table.
				if p.env["BRIDGE_SOURCE_URL"] == s.url {
					p.verifies()
				}
			})
		}
	}
}

// guarded lets disaster strike and fails the test unless the stream says so and publishes no delete.
func (p *publisher) guarded(strike func() (url string)) {
	p.t.Helper()
	before := p.states.rows()
	if url := strike(); url != p.env["BRIDGE_SOURCE_URL"] {
		p.term()
		p.env["BRIDGE_SOURCE_URL"] = url
		p.start()
	}
	var body string
	eventually(p.t, time.Minute, "the stream waits for a person", func() bool {
		var code int
		code, body = p.get("/readyz")
		return code == 503 && strings.Contains(body, "--allow-deletes")
	})
	p.t.Logf("%d rows before, %d now: %s", before, p.states.rows(), body)
	for where, text := range map[string]string{"/readyz": body, "the log": p.log.String()} {
		for _, word := range []string{strict, "bridge reconcile --allow-deletes"} {
			if !strings.Contains(text, word) {
				p.t.Errorf("%s lacks %q:\n%.2000s", where, word, text)
			}
		}
	}
	// Some more runs of the schedule.
	pause(6 * time.Second)
	for _, m := range p.received(strict) {
		if e, err := decodeState(m); err != nil || e.op == event.Deleted {
			p.t.Fatalf("published before anyone agreed: %s (%v)", m.value, err)
		}
	}
}

// killedWhileAllowed agrees to the deletes by HTTP and kills the daemon in the midst of them. What a person agreed to
// it has to remember.
func (p *publisher) killedWhileAllowed(gone int) {
	p.t.Helper()
	if status, body := p.post("/api/v1/streams/" + strict + "/reconcile?allowDeletes=true"); status != http.StatusAccepted {
		p.t.Fatalf("the agreement: %d %s", status, body)
	}
	eventually(p.t, time.Minute, "some deletes", func() bool { return p.deletes() > 1000 })
	p.kill()
	p.t.Logf("killed behind %d deletes", p.deletes())
	p.start()
	// The run that was killed goes on by itself. Where that one was begun before disaster struck it had passed over part of the table; the
	// run that was to follow it is forgotten, and a person is asked again.
	last, since := 0, time.Now()
	asked := false
	eventually(p.t, 2*time.Minute, "the deletes go on", func() bool {
		if n := p.deletes(); n != last {
			last, since = n, time.Now()
		}
		_, body := p.get("/readyz")
		asked = strings.Contains(body, "--allow-deletes")
		return time.Since(since) > 6*time.Second && (asked || last >= gone)
	})
	if asked {
		p.t.Logf("asked again behind %d deletes: %+v", last, p.asks(strict, "allowDeletes=true"))
	}
}

// deletes counts the messages about deleted entities that the consumer has received.
func (p *publisher) deletes() (n int) {
	for _, m := range p.tapes[strict].all() {
		if opOf(m.headers["eiffel-type"]) == event.Deleted {
			n++
		}
	}
	return n
}

// goesOn fails the test unless the bus comes to fold to the table and the stream goes on, once the deletes are allowed.
func (p *publisher) goesOn() {
	p.t.Helper()
	p.states.sql("INSERT INTO strict (app, name, state, n) VALUES ('later', 'one', 's1', 1)")
	found := ""
	deadline := time.Now().Add(time.Minute)
	for time.Now().Before(deadline) {
		f := make(fold)
		for _, m := range p.received(strict) {
			e, err := decodeState(m)
			if err != nil {
				p.t.Fatal(err)
			}
			f.add(e)
		}
		if found = f.difference(tableFold(p.t, p.states.db, strict)); found == "" {
			break
		}
		pause(500 * time.Millisecond)
	}
	if found != "" {
		p.t.Errorf("the bus folds to something else than the table:\n%s", found)
	}
	becomesReady(p.t, p.daemon)
}
