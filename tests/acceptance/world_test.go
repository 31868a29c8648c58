package acceptance

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"example.org/bridge/tests/faulty/failpoint"
	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/workload"
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
	endure(t, world.NATSBus(testenv.StartNATS(t)), world.Options{Database: testenv.AnyMySQL().Start(t)})
}

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
	world.Eventually(t, 2*time.Minute, "enough commits", func() bool { return w.Rows.Sums().Commits >= worldCommits })
	commitsLate(p)
	arrives(p)
	stop()
	for change, weight := range workload.EveryChange() {
		// The others are chance.
		if weight > 2 && w.Entities.Sums()[change] == 0 {
			t.Errorf("the writers have made no %s", change)
		}
	}
	if s := w.Rows.Sums(); s.Rollbacks == 0 || s.Burned == 0 {
		t.Errorf("the writers have rolled back or burned nothing: %+v", s)
	}
	if f := p.MustHold(p.MostRepeats(cuts), world.Expect{}); f.Late == 0 {
		t.Error("no row was late: the test shows nothing")
	}
	if strings.Contains(p.Log.String(), "DATA RACE") {
		t.Errorf("data race:\n%s", p.Log)
	}
}

// TestWorldExactlyOnce has a program publish in transactions or atomic batches while it is killed
// at random moments, at each step of them, and with its server: a consumer that shares no code with
// it, on Kafka a read_committed one, sees each event once.
func TestWorldExactlyOnce(t *testing.T) {
	testall.Beside(t)
	world.EachOwnBus(t, func(t *testing.T, b *world.Bus) { worldOnce(t, b.ExactlyOnce(t.Name())) })
}

func worldOnce(t *testing.T, b *world.Bus) {
	p, points := exactlyOnce(t, b)
	stop := begins(p)
	for _, point := range []failpoint.Point{
		failpoint.TransactionAdded, failpoint.TransactionSent, failpoint.TransactionEnds, failpoint.TransactionEnded,
		failpoint.AfterPublish, failpoint.BeforeAck, failpoint.AfterAck, failpoint.BeforeSave, failpoint.AfterSave, failpoint.BeforeCatchUp, failpoint.AfterCatchUp,
	} {
		chance := 0.3
		if point == failpoint.BeforeCatchUp || point == failpoint.AfterCatchUp {
			// On NATS only a start commits what it has read: there are no holes.
			chance = 1
			points.Set(failpoint.Action{Point: point, Kill: true})
			p.Kill()
			p.Start()
		}
		killsItself(p, points, failpoint.Action{Point: point, Chance: chance})
		p.Start()
	}
	arrives(p)
	killedAtRandom(p, 3)
	arrives(p)
	isKilled(t, b.Server())
	arrives(p)
	commitsLate(p)
	stop()
	if f := p.MustHold(0, world.Expect{}); f.Late == 0 {
		t.Error("no row was late: the test shows nothing")
	}
}

func exactlyOnce(t *testing.T, b *world.Bus) (*world.Publisher, *world.Failpoints) {
	t.Helper()
	points := world.NewFailpoints(t)
	return underLoad(t, b, world.Faulty(t), points.Env()), points
}

// TestZombiesExactlyOnce stops a program (SIGSTOP) at each step of publishing, and at any moment,
// lets another one take over under load, and lets the first one go on: it stores nothing any more,
// and says who has taken over. Then it takes over in turn, with the checkpoint that it had.
func TestZombiesExactlyOnce(t *testing.T) {
	testall.Beside(t)
	world.EachBus(t, func(t *testing.T, b *world.Bus) { zombiesOnce(t, b.ExactlyOnce(t.Name())) })
}

func zombiesOnce(t *testing.T, b *world.Bus) {
	p, points := exactlyOnce(t, b)
	other := world.NewFailpoints(t)
	zombie := p.Daemon
	next := world.NewDaemon(t, p.Path, p.Env.WithoutOwn().With(other.Env()))
	stop := begins(p)
	for _, point := range []failpoint.Point{failpoint.BeforePublish, failpoint.TransactionSent, failpoint.TransactionEnds, failpoint.BeforeSave, ""} {
		if point == "" {
			zombie.Signal(syscall.SIGSTOP)
		} else {
			points.Set(failpoint.Action{Point: point, Stop: true, Times: 1})
		}
		zombie.AwaitStop()
		points.Set()
		next.Start()
		p.Daemon = next
		p.CaughtUp(2*time.Minute, "the successor publishes what is written")
		zombie.Signal(syscall.SIGCONT)
		world.AwaitUnready(t, zombie, "another bridge publishes these streams")
		if code, body := zombie.Get("/livez"); code != 200 {
			t.Errorf("%s: /livez is %d %s", point, code, body)
		}
		p.CaughtUp(2*time.Minute, "the successor goes on")
		zombie.Kill()
		zombie, next, points, other = next, zombie, other, points
	}
	commitsLate(p)
	stop()
	if f := p.MustHold(0, world.Expect{}); f.Late == 0 {
		t.Error("no row was late: the test shows nothing")
	}
}

// TestAChangeOfDelivery goes from at-least-once to exactly-once and back. Nothing is repeated while
// programs end in order, or are killed in a transaction or an atomic batch.
func TestAChangeOfDelivery(t *testing.T) {
	testall.Beside(t)
	world.EachBus(t, func(t *testing.T, b *world.Bus) { changeOfDelivery(t, b.ExactlyOnce(t.Name())) })
}

func changeOfDelivery(t *testing.T, b *world.Bus) {
	p, points := exactlyOnce(t, b)
	_, stop := p.World.Write()
	// Else a transaction that was left open would be waited for for 60 to 80 s.
	p.Env[failpoint.TransactionVariable] = "10s"
	mode := func(delivery string) {
		t.Helper()
		p.Env["BRIDGE_DELIVERY"] = delivery
		p.Start()
		p.CaughtUp(3*time.Minute, delivery)
	}
	delete(p.Env, "BRIDGE_KAFKA_TRANSACTIONAL_ID")
	mode("at-least-once")
	p.Term()
	mode("exactly-once")
	p.Term()
	mode("at-least-once")
	p.Term()
	mode("exactly-once")
	killsItself(p, points, failpoint.Action{Point: failpoint.TransactionSent})
	mode("at-least-once")
	stop()
	p.MustHold(0, world.Expect{})
}

// TestReplicasExactlyOnce kills a program at two steps of an atomic batch on a stream with three
// replicas, whose leader moves; then it kills one of their servers after the other.
func TestReplicasExactlyOnce(t *testing.T) {
	testall.Beside(t)
	b := world.NATSBus(testenv.NATS(t)).Clustered(t).ExactlyOnce(t.Name())
	p, points := exactlyOnce(t, b)
	stop, moved := begins(p), 0
	for _, point := range []failpoint.Point{failpoint.TransactionSent, failpoint.TransactionEnded} {
		moved += b.MoveLeaders(t, "")
		p.CaughtUp(2*time.Minute, "the leader has moved")
		killsItself(p, points, failpoint.Action{Point: point, Chance: 0.3})
		moved += b.MoveLeaders(t, "")
		p.Start()
		arrives(p)
	}
	world.Eventually(t, 30*time.Second, "the leader has moved once", func() bool {
		if moved == 0 {
			moved = b.MoveLeaders(t, "")
		}
		return moved > 0
	})
	for _, member := range b.Members {
		isKilled(t, member)
		b.Whole(t, "")
	}
	p.CaughtUp(2*time.Minute, "each server was killed")
	stop()
	p.MustHold(0, world.Expect{})
}
