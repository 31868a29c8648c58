package acceptance

import (
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
