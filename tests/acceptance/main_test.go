package acceptance

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"example.org/bridge/event"
	"example.org/bridge/tests/faulty/failpoint"
	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/workload"
	"example.org/bridge/tests/world"
)

func TestMain(m *testing.M) { world.Main(m) }

func newRows(t testing.TB, server *testenv.DatabaseServer, opts workload.Options) *world.World {
	t.Helper()
	return world.New(t, world.Options{Database: server, Rows: &opts})
}

func newEntities(t testing.TB, server *testenv.DatabaseServer, opts workload.CapabilityOptions) *world.World {
	t.Helper()
	return world.New(t, world.Options{Database: server, Entities: &opts})
}

// eachDelivery runs a test on both buses, for programs that publish at least once and exactly once.
func eachDelivery(t *testing.T, test func(t *testing.T, b *world.Bus)) {
	world.EachBus(t, func(t *testing.T, b *world.Bus) {
		for delivery, b := range map[string]*world.Bus{"at-least-once": b, "exactly-once": b.ExactlyOnce(t.Name())} {
			t.Run(delivery, func(t *testing.T) { t.Parallel(); test(t, b) })
		}
	})
}

// progressOnBus makes where a bus keeps progress, and returns what points a process to it.
func progressOnBus(t *testing.T, b *world.Bus) world.Env {
	t.Helper()
	return ownFolder(t).With(b.Progress(t))
}

func ownFolder(t *testing.T) world.Env {
	return world.Env{"BRIDGE_CHECKPOINT_URL": "bus://" + filepath.Join(t.TempDir(), "cache")}
}

func decode(t testing.TB, m world.Message) world.Event {
	t.Helper()
	e, err := world.DecodeEvent(m)
	if err != nil {
		t.Fatalf("%v: %.300s", err, m.Value)
	}
	return e
}

// liveAs waits until the entities that live by the messages of a tape are those that a query names,
// and returns how many they are.
func liveAs(w *world.World, tape *world.Tape, entity func(world.Event) string, query string) int {
	w.T.Helper()
	live, table := make(map[string]bool), make(map[string]bool)
	world.Until(w.T, 2*time.Minute, "the entities of the table live", func() any {
		clear(live)
		clear(table)
		for _, m := range tape.All() {
			e := decode(w.T, m)
			if live[entity(e)] = true; e.Op == event.Deleted {
				delete(live, entity(e))
			}
		}
		var name string
		w.Each(query, []any{&name}, func() { table[name] = true })
		return otherwise(live, table)
	})
	return len(table)
}

func otherwise[V comparable](bus, table map[string]V) any {
	if maps.Equal(bus, table) {
		return nil
	}
	return fmt.Sprintf("the bus has %v, the table %v", bus, table)
}

// fold returns what the last event of each entity of a destination says, by the entity and state
// that of returns, without deleted ones, and how many events are there twice.
func fold(t testing.TB, b *world.Bus, destination string, of func(world.Event) (entity, state string)) (states map[string]string, repeated int) {
	t.Helper()
	states = make(map[string]string)
	seen := make(map[string]bool)
	b.Read(t, destination, func(m world.Message) {
		e := decode(t, m)
		if seen[e.ID] {
			repeated++
		}
		seen[e.ID] = true
		entity, state := of(e)
		if states[entity] = state; e.Op == event.Deleted {
			delete(states, entity)
		}
	})
	return states, repeated
}

// Empty where the event has none.
func member(e world.Event, name string) string {
	raw := e.Data[name]
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return string(raw)
	}
	return text
}

// mustVerify fails the test unless bridge verify finds exactly the faults that want says, as in
// "missing 1".
func mustVerify(t testing.TB, e world.Env, want ...string) world.VerifyReport {
	t.Helper()
	r := world.Verify(t, e)
	var found []string
	for fault, n := range r.Faults() {
		found = append(found, fmt.Sprintf("%s %d", fault, n))
	}
	slices.Sort(found)
	slices.Sort(want)
	if !slices.Equal(found, want) {
		t.Errorf("found %q, want %q: %+v", found, want, r)
	}
	return r
}

// every calls do again and again, with pauses of up to most, until stop is called.
func every(most time.Duration, do func()) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		for ctx.Err() == nil {
			do()
			select {
			case <-time.After(rand.N(most)):
			case <-ctx.Done():
			}
		}
	})
	return sync.OnceFunc(func() { cancel(); done.Wait() })
}

// types runs a command, fails the test unless it ends with a status, and returns what it prints.
func types(t testing.TB, e world.Env, want int, args ...string) string {
	t.Helper()
	status, stdout, stderr := world.Command(t, e, args...)
	if status != want {
		t.Fatalf("bridge %s: exit status %d, want %d\n%s%s", strings.Join(args, " "), status, want, stdout, stderr)
	}
	return stdout + stderr
}

// underLoad makes a world with half of world.Load, and the program at path that publishes it. It is
// cut off at each step with batches of 50 rows, and keeps up also where a bus takes a second for
// each batch.
func underLoad(t testing.TB, b *world.Bus, path string, more world.Env) *world.Publisher {
	t.Helper()
	rows, states := world.Load(1, 2)
	rows.Rate /= 2
	states.Rate /= 2
	w := world.New(t, world.Options{Database: testenv.MariaDB(t), Rows: &rows, Entities: &states})
	return w.Publish(b, world.Publishing{Path: path, Env: world.LoadEnv.With(world.Env{"BRIDGE_BATCH_ROWS": "50"}).With(more)})
}

func arrives(p *world.Publisher) {
	p.T.Helper()
	// The time that a program with the race detector needs on a busy machine.
	p.CaughtUp(2*time.Minute, "what is written arrives")
}

func begins(p *world.Publisher) (stop func()) {
	p.T.Helper()
	p.Start()
	_, stop = p.World.Write()
	arrives(p)
	return stop
}

// isKilled has a server be away for up to a second.
func isKilled(t testing.TB, s world.Server) {
	t.Helper()
	s.Kill()
	world.Pause(world.Between(0, time.Second))
	s.Start(t)
}

func killedAtRandom(p *world.Publisher, times int) {
	p.T.Helper()
	for range times {
		world.Pause(world.Between(0, time.Second))
		p.Kill()
		world.Pause(world.Between(0, time.Second))
		p.Start()
	}
}

func killsItself(p *world.Publisher, points *world.Failpoints, at failpoint.Action) {
	p.T.Helper()
	at.Kill = true
	points.Set(at)
	p.WaitKilled()
	points.Set()
}

// commitsLate commits a row whose id the program has passed, while writers go on: on a slow machine
// the program may lie so far behind that none of theirs is late.
func commitsLate(p *world.Publisher) {
	p.T.Helper()
	open := p.World.Begin("late", 1)
	id := open.FirstID()
	world.Eventually(p.T, 2*time.Minute, "the program has passed the id of an open transaction", func() bool { return p.Position(world.Orders) > id })
	open.Commit()
}

// machine is locked by the test that keeps it busy.
var machine sync.Mutex

// occupy waits until no other test keeps the machine busy. A test that occupies has no parallel
// subtests: they would wait for -parallel while the tests that it lets run wait here.
func occupy(t testing.TB) {
	t.Helper()
	machine.Lock()
	t.Cleanup(machine.Unlock)
}
