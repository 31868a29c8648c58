package acceptance

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"bridge/internal/failpoint"
	"bridge/internal/testenv"
	"bridge/tests/world"
)

// TestWorldExactlyOnce has a program publish in transactions while it is killed at random moments,
// at each step of a transaction, and with its broker: a read_committed consumer that shares no code
// with it sees each event once.
func TestWorldExactlyOnce(t *testing.T) {
	t.Parallel()
	b := world.KafkaBus(testenv.StartKafka(t, testenv.KafkaOptions{})).ExactlyOnce(t.Name())
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
		for range 2 {
			points.Set(failpoint.Action{Point: point, Kill: true, Chance: 0.3})
			if point == failpoint.BeforeCatchUp || point == failpoint.AfterCatchUp {
				p.Kill()
				p.Start()
			}
			if signal := p.Wait(); signal != syscall.SIGKILL {
				t.Fatalf("%s: the program has ended by signal %v", point, signal)
			}
			points.Set()
			p.Start()
		}
		catchUp()
	}
	for range 6 {
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
	stop()
	judgeOnce(t, p, true)
}

// exactlyOnce makes a program with failpoints and its load.
func exactlyOnce(t *testing.T, b *world.Bus) (*world.World, *world.Publisher, *world.Failpoints) {
	t.Helper()
	rows, states := world.Load(1, 2)
	w := world.New(t, world.Options{Database: testenv.StartMariaDB(t), Rows: &rows, Entities: &states})
	points := world.NewFailpoints(t)
	p := w.Publish(b, world.Publishing{
		Path: world.Binary(t, false, world.FailpointsTag), Env: world.LoadEnv.With(points.Env()).With(world.Env{"BRIDGE_BATCH_ROWS": "50"}),
	})
	return w, p, points
}

// judgeOnce fails the test unless each event is there once, and all is as the tables have it.
func judgeOnce(t *testing.T, p *world.Publisher, late bool) {
	t.Helper()
	p.AllPublished()
	f := p.Figures(world.Expect{})
	f.BoundRepeats(0, 0)
	t.Logf("%+v", f)
	if len(f.Wrongs) > 0 {
		t.Error(strings.Join(f.Wrongs, "\n"))
	}
	if late && f.Late == 0 {
		t.Error("no row was late: the test shows nothing")
	}
}
