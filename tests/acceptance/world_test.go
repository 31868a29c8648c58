package acceptance

import (
	"strings"
	"testing"
	"time"

	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/world"
)

// TestWorld is all that `make test` runs of this package; `make test-all` runs the rest. On each
// bus a program publishes thousands of commits, late ones among them, while it is killed and bus
// and database are restarted. Then one reconcile runs, the judges compare the bus with the writers'
// record and with the tables, and so does `bridge verify`.
func TestWorld(t *testing.T) {
	world.EachOwnBus(t, func(t *testing.T, b *world.Bus) {
		endure(t, b, world.Options{Database: testenv.StartMariaDB(t)})
	})
}

// TestWorldOnMySQL is TestWorld on the MySQL of `make test`, on one bus.
func TestWorldOnMySQL(t *testing.T) {
	testall.Beside(t)
	endure(t, world.NATSBus(testenv.StartNATS(t)), world.Options{Database: testenv.StartMySQL(t)})
}

// TestWorldOnEveryServer is TestWorld on each server that tests can have, on both buses.
func TestWorldOnEveryServer(t *testing.T) {
	testenv.OnEveryDatabase(t)
	testenv.EachProduct(t, func(t *testing.T, product testenv.Product) {
		world.EachOwnBus(t, func(t *testing.T, b *world.Bus) { endure(t, b, world.Options{Database: product.Start(t)}) })
	})
}

// TestWorldOnAReplica has bridge read from a replica, which is killed, of a primary that all is
// written to. What is absent is judged only where writes are taken, so the replica is promoted
// before the bus is compared with the tables.
func TestWorldOnAReplica(t *testing.T) {
	testenv.OnEveryDatabase(t)
	testenv.EachProduct(t, func(t *testing.T, product testenv.Product) {
		world.EachOwnBus(t, func(t *testing.T, b *world.Bus) {
			primary, replica := product.StartReplicated(t)
			endure(t, b, world.Options{Database: replica, Primary: primary, CaughtUp: func(t testing.TB) {
				replica.CatchUp(t, primary)
				replica.Promote(t)
			}})
		})
	})
}

// TestWorldOnGalera has bridge read from one node of a cluster, which is killed, while all is
// written to the other.
func TestWorldOnGalera(t *testing.T) {
	testenv.OnEveryDatabase(t)
	world.EachOwnBus(t, func(t *testing.T, b *world.Bus) {
		first, second := testenv.StartGalera(t)
		endure(t, b, world.Options{Database: second, Primary: first, CaughtUp: second.AwaitCluster})
	})
}

// worldCommits is how many commits there are at least to the table of the release stream; the other
// one has two thirds as many.
const worldCommits = 1200

// formatsOn returns the formats of both streams: each format is on a bus.
func formatsOn(b *world.Bus) world.Env {
	rows, states := "eiffel", "row"
	if b.NATS != nil {
		rows, states = "cloudevents", "eiffel"
	}
	return world.Env{"BRIDGE_STREAM_ORDERS_EVENT_FORMAT": rows, "BRIDGE_STREAM_STRICT_EVENT_FORMAT": states}
}

// endure has a program go through the world of TestWorld.
func endure(t *testing.T, b *world.Bus, o world.Options) {
	t.Helper()
	rows, states := world.Load(1, 2)
	o.Rows, o.Entities = &rows, &states
	w := world.New(t, o)
	// Batches are small enough that all that may be repeated is far below what is published.
	e := world.LoadEnv.With(world.Env{"BRIDGE_BATCH_ROWS": "50"})
	if o.Primary != nil {
		// A replica that is promoted has the deletes of the whole test at once.
		e["BRIDGE_RECONCILE_MAX_DELETES"] = "99%"
	}
	p := w.Publish(b, world.Publishing{Path: world.Binary(t, world.RaceDetector), Env: e.With(formatsOn(b))})
	stop := begins(p)
	const cuts = 3
	killedAtRandom(p, cuts-1)
	arrives(p)
	// The bus makes the third cut.
	for _, server := range []world.Server{b.Server(), o.Database} {
		isKilled(t, server)
		arrives(p)
	}
	world.Eventually(t, 2*time.Minute, "enough commits", func() bool { return w.Rows.Record().Sums().Commits >= worldCommits })
	commitsLate(p)
	arrives(p)
	stop()
	if f := p.MustHold(p.MostRepeats(cuts), world.Expect{}); f.Late == 0 {
		t.Error("no row was late: the test shows nothing")
	}
	if strings.Contains(p.Log.String(), "DATA RACE") {
		t.Errorf("data race:\n%s", p.Log)
	}
}
