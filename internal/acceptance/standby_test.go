package acceptance

import (
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"bridge/internal/testall"
	"bridge/internal/testenv"
	"bridge/tests/world"
)

// shortTimeout is BRIDGE_STANDBY_TIMEOUT of tests that do not measure the default. Beside other
// tests processes are without a processor for a second or two, and must not lose the work by that.
const shortTimeout = 5 * time.Second

// newStandby makes the world of a fleet, whose program has the race detector or not.
func newStandby(t *testing.T, b *world.Bus, db *testenv.DatabaseServer, race bool) *world.Publisher {
	t.Helper()
	rows, states := world.Load(1, 2)
	w := world.New(t, world.Options{Database: db, Rows: &rows, Entities: &states})
	return w.Publish(b, world.Publishing{Path: world.Binary(t, race), Env: world.LoadEnv.With(world.Env{"BRIDGE_BATCH_ROWS": "50", "BRIDGE_STABILITY_WINDOW": "0s"})})
}

// stopped is a process that stands still longer than its timeout, as a machine that is frozen does.
func (f *fleet) stopped(t *testing.T, timeout time.Duration) {
	t.Helper()
	former := f.takeover("SIGSTOP", func(m *fleetMember) { m.signal(t, syscall.SIGSTOP) }, true)
	world.Pause(timeout / 4)
	former.signal(t, syscall.SIGCONT)
	world.Eventually(t, time.Minute, "the one that was stopped waits", func() bool {
		s, ok := former.status()
		return ok && !s.Works && s.Working != ""
	})
}

func (f *fleet) killed() {
	former := f.takeover("SIGKILL", (*fleetMember).kill, true)
	former.start()
}

func (f *fleet) rolled(t *testing.T) {
	t.Helper()
	former := f.takeover("SIGTERM", func(m *fleetMember) {
		if status := m.term(); status != 0 {
			t.Errorf("exit status %d after SIGTERM", status)
		}
	}, true)
	former.start()
}

// TestStandby has two processes publish a world, of which the one that works is killed, stopped and
// continued, and replaced in order; and a third one with another configuration is refused. The
// program has the race detector.
func TestStandby(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	world.EachBus(t, func(t *testing.T, b *world.Bus) {
		p := newStandby(t, b, testenv.MariaDB(t), true)
		f := newFleet(p, shortTimeout, nil, nil)
		_, stop := p.World.Write()
		f.caughtUp(time.Minute, "what is written arrives")
		f.ready()
		f.killed()
		f.ready()
		f.rolled(t)
		f.ready()
		f.stopped(t, shortTimeout)
		f.ready()
		other := world.NewDaemon(t, p.Path, withoutOwn(f.members[0].env).With(world.Env{"BRIDGE_STREAM_STRICT_KEY": "app", "BRIDGE_STREAM_STRICT_TAG": "x"}))
		other.Start()
		world.Eventually(t, time.Minute, "another configuration is refused by name", func() bool {
			code, why := other.Get("/readyz")
			return code == 503 && strings.Contains(why, "BRIDGE_STREAM_STRICT_KEY, BRIDGE_STREAM_STRICT_TAG")
		})
		other.Kill()
		stop()
		f.report()
		f.compare(2, false)
	})
}

func withoutOwn(e world.Env) world.Env {
	e = e.With(nil)
	delete(e, "BRIDGE_HTTP_ADDR")
	delete(e, "BRIDGE_CHECKPOINT_URL")
	return e
}

// TestStandbyKills kills processes of a group at random under load: in its long form 200 times in
// 20 minutes on each bus.
func TestStandbyKills(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	kills, pause := 12, 3*time.Second
	if world.Soak {
		kills, pause = 200, 8*time.Second
	}
	for name, once := range map[string]bool{"at-least-once": false, "exactly-once": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			world.EachOwnBus(t, func(t *testing.T, b *world.Bus) {
				if once {
					b = b.ExactlyOnce(t.Name())
				}
				p := newStandby(t, b, testenv.StartMariaDB(t), false)
				f := newFleet(p, shortTimeout, nil, nil)
				_, stop := p.World.Write()
				f.caughtUp(time.Minute, "what is written arrives")
				f.ready()
				for range kills {
					world.Pause(world.Between(0, pause))
					if m := f.members[rand.IntN(len(f.members))]; rand.IntN(3) == 0 {
						// Whichever: it may be starting, waiting or taking over.
						m.kill()
						world.Pause(world.Between(0, time.Second))
						m.start()
						continue
					}
					f.killed()
				}
				stop()
				f.report()
				f.compare(kills, once)
			})
		})
	}
}

// TestStandbyTakeOver prints how long take-overs take at the default timeout, and what a process
// that waits costs beside the one that works.
func TestStandbyTakeOver(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	const timeout = 10 * time.Second
	times := 2
	if world.Soak {
		times = 50
	}
	world.EachBus(t, func(t *testing.T, b *world.Bus) {
		p := newStandby(t, b, testenv.MariaDB(t), false)
		f := newFleet(p, timeout, nil, nil)
		_, stop := p.World.Write()
		f.caughtUp(time.Minute, "what is written arrives")
		f.ready()
		f.measure(15 * time.Second)
		for range times {
			f.killed()
			f.ready()
			f.rolled(t)
			f.ready()
		}
		stop()
		f.report()
		f.compare(times, false)
	})
}

// measure logs what the processes take over a while.
func (f *fleet) measure(d time.Duration) {
	f.T.Helper()
	cpu := func(m *fleetMember) float64 { return m.daemon.Metric("process_cpu_seconds_total") }
	before := make([]float64, len(f.members))
	for i, m := range f.members {
		before[i] = cpu(m)
	}
	world.Pause(d)
	for i, m := range f.members {
		role := "waits"
		if s, _ := m.status(); s.Works {
			role = "works"
		}
		rss, err := m.daemon.RSSAnon()
		f.T.Logf("%s: one that %s takes %.3f of a core and %d MiB (%v)", f.Bus, role, (cpu(m)-before[i])/d.Seconds(), rss>>20, err)
	}
}
