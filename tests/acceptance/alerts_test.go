package acceptance

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"example.org/bridge/tests/faulty/failpoint"
	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/workload"
	"example.org/bridge/tests/world"
)

// alertScale divides all times of the rules: what takes five minutes takes five seconds.
const alertScale = 60

// watched is a running bridge that Prometheus scrapes.
type watched struct {
	*world.Publisher
	prometheus *prometheus
	job        string
}

// faultAlert is a fault of a running bridge and the alerts that it fires.
type faultAlert struct {
	name string
	env  world.Env
	// ownSource and ownBus have servers that the fault may harm, smallDisk a disk of its own for
	// the checkpoint.
	ownSource, ownBus, smallDisk bool
	// before says that the fault comes before bridge starts.
	before       bool
	strike, heal func(w *watched)
	alerts       []string
}

// rows inserts rows, each an entity of its own.
func (w *watched) rows(name string) {
	w.World.Exec("INSERT INTO strict (app, name, state, n) SELECT ?, seq, 'new', 1 FROM "+testenv.Sequence(20), name)
}

var faultAlerts = []faultAlert{
	{
		name: "it is killed", strike: func(w *watched) { w.Kill() }, heal: func(w *watched) { w.Start() }, alerts: []string{"BridgeAbsent"},
	},
	{
		name: "its table is dropped", strike: func(w *watched) { w.World.Exec("DROP TABLE strict") }, alerts: []string{"BridgeStopped"},
	},
	{
		name: "its table is emptied", env: world.Env{"BRIDGE_RECONCILE_INTERVAL": "2s", "BRIDGE_STABILITY_WINDOW": "0s"},
		strike: func(w *watched) { w.World.Exec("DELETE FROM strict") }, alerts: []string{"BridgeDegraded"},
	},
	{
		name: "its source is away", ownSource: true, env: world.Env{"BRIDGE_RECONCILE_INTERVAL": "2s"},
		strike: func(w *watched) { w.World.Server.Kill() }, heal: func(w *watched) { w.World.Server.Start(w.T) },
		alerts: []string{"BridgeSourceAway", "BridgeNotPolled", "BridgeReconcileOverdue"},
	},
	{
		name: "its bus is away", ownBus: true,
		strike: func(w *watched) { w.Bus.Server().Kill(); w.rows("late") }, heal: func(w *watched) { w.Bus.Server().Start(w.T) },
		alerts: []string{"BridgeBusAway", "BridgeLag", "BridgeLagHigh"},
	},
	{
		name: "the bus does not answer its start", ownBus: true, before: true,
		strike: func(w *watched) { w.Bus.Server().Kill() }, heal: func(w *watched) { w.Bus.Server().Start(w.T) },
		alerts: []string{"BridgeCatchUpLong", "BridgeBusAway"},
	},
	{
		name: "its disk is full", smallDisk: true,
		strike: func(w *watched) {
			testenv.FillDisk(w.T, w.Checkpoint())
			w.rows("unsaved")
		},
		alerts: []string{"BridgeStoreAway"},
	},
	{
		name: "a row is too large for the bus",
		strike: func(w *watched) {
			w.Bus.Limit(w.T, w.Destination(world.Strict), small)
			w.World.Exec("INSERT INTO strict (app, name, state, n, note) VALUES ('large', 'large', 'new', 1, ?)", world.Incompressible(tooLarge))
		},
		alerts: []string{"BridgeDeadLetters"},
	},
	{
		name: "a second one is started",
		strike: func(w *watched) {
			second := world.NewDaemon(w.T, w.Path, w.Env.WithoutOwn())
			second.Start()
			world.AwaitReady(w.T, second)
			// Each publishes some rows first, until the former one reads such a message. With rows
			// without a pause one of them might always be the first.
			n := 0
			world.Eventually(w.T, 2*time.Minute, "another bridge has taken over", func() bool {
				n++
				w.rows(fmt.Sprint("more", n))
				world.Pause(time.Second)
				_, why := w.Get("/readyz")
				return strings.Contains(why, "another bridge publishes these streams")
			})
		},
		alerts: []string{"BridgeSuperseded", "BridgeStopped"},
	},
	{
		name: "a column is dropped", strike: func(w *watched) {
			w.World.Exec("ALTER TABLE strict DROP COLUMN note")
			w.rows("without")
		},
		alerts: []string{"BridgeEventsLoseMembers"},
	},
}

// timeOfRule finds the times of rules: how long an alert must hold, ranges, and bounds in seconds.
// No other number behind a > is above 100.
var timeOfRule = regexp.MustCompile(`(for: |\[|> )(\d{3,}|\d+[smhd])\b`)

// scaledRules returns rules with all times divided by scale.
func scaledRules(rules []byte, scale int64) []byte {
	return timeOfRule.ReplaceAllFunc(rules, func(found []byte) []byte {
		parts := timeOfRule.FindSubmatch(found)
		before, text := string(parts[1]), string(parts[2])
		unit := map[byte]int64{'s': 1000, 'm': 60_000, 'h': 3_600_000, 'd': 86_400_000}[text[len(text)-1]]
		n, _ := strconv.ParseInt(strings.TrimRight(text, "smhd"), 10, 64) // there are digits only
		switch {
		case unit > 0 && before == "[":
			// A rate takes two scrapes, which are four seconds apart.
			return fmt.Appendf(nil, "[%dms", max(n*unit/scale, 10_000))
		case unit > 0:
			return fmt.Appendf(nil, "%s%dms", before, n*unit/scale)
		case n > 100:
			return fmt.Appendf(nil, "> %g", float64(n)/float64(scale))
		}
		return found
	})
}

// TestAlertsFire has a Prometheus scrape running bridges with a fault each, by the rules as they
// are shipped with their times divided by alertScale.
func TestAlertsFire(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	rules, err := os.ReadFile("../../deploy/prometheus/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	testenv.NATS(t)
	prometheus := startPrometheus(t, scaledRules(rules, alertScale))
	for i := range faultAlerts {
		f := &faultAlerts[i]
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			// The alerts are the same for series by stream and by shard.
			f.run(t, prometheus, i%2 == 1)
		})
	}
	t.Run("the other process of a group is gone", func(t *testing.T) {
		t.Parallel()
		p := newStandby(t, world.NATSBus(testenv.NATS(t)), testenv.MariaDB(t), false)
		g := world.NewGroup(p, shortTimeout, nil, nil)
		w := &watched{p, prometheus, "bridge group"}
		prometheus.scrape(t, w.job, g.Members[0].Daemon.Env["BRIDGE_HTTP_ADDR"], g.Members[1].Daemon.Env["BRIDGE_HTTP_ADDR"])
		g.Ready()
		w.silent()
		g.Members[0].Kill()
		w.fires("BridgeStandbyMissing", "BridgeAbsent")
		g.Members[0].Restart()
		w.silent()
	})
}

func (f *faultAlert) run(t *testing.T, prometheus *prometheus, byShard bool) {
	t.Helper()
	db, b := testenv.MariaDB(t), world.NATSBus(testenv.NATS(t))
	if f.ownSource {
		db = testenv.StartMariaDB(t)
	}
	if f.ownBus {
		b = world.NATSBus(testenv.StartNATS(t))
	}
	s := newEntities(t, db, workload.CapabilityOptions{Entities: 200, Seed: 3})
	e := world.Env{"BRIDGE_DEAD_LETTER": b.OpenDeadLetters(t, s.Name+"_dead"), "BRIDGE_METRICS_BY_SHARD": strconv.FormatBool(byShard)}.With(f.env)
	path := ""
	if f.smallDisk {
		// Its next write comes soon.
		path, e[failpoint.SyncVariable] = world.Faulty(t), "3s"
		e["BRIDGE_CHECKPOINT_URL"] = "file:" + filepath.Join(testenv.SmallDisk(t, 8<<20), "bridge.db")
	}
	w := &watched{s.Publish(b, world.Publishing{Name: "alerts", Env: e, Path: path}), prometheus, "bridge " + t.Name()}
	prometheus.scrape(t, w.job, w.Env["BRIDGE_HTTP_ADDR"])
	if f.before {
		f.strike(w)
	}
	w.Start()
	if !f.before {
		w.silent()
		f.strike(w)
	}
	w.fires(f.alerts...)
	if f.heal != nil {
		f.heal(w)
		w.silent()
	}
}

// silent waits until the bridge is scraped, is ready, and no alert of it fires.
func (w *watched) silent() {
	w.T.Helper()
	defer w.report()
	world.Eventually(w.T, 2*time.Minute, w.job+" is scraped and no alert fires", func() bool {
		return w.caughtUp() && len(w.prometheus.firing(w.T, w.job)) == 0
	})
}

func (w *watched) caughtUp() bool {
	return w.prometheus.has(w.T, `bridge_caught_up{job="`+w.job+`"} == 1`)
}

// report logs what Prometheus sees of a bridge whose test has failed.
func (w *watched) report() {
	if w.T.Failed() {
		w.T.Logf("%s: caught up %v, firing %v", w.job, w.caughtUp(), w.prometheus.firing(w.T, w.job))
	}
}

// fires waits until each of some alerts fires, with all that a person reads of it.
func (w *watched) fires(alerts ...string) {
	w.T.Helper()
	defer w.report()
	world.Eventually(w.T, 2*time.Minute, w.job+" fires "+strings.Join(alerts, ", "), func() bool {
		firing := w.prometheus.firing(w.T, w.job)
		return !slices.ContainsFunc(alerts, func(name string) bool {
			return !slices.ContainsFunc(firing, func(a firingAlert) bool { return a.Labels["alertname"] == name })
		})
	})
	for _, a := range w.prometheus.firing(w.T, w.job) {
		w.T.Logf("%s: %s", a.Labels["alertname"], a.Annotations["summary"])
		for name, text := range a.Annotations {
			if text == "" || strings.Contains(text, "{{") || strings.Contains(text, "no value") || strings.Contains(text, "error") && name != "description" {
				w.T.Errorf("%s of %s: %q", name, a.Labels["alertname"], text)
			}
		}
	}
}
