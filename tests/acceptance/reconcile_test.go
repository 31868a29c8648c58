package acceptance

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"bridge/event"
	"bridge/tests/testall"
	"bridge/tests/testenv"
	"bridge/tests/workload"
	"bridge/tests/world"
)

// TestATableThatStandsStillFoldsToItself publishes every type of column to both buses.
func TestATableThatStandsStillFoldsToItself(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	s := newEntities(t, testenv.MariaDB(t), workload.CapabilityOptions{Entities: 1000, Writers: 4, Changes: 2000, Seed: 1}, world.Strict, world.Loose)
	s.Run()
	for name, b := range map[string]*world.Bus{"kafka": world.KafkaBus(testenv.Kafka(t)), "nats": world.NATSBus(testenv.NATS(t))} {
		p := follow(s, b, name, nil)
		p.Start()
		p.Drained()
		for stream := range s.Entities {
			p.MustMatch(stream, world.Expect{})
		}
	}
}

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

// heartbeats is how many rows are touched that do not change.
const heartbeats = 10_000

// TestUpdatesArriveWithoutReconcile has an indexed MODIFIED column tell of updates and soft
// deletes, and of nothing else.
func TestUpdatesArriveWithoutReconcile(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	occupy(t, 1)
	s := newEntities(t, testenv.MariaDB(t), workload.CapabilityOptions{
		Entities: 2000, Writers: 4, Changes: 1500, Rate: 100, Seed: 2,
		Mix: map[workload.Change]int{workload.Update: 8, workload.SoftDelete: 1, workload.Heartbeat: 3},
	}, world.Strict)
	seldom := world.Env{"BRIDGE_RECONCILE_INTERVAL": "1h"}
	var all []*world.Publisher
	for name, b := range map[string]*world.Bus{"kafka": world.KafkaBus(testenv.Kafka(t)), "nats": world.NATSBus(testenv.NATS(t))} {
		p := follow(s, b, name, seldom)
		p.Start()
		p.Drained()
		// The first one is done before anything changes.
		p.Reconcile()
		p.Noise = world.MeasureNoise(t, s.DB, b, p.Destination("noise"))
		all = append(all, p)
	}
	s.Run()
	for _, p := range all {
		p.Complete(world.Strict, time.Minute)
		r := p.MustMatch(world.Strict, world.Expect{})
		for origin, n := range r.Origins {
			if origin != "tail" && origin != "modified" {
				t.Errorf("%s: %d events have the origin %s", p.Name, n, origin)
			}
		}
		// What noise adds at worst is not bridge's.
		noise := p.Noise.Ascending()
		bound := 2*time.Second + 2*world.Percentile(noise, 1)
		if got := world.Percentile(r.Delays["modified"], 0.99); got == 0 || got > bound {
			t.Errorf("%s: p99 of updates is %s, want at most %s; noise %s", p.Name, got, bound, world.FormatDelays(noise))
		}
		if r.Ops["modified"] < 500 || r.Ops["deletedtombstone"] < 50 {
			t.Errorf("%s: %v: the test shows too little", p.Name, r.Ops)
		}
	}

	before := make(map[*world.Publisher]int)
	for _, p := range all {
		before[p] = len(p.Received(world.Strict))
	}
	took := touch(s, heartbeats)
	var last uint64
	s.Scan("SELECT max(id) FROM strict WHERE deleted = 0", &last)
	s.Exec("UPDATE strict SET note = 'behind the heartbeats', modified = CURRENT_TIMESTAMP(6) WHERE id = ?", last)
	for _, p := range all {
		t.Run("heartbeats publish nothing on "+p.Name, func(t *testing.T) {
			tape := p.Tape(world.Strict)
			world.Eventually(t, time.Minute, "an update behind them", func() bool { return tape.Count() > before[p] })
			// Heartbeats are read over a look-back: what they caused would come within the next
			// polls.
			world.Pause(2 * time.Second)
			messages := tape.All()[before[p]:]
			if len(messages) != 1 || !strings.Contains(string(messages[0].Value), "behind the heartbeats") {
				t.Errorf("%d events behind %d heartbeats in %s, the first is %s", len(messages), heartbeats, took, messages[0].Value)
			}
		})
	}
}

// touch sends n heartbeats to the rows of the table strict, spread evenly, at no more than a few
// thousand a second.
func touch(s *world.World, n int) time.Duration {
	s.T.Helper()
	var ids []uint64
	var id uint64
	s.Each("SELECT id FROM strict", []any{&id}, func() { ids = append(ids, id) })
	started := time.Now()
	writers, ctx := errgroup.WithContext(s.T.Context())
	const atOnce = 4
	for w := range atOnce {
		writers.Go(func() error { return touchSome(s, ctx, ids, w, atOnce, n) })
	}
	if err := writers.Wait(); err != nil {
		s.T.Fatal(err)
	}
	return time.Since(started)
}

// touchSome sends every step-th of n heartbeats.
func touchSome(s *world.World, ctx context.Context, ids []uint64, first, step, n int) error {
	for i := first; i < n; i += step {
		if _, err := s.DB.ExecContext(ctx, "UPDATE strict SET modified = CURRENT_TIMESTAMP(6) WHERE id = ?", ids[i%len(ids)]); err != nil {
			return fmt.Errorf("heartbeat %d: %w", i, err)
		}
	}
	return nil
}

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
