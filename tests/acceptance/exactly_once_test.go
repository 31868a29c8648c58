package acceptance

import (
	"syscall"
	"testing"
	"time"

	"example.org/bridge/tests/faulty/failpoint"
	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/world"
)

// TestWorldExactlyOnce has a program publish in transactions or atomic batches while it is killed
// at random moments, at each step of them, and with its server: a consumer that shares no code with
// it, on Kafka a read_committed one, sees each event once.
func TestWorldExactlyOnce(t *testing.T) {
	testall.Beside(t)
	world.EachOwnBus(t, func(t *testing.T, b *world.Bus) { worldOnce(t, b.ExactlyOnce(t.Name())) })
}

func worldOnce(t *testing.T, b *world.Bus) {
	w, p, points := exactlyOnce(t, b)
	p.Start()
	_, stop := w.Write()
	catchUp := func() {
		t.Helper()
		p.CaughtUp(2*time.Minute, "what is written arrives")
	}
	catchUp()
	for _, point := range []failpoint.Point{
		failpoint.TransactionAdded, failpoint.TransactionSent, failpoint.TransactionEnds, failpoint.TransactionEnded,
		failpoint.AfterPublish, failpoint.BeforeAck, failpoint.AfterAck, failpoint.BeforeSave, failpoint.AfterSave, failpoint.BeforeCatchUp, failpoint.AfterCatchUp,
	} {
		if point == failpoint.BeforeCatchUp || point == failpoint.AfterCatchUp {
			// On NATS only a start commits what it has read: there are no holes.
			points.Set(failpoint.Action{Point: point, Kill: true})
			p.Kill()
			p.Start()
		} else {
			points.Set(failpoint.Action{Point: point, Kill: true, Chance: 0.3})
		}
		if signal := p.Wait(); signal != syscall.SIGKILL {
			t.Fatalf("%s: the program has ended by signal %v", point, signal)
		}
		points.Set()
		p.Start()
	}
	catchUp()
	for range 3 {
		world.Pause(world.Between(0, time.Second))
		p.Kill()
		world.Pause(world.Between(0, time.Second))
		p.Start()
	}
	catchUp()
	b.Server().Kill()
	world.Pause(world.Between(0, time.Second))
	b.Server().Start(t)
	catchUp()
	commitsLate(w, p)
	stop()
	if f := p.MustHold(0, world.Expect{}); f.Late == 0 {
		t.Error("no row was late: the test shows nothing")
	}
}

// exactlyOnce makes a program with failpoints and its load.
func exactlyOnce(t *testing.T, b *world.Bus) (*world.World, *world.Publisher, *world.Failpoints) {
	t.Helper()
	rows, states := halfLoad()
	w := world.New(t, world.Options{Database: testenv.MariaDB(t), Rows: &rows, Entities: &states})
	points := world.NewFailpoints(t)
	p := w.Publish(b, world.Publishing{
		Path: world.Faulty(t), Env: world.LoadEnv.With(points.Env()).With(world.Env{"BRIDGE_BATCH_ROWS": "50"}),
	})
	return w, p, points
}

// TestZombiesExactlyOnce stops a program (SIGSTOP) at each step of publishing, and at any moment,
// lets another one take over under load, and lets the first one go on: it stores nothing any more,
// and says who has taken over. Then it takes over in turn, with the checkpoint that it had.
func TestZombiesExactlyOnce(t *testing.T) {
	testall.Beside(t)
	world.EachBus(t, func(t *testing.T, b *world.Bus) { zombiesOnce(t, b.ExactlyOnce(t.Name())) })
}

func zombiesOnce(t *testing.T, b *world.Bus) {
	w, p, points := exactlyOnce(t, b)
	other := world.NewFailpoints(t)
	zombie := p.Daemon
	next := world.NewDaemon(t, p.Path, p.Env.WithoutOwn().With(other.Env()))
	zombie.Start()
	_, stop := w.Write()
	p.CaughtUp(2*time.Minute, "what is written arrives")
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
	commitsLate(w, p)
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
	w, p, points := exactlyOnce(t, b)
	_, stop := w.Write()
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
	points.Set(failpoint.Action{Point: failpoint.TransactionSent, Kill: true})
	p.Wait()
	points.Set()
	mode("at-least-once")
	stop()
	p.MustHold(0, world.Expect{})
}

// TestReplicasExactlyOnce kills a program at two steps of an atomic batch on a stream with three
// replicas, whose leader moves; then it kills one of their servers after the other.
func TestReplicasExactlyOnce(t *testing.T) {
	testall.Beside(t)
	b := world.NATSBus(testenv.NATS(t)).Clustered(t).ExactlyOnce(t.Name())
	_, p, points := exactlyOnce(t, b)
	p.Start()
	_, stop := p.World.Write()
	p.CaughtUp(2*time.Minute, "what is written arrives")
	moved := 0
	for _, point := range []failpoint.Point{failpoint.TransactionSent, failpoint.TransactionEnded} {
		moved += b.MoveLeaders(t, "")
		p.CaughtUp(2*time.Minute, "the leader has moved")
		points.Set(failpoint.Action{Point: point, Kill: true, Chance: 0.3})
		if signal := p.Wait(); signal != syscall.SIGKILL {
			t.Fatalf("%s: the program has ended by signal %v", point, signal)
		}
		points.Set()
		moved += b.MoveLeaders(t, "")
		p.Start()
		p.CaughtUp(2*time.Minute, "what is written arrives")
	}
	world.Eventually(t, 30*time.Second, "the leader has moved once", func() bool {
		if moved == 0 {
			moved = b.MoveLeaders(t, "")
		}
		return moved > 0
	})
	for _, member := range b.Members {
		member.Kill()
		world.Pause(world.Between(0, time.Second))
		member.Start(t)
		b.Whole(t, "")
	}
	p.CaughtUp(2*time.Minute, "each server was killed")
	stop()
	p.MustHold(0, world.Expect{})
}
