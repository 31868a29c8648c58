package acceptance

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"bridge/internal/workload"
)

// trial is the program under load on one lane while one fault is done to it.
type trial struct {
	*daemon
	lane  *lane
	fault fault
	rng   *rand.Rand
	// name is the database, db an administrator's way to it.
	name string
	db   *sql.DB
	// facts is the workload of the release stream, entities that of the capability stream.
	facts    *workload.Workload
	entities *workload.Capabilities
	// stopped ends the writers and waits for them.
	stopped func()
	// points are those of withFailpoints.
	points *failpoints
	// letters are the rows that the bus refuses; nil where it refuses none.
	letters *letters
	// crowded has the load change a few entities only.
	crowded bool
	// cuts is how often the program, or a bus that does not drop repeats, was cut off in the midst of batches.
	cuts int
	// impossible says why the trial cannot be run on this machine, empty where it can.
	impossible string
	score      score
}

// facts and entities are the streams of a trial, named as their tables.
const (
	facts    = "orders"
	entities = "strict"
)

// trial prepares to do a fault on the lane.
func (l *lane) trial(f fault) *trial {
	return &trial{lane: l, fault: f, rng: chance(l.name, f.name), score: score{
		Family: f.family, Fault: f.name, What: f.what, Bus: l.name,
		Seed: *tortureSeed, Short: *tortureShort, Day: time.Now().UTC().Format(time.DateOnly), Commit: sources(),
	}}
}

// suffer puts the program at path under load, does the harm, and judges what came of it.
func (tr *trial) suffer(t testing.TB, path string) {
	f, l := tr.fault, tr.lane
	l.heal(t)
	if f.on != nil {
		l = f.on(t, l)
		tr.lane = l
	}
	ofFacts, ofEntities := tr.usual()
	tr.set(t, ofFacts, ofEntities)
	tr.daemon.path = path
	if f.prepare != nil {
		f.prepare(tr)
	}
	tr.daemon.start()
	tr.load()
	tr.flows()
	f.inject(tr)
	tr.recovers()
	tr.stopped()
	tr.settles()
	tr.judge()
}

// usual is the load of a trial: 250 commits a second.
func (tr *trial) usual() (workload.Options, workload.CapabilityOptions) {
	many := 400
	if tr.crowded {
		many = 40
	}
	return workload.Options{
			Writers: 8, Rate: 150, Seed: tr.rng.Uint64(),
			Hold: workload.Hold{Short: 5 * time.Millisecond, Long: 3 * time.Second, LongShare: 0.01},
			Mix:  workload.Mix{Rollback: 0.03, Burn: 0.01, MultiRow: 0.05, InsertSelect: 0.01, Replace: 0.05, Delete: 0.01},
		}, workload.CapabilityOptions{
			Writers: 4, Rate: 100, Entities: many, Seed: tr.rng.Uint64(),
		}
}

// set makes the tables, the destinations and the environment.
func (tr *trial) set(t testing.TB, ofFacts workload.Options, ofEntities workload.CapabilityOptions) {
	t.Helper()
	l := tr.lane
	tr.name = l.db.NewDatabase(t)
	tr.db = l.db.Admin(t, tr.name)
	tr.db.SetMaxIdleConns(64)
	var err error
	ofFacts.DB, ofFacts.Table, ofEntities.DB, ofEntities.Table = tr.db, facts, tr.db, entities
	tr.facts, err = workload.New(ofFacts)
	if err == nil {
		err = tr.facts.Create(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	tr.entities, err = workload.NewCapabilities(ofEntities)
	if err == nil {
		err = tr.entities.Create(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	e := l.bus.env().with(env{
		"BRIDGE_SOURCE_URL":             (&revisions{t: t, server: l.db, name: tr.name, db: tr.db}).sourceURL(),
		"BRIDGE_POLL_INTERVAL":          pollEvery.String(),
		"BRIDGE_BATCH_ROWS":             tr.batchRows(),
		"BRIDGE_STREAMS":                facts + "," + entities,
		"BRIDGE_RECONCILE_MAX_DELETES":  "45%",
		"BRIDGE_STREAM_ORDERS_TABLE":    facts,
		"BRIDGE_STREAM_ORDERS_KIND":     "release",
		"BRIDGE_STREAM_ORDERS_KEY":      "entity",
		"BRIDGE_STREAM_ORDERS_CREATED":  "created",
		"BRIDGE_STREAM_STRICT_TABLE":    entities,
		"BRIDGE_STREAM_STRICT_KIND":     "capability",
		"BRIDGE_STREAM_STRICT_KEY":      "app,name",
		"BRIDGE_STREAM_STRICT_CREATED":  "created",
		"BRIDGE_STREAM_STRICT_MODIFIED": "modified",
		"BRIDGE_STREAM_STRICT_DELETED":  "deleted",
		// Reconcile is under way in the midst of harm. What the release stream has it has from its tail.
		"BRIDGE_STREAM_STRICT_RECONCILE_INTERVAL": "4s",
	})
	for _, stream := range []string{facts, entities} {
		e["BRIDGE_STREAM_"+strings.ToUpper(stream)+"_DESTINATION"] = l.open(t, tr.destination(stream))
	}
	tr.daemon = newDaemon(t, binary(t, false), e)
}

// batchRows is small where bridge alone is cut off again and again: the bound of repeats is then below what the trial publishes.
func (tr *trial) batchRows() string {
	if f := tr.fault; f.repeats && (f.family == "bridge" || f.family == "disk and clock") {
		return "20"
	}
	return "200"
}

func (tr *trial) destination(stream string) string { return tr.name + "_" + stream }

// load sets the writers going.
func (tr *trial) load() {
	ctx, cancel := context.WithCancel(context.Background())
	var writers sync.WaitGroup
	writers.Go(func() {
		if err := tr.facts.Run(ctx); err != nil {
			tr.t.Errorf("the writers of %s: %v", facts, err)
		}
	})
	writers.Go(func() {
		if err := tr.entities.Run(ctx); err != nil {
			tr.t.Errorf("the writers of %s: %v", entities, err)
		}
	})
	tr.stopped = sync.OnceFunc(func() { cancel(); writers.Wait() })
	tr.t.Cleanup(tr.stopped)
}

// flows waits until both streams are under way.
func (tr *trial) flows() {
	tr.t.Helper()
	tr.reaches(20*time.Second, "what is written arrives")
}

// highest returns the highest id of each table.
func (tr *trial) highest() map[string]uint64 {
	tr.t.Helper()
	ids := make(map[string]uint64)
	for _, stream := range []string{facts, entities} {
		ids[stream] = tr.highestOf(stream)
	}
	return ids
}

func (tr *trial) highestOf(table string) (id uint64) {
	tr.t.Helper()
	if err := tr.db.QueryRow("SELECT coalesce(max(id), 0) FROM " + table).Scan(&id); err != nil {
		tr.t.Fatal(err)
	}
	return id
}

// reaches waits until all rows of the moment are published and the program is ready, and returns how long that took.
func (tr *trial) reaches(limit time.Duration, what string) time.Duration {
	tr.t.Helper()
	begun, ids := time.Now(), tr.highest()
	eventually(tr.t, limit, what, func() bool {
		for stream, id := range ids {
			if tr.position(stream) < id {
				return false
			}
		}
		code, _ := tr.get("/readyz")
		return code == 200
	})
	return time.Since(begun)
}

// recovers waits until the program has caught up after the harm.
func (tr *trial) recovers() {
	tr.t.Helper()
	tr.score.Recovery = inSeconds(tr.reaches(2*time.Minute, "recovered"))
}

// settles waits until all that was committed is published, as far as it can be without a reconcile.
func (tr *trial) settles() {
	tr.t.Helper()
	tr.reaches(time.Minute, "drained")
	eventually(tr.t, 30*time.Second, "no id is in flight", func() bool {
		for _, stream := range []string{facts, entities} {
			shards := tr.shards(stream)
			if len(shards) != 1 || shards[0].Gaps.InFlight > 0 {
				return false
			}
		}
		return true
	})
	// What is younger than the window is neither published nor judged by reconcile.
	pause(1500 * time.Millisecond)
}

// kill ends the program with SIGKILL.
func (tr *trial) kill() {
	tr.cuts++
	tr.daemon.kill()
}

// outage lets a while pass in which something is away.
func (tr *trial) outage(d time.Duration) { pause(tr.within(d)) }

// within is how long harm lasts: d in the long form, at most 5 s in the short one.
func (tr *trial) within(d time.Duration) time.Duration {
	if *tortureShort {
		return min(d, 5*time.Second)
	}
	return d
}

// sometime lets up to d pass, by chance.
func (tr *trial) sometime(d time.Duration) { pause(time.Duration(tr.rng.Int64N(int64(d)))) }

// ended waits for the end of the program and returns its exit status.
func (tr *trial) ended() int {
	tr.t.Helper()
	return tr.endOf(tr.daemon)
}

// endOf waits for the end of a program and returns its exit status.
func (tr *trial) endOf(d *daemon) int {
	tr.t.Helper()
	select {
	case <-d.done:
	case <-time.After(time.Minute):
		tr.t.Fatal("the program has not ended within a minute")
	}
	return d.cmd.ProcessState.ExitCode()
}

func (tr *trial) String() string { return fmt.Sprintf("%s on %s", tr.fault.name, tr.lane.name) }
