package acceptance

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"bridge/tests/faulty/failpoint"
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

// proxied is a member whose ways to bus and database can be cut.
type proxied struct{ bus, db *testenv.Proxy }

// newProxied returns what a member has of its own. A broker of Kafka tells one address behind a
// proxy, so one member has it.
func newProxied(t *testing.T, b *world.Bus, db *testenv.DatabaseServer, source string) (proxied, world.Env) {
	t.Helper()
	p := proxied{db: testenv.StartProxy(t, db.Addr)}
	u, err := url.Parse(source)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = p.db.Addr()
	e := world.Env{"BRIDGE_SOURCE_URL": u.String()}
	if b.Kafka != nil {
		p.bus = b.Kafka.Proxy()
		e["BRIDGE_SINK_URL"] = "kafka://" + strings.Join(b.Kafka.ProxiedBrokers(), ",")
	} else {
		p.bus = testenv.StartProxy(t, b.NATS.Addr())
		e["BRIDGE_SINK_URL"] = "nats://" + p.bus.Addr()
	}
	return p, e
}

// TestStandbyCutOff cuts the process that works off from the bus, from both bus and database, and
// from the database: the first two have another one work.
func TestStandbyCutOff(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	for _, name := range []string{"kafka", "nats"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var b *world.Bus
			if name == "kafka" {
				b = world.KafkaBus(testenv.StartKafka(t, testenv.KafkaOptions{Proxied: true}))
			} else {
				b = world.NATSBus(testenv.StartNATS(t))
			}
			db := testenv.MariaDB(t)
			p := newStandby(t, b, db, false)
			ways, own := newProxied(t, b, db, p.World.URL)
			g := world.NewGroup(p, shortTimeout, own, nil)
			cut := g.Members[0]
			_, stop := p.World.Write()
			for how, sever := range map[string]func(){
				"silence of the bus": ways.bus.HalfOpen, "a cut from the bus": ways.bus.Cut,
				"a cut from both": func() { ways.bus.Cut(); ways.db.Cut() },
			} {
				g.MoveTo(cut)
				g.Replace(how, func(*world.Member) { sever() })
				world.Eventually(t, time.Minute, "the one that is cut off is alive, works not, and says why", func() bool {
					s, ok := cut.Status()
					code, _ := cut.Daemon.Get("/readyz")
					live, _ := cut.Daemon.Get("/livez")
					return ok && !s.Works && code == 503 && live == 200
				})
				ways.bus.Heal()
				ways.db.Heal()
			}
			// One that was held for too long has ended by itself, which says nothing about the cut.
			goesOn := func() (working bool) {
				t.Helper()
				g.MoveTo(cut)
				before := g.Starved()
				ways.db.Cut()
				defer ways.db.Heal()
				world.AwaitUnready(t, cut.Daemon)
				world.Pause(2 * shortTimeout)
				world.Eventually(t, time.Minute, "the one that is cut off from the database works, or has ended", func() bool {
					s, _ := cut.Status()
					working = s.Works
					return working || g.Starved() > before
				})
				return working
			}
			for round := 1; !goesOn(); round++ {
				if round == 3 {
					t.Fatal("the one that is cut off from the database does not work any more")
				}
			}
			g.Published(time.Minute, "it goes on")
			stop()
			g.Report()
			g.Compare(4)
		})
	}
}

// TestStandbyZombiesExactlyOnce has the process that works stand still at each step of a
// transaction until another one has published, and go on: it stores nothing any more, and waits.
func TestStandbyZombiesExactlyOnce(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	b := world.KafkaBus(testenv.StartKafka(t, testenv.KafkaOptions{})).ExactlyOnce(t.Name())
	rows, states := halfLoad()
	w := world.New(t, world.Options{Database: testenv.MariaDB(t), Rows: &rows, Entities: &states})
	p := w.Publish(b, world.Publishing{
		Path: world.Faulty(t), Env: world.LoadEnv.With(world.Env{"BRIDGE_BATCH_ROWS": "50", "BRIDGE_STABILITY_WINDOW": "0s"}),
	})
	points := []*world.Failpoints{world.NewFailpoints(t), world.NewFailpoints(t)}
	g := world.NewGroup(p, shortTimeout, points[0].Env(), points[1].Env())
	_, stop := w.Write()
	g.Published(time.Minute, "what is written arrives")
	for _, point := range []failpoint.Point{
		failpoint.BeforePublish, failpoint.TransactionAdded, failpoint.TransactionSent, failpoint.TransactionEnds, failpoint.TransactionEnded, failpoint.BeforeAck, failpoint.BeforeSave,
	} {
		g.Ready()
		former := g.Replace("SIGSTOP at "+string(point), func(m *world.Member) {
			points[slices.Index(g.Members, m)].Set(failpoint.Action{Point: point, Hang: true})
			// It hangs at the point with its next batch; the election goes on beside.
			world.Pause(500 * time.Millisecond)
			m.Signal(t, syscall.SIGSTOP)
		})
		points[slices.Index(g.Members, former)].Set()
		former.Signal(t, syscall.SIGCONT)
		g.Waits(former)
	}
	g.Published(time.Minute, "the last one goes on")
	stop()
	g.Report()
	g.Compare(0)
}

// TestStandbyCommands: what a person types is done by the one that works, whichever member of the
// group is asked.
func TestStandbyCommands(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	world.EachBus(t, func(t *testing.T, b *world.Bus) {
		table, e, widen := deadLetterScene(t, b)
		e = e.With(world.Env{"BRIDGE_STREAMS": "things,facts", "BRIDGE_STANDBY": table.Name, "BRIDGE_HTTP_TOKEN": "0123456789abcdef"})
		for name := range e {
			if strings.HasPrefix(name, "BRIDGE_STREAM_FLOOD_") {
				delete(e, name)
			}
		}
		large := world.Incompressible(tooLarge)
		table.Exec("INSERT INTO things (name, body) VALUES ('a', 'x'), ('b', 'x')")
		table.Exec("INSERT INTO facts (body) VALUES ('x'), (?)", large)
		works, waits := world.NewDaemon(t, world.Binary(t, false), e), world.NewDaemon(t, world.Binary(t, false), e)
		works.Start()
		world.Eventually(t, time.Minute, "drained", func() bool { return works.Position("things") == 2 && works.Position("facts") == 2 })
		waits.Start()
		world.AwaitReady(t, waits)

		for _, d := range []*world.Daemon{works, waits} {
			world.Eventually(t, time.Minute, "each says who works and who waits", func() bool {
				status, stdout, _ := world.Command(t, d.Env, "status")
				return status == 0 && strings.Contains(stdout, "works since ") && strings.Contains(stdout, " waits")
			})
		}
		// A reconcile follows each take-over, that of the first process, too: it finds nothing yet.
		if got := reconcileBeside(t, waits, 0, "things"); got != "{DryRun:false Modified:0 Deleted:0}" {
			t.Errorf("at first it finds %s", got)
		}
		table.Exec("UPDATE things SET body = 'y' WHERE name = 'a'")
		if got := reconcileBeside(t, waits, 0, "--dry-run", "things"); got != "{DryRun:true Modified:1 Deleted:0}" {
			t.Errorf("a dry run finds %s", got)
		}
		if got := reconcileBeside(t, waits, 0, "things"); got != "{DryRun:false Modified:1 Deleted:0}" {
			t.Errorf("a reconcile finds %s", got)
		}
		table.Exec("DELETE FROM things")
		reconcileBeside(t, waits, 1, "things")
		if got := reconcileBeside(t, waits, 0, "--allow-deletes", "things"); got != "{DryRun:false Modified:0 Deleted:2}" {
			t.Errorf("with deletes allowed it finds %s", got)
		}
		expectDeadLetters(t, deadLetters(t, waits.Env, 0, "list"), "facts/2")
		expectDeadLetters(t, deadLetters(t, waits.Env, 1, "resend"), "facts/2 refused")
		widen()
		expectDeadLetters(t, deadLetters(t, waits.Env, 0, "resend", "--dry-run"), "facts/2 same")
		world.Eventually(t, time.Minute, "the one that works knows that the bus takes more", func() bool {
			status, _, _ := world.Command(t, waits.Env, "deadletter", "resend")
			return status == 0
		})
		if status, body := waits.Post("/api/v1/streams/things/reconcile?dryRun=true"); status != http.StatusAccepted {
			t.Errorf("by HTTP: %d %s", status, body)
		}
		alone := waits.Env.With(world.Env{"BRIDGE_CHECKPOINT_URL": "file:" + t.TempDir() + "/other.db", "BRIDGE_HTTP_ADDR": "127.0.0.1:1"})
		if status, stdout, stderr := world.Command(t, alone, "reconcile"); status != 1 || !strings.Contains(stdout, "run the command where a process of the group runs") {
			t.Errorf("where no process runs: status %d, %s%s", status, stdout, stderr)
		}
		if status, _, stderr := world.Command(t, alone, "reconcile", "--dry-run"); status != 1 || !strings.Contains(stderr, "type a dry run where a process of the group runs") {
			t.Errorf("a dry run where no process runs: status %d, %s", status, stderr)
		}

		works.Kill()
		if status, _, stderr := world.Command(t, waits.Env, "reconcile", "things"); status != 1 ||
			!strings.Contains(stderr, "works, and was not reached at ") && !strings.Contains(stderr, "which one works is not known now") {
			t.Errorf("the one that works is dead: status %d, %s", status, stderr)
		}
		world.Eventually(t, time.Minute, "the other one works", func() bool {
			status, _, _ := world.Command(t, waits.Env, "reconcile", "things")
			return status == 0
		})
		if status, stdout, _ := world.Command(t, waits.Env, "status"); status != 0 || !strings.Contains(stdout, ", works since ") {
			t.Errorf("status %d: %s", status, stdout)
		}
		mustVerify(t, waits.Env)
	})
}

// reconcileBeside runs bridge reconcile beside a daemon, and returns its report of the first table.
func reconcileBeside(t *testing.T, d *world.Daemon, want int, args ...string) string {
	t.Helper()
	status, stdout, stderr := world.Command(t, d.Env, append([]string{"reconcile", "--json"}, args...)...)
	var report struct {
		Shards []struct {
			DryRun            bool
			Modified, Deleted int
		}
	}
	if err := json.Unmarshal([]byte(stdout), &report); err != nil || status != want || len(report.Shards) == 0 {
		t.Fatalf("bridge reconcile %s: status %d, want %d, %v\n%s\n%s", strings.Join(args, " "), status, want, err, stdout, stderr)
	}
	return fmt.Sprintf("%+v", report.Shards[0])
}
