package acceptance

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"bridge/tests/testall"
	"bridge/tests/testenv"
	"bridge/tests/world"
)

// shortTimeout is BRIDGE_STANDBY_TIMEOUT of tests that do not measure the default. Beside other
// tests processes are without a processor for a second or two, and must not lose the work by that.
const shortTimeout = 5 * time.Second

// newStandby makes the world of a standby group, whose program has the race detector or not.
func newStandby(t *testing.T, b *world.Bus, db *testenv.DatabaseServer, race bool) *world.Publisher {
	t.Helper()
	rows, states := halfLoad()
	w := world.New(t, world.Options{Database: db, Rows: &rows, Entities: &states})
	return w.Publish(b, world.Publishing{Path: world.Binary(t, race), Env: world.LoadEnv.With(world.Env{"BRIDGE_BATCH_ROWS": "50", "BRIDGE_STABILITY_WINDOW": "0s"})})
}

// TestStandby has two processes publish a world, of which the one that works is killed, stopped and
// continued, and replaced in order; and a third one with another configuration is refused. The
// program has the race detector.
func TestStandby(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	world.EachBus(t, func(t *testing.T, b *world.Bus) {
		p := newStandby(t, b, testenv.MariaDB(t), true)
		g := world.NewGroup(p, shortTimeout, nil, nil)
		_, stop := p.World.Write()
		g.Published(time.Minute, "what is written arrives")
		g.Ready()
		g.Killed()
		g.Ready()
		g.Rolled()
		g.Ready()
		g.Stopped(shortTimeout / 4)
		g.Ready()
		other := world.NewDaemon(t, p.Path, withoutOwn(g.Members[0].Env).With(world.Env{"BRIDGE_STREAM_STRICT_KEY": "app", "BRIDGE_STREAM_STRICT_TAG": "x"}))
		other.Start()
		world.Eventually(t, time.Minute, "another configuration is refused by name", func() bool {
			code, why := other.Get("/readyz")
			return code == 503 && strings.Contains(why, "BRIDGE_STREAM_STRICT_KEY, BRIDGE_STREAM_STRICT_TAG")
		})
		other.Kill()
		stop()
		g.Report()
		g.Compare(2)
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
			world.EachBus(t, func(t *testing.T, b *world.Bus) {
				if once {
					b = b.ExactlyOnce(t.Name())
				}
				p := newStandby(t, b, testenv.StartMariaDB(t), false)
				g := world.NewGroup(p, shortTimeout, nil, nil)
				_, stop := p.World.Write()
				g.Published(time.Minute, "what is written arrives")
				g.Ready()
				for range kills {
					world.Pause(world.Between(0, pause))
					if m := g.Members[rand.IntN(len(g.Members))]; rand.IntN(3) == 0 {
						// Whichever: it may be starting, waiting or taking over.
						m.Kill()
						world.Pause(world.Between(0, time.Second))
						m.Restart()
						continue
					}
					g.Killed()
				}
				stop()
				g.Report()
				g.Compare(kills)
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
		g := world.NewGroup(p, timeout, nil, nil)
		_, stop := p.World.Write()
		g.Published(time.Minute, "what is written arrives")
		g.Ready()
		measure(g, 15*time.Second)
		for range times {
			g.Killed()
			g.Ready()
			g.Rolled()
			g.Ready()
		}
		stop()
		g.Report()
		g.Compare(times)
	})
}

// measure logs what the processes take over a while.
func measure(g *world.Group, d time.Duration) {
	g.T.Helper()
	cpu := func(m *world.Member) float64 { return m.Daemon.Metric("process_cpu_seconds_total") }
	before := make([]float64, len(g.Members))
	for i, m := range g.Members {
		before[i] = cpu(m)
	}
	world.Pause(d)
	for i, m := range g.Members {
		role := "waits"
		if s, _ := m.Status(); s.Works {
			role = "works"
		}
		rss, err := m.Daemon.RSSAnon()
		g.T.Logf("%s: one that %s takes %.3f of a core and %d MiB (%v)", g.Bus, role, (cpu(m)-before[i])/d.Seconds(), rss>>20, err)
	}
}
