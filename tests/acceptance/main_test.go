package acceptance

import (
	"sync"
	"testing"
	"time"

	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/workload"
	"example.org/bridge/tests/world"
)

func TestMain(m *testing.M) { world.Main(m) }

// newRows makes a world whose writers insert rows.
func newRows(t testing.TB, server *testenv.DatabaseServer, opts workload.Options) *world.World {
	t.Helper()
	return world.New(t, world.Options{Database: server, Rows: &opts})
}

// newEntities makes a world whose writers change entities.
func newEntities(t testing.TB, server *testenv.DatabaseServer, opts workload.CapabilityOptions) *world.World {
	t.Helper()
	return world.New(t, world.Options{Database: server, Entities: &opts})
}

// The streams of twoStreams, which publish one table as states of entities and as facts.
const (
	capability = "states"
	release    = "facts"
)

var twoStreams = []world.Stream{
	{Name: capability, Table: world.Orders, Kind: "capability", Env: world.Env{"KEY": "entity", "CREATED": "created"}},
	// Without a time of its own a row has that of its read, which has to be the same in a repeat.
	{Name: release, Table: world.Orders, Kind: "release", Env: world.Env{"KEY": "entity", "STABILITY_WINDOW": "0s"}},
}

// publishTwice makes a world with a backlog, and a program that publishes it as two streams.
func publishTwice(t testing.TB, server *testenv.DatabaseServer, b *world.Bus, backlog int) *world.Publisher {
	t.Helper()
	w := newRows(t, server, workload.Options{})
	w.Fill("old", backlog, 1)
	return w.Publish(b, world.Publishing{Streams: twoStreams, Env: world.Env{"BRIDGE_BATCH_ROWS": "250"}})
}

// mustNotRepeat judges both streams and fails the test where messages were repeated.
func mustNotRepeat(p *world.Publisher) {
	p.T.Helper()
	for _, s := range twoStreams {
		if n := p.MustMatch(s.Name, world.Expect{}).Repeated; n > 0 {
			p.T.Errorf("%d messages were repeated", n)
		}
	}
}

// halfLoad returns half of world.Load, for programs that are cut off at each step with batches of
// 50 rows: they keep up with it also where a bus takes a second for each batch.
func halfLoad() (workload.Options, workload.CapabilityOptions) {
	rows, states := world.Load(1, 2)
	rows.Rate /= 2
	states.Rate /= 2
	return rows, states
}

// commitsLate commits a row whose id the program has passed, while writers go on: on a slow machine
// the program may lie so far behind that none of theirs is late.
func commitsLate(w *world.World, p *world.Publisher) {
	w.T.Helper()
	open := w.Begin("late", 1)
	id := open.FirstID()
	world.Eventually(w.T, 2*time.Minute, "the program has passed the id of an open transaction", func() bool { return p.Position(world.Orders) > id })
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

// follow makes a program that publishes the entities of a world to a bus, and a consumer of each
// stream; Start runs it.
func follow(w *world.World, b *world.Bus, name string, more world.Env) *world.Publisher {
	w.T.Helper()
	return w.Publish(b, world.Publishing{Name: name, Env: more, Follow: true})
}

func TestTerminationInMidStreamRepeatsNothing(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	world.EachBus(t, func(t *testing.T, b *world.Bus) {
		p := publishTwice(t, testenv.MariaDB(t), b, 24_000)
		for range 4 {
			p.Start()
			// A program that does not handle signals yet ends by them.
			world.Eventually(t, time.Minute, "the program answers", func() bool { code, _ := p.Get("/livez"); return code != 0 })
			world.Pause(world.Between(0, 500*time.Millisecond))
			// Beyond BRIDGE_SHUTDOWN_TIMEOUT the status is another one.
			if status, took := p.Term(); status != 0 {
				t.Fatalf("exit status %d after %s", status, took)
			}
		}
		p.Start()
		p.Drained()
		if status, _ := p.Term(); status != 0 {
			t.Errorf("exit status %d", status)
		}
		mustNotRepeat(p)
	})
}
