package torture

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"bridge/tests/workload"
	"bridge/tests/world"
)

// trial is the program under load on some servers while one fault is done to it.
type trial struct {
	*world.Publisher
	servers *servers
	fault   fault
	rng     *rand.Rand
	// stopWriters ends the writers and waits for them.
	stopWriters func()
	// points are those of withFailpoints.
	points *world.Failpoints
	// large are the rows that the bus refuses; nil where it refuses none.
	large *largeRows
	// moves are entities that move from table to table; nil where none do.
	moves *moves
	// receipts are rows whose ids are used again; nil where there are none.
	receipts *reused
	// altered says that columns came or went under load.
	altered bool
	// group is the standby group of which the program is a member; nil where it works alone.
	group *world.Group
	// crowded has the load change a few entities only.
	crowded bool
	// cuts is how often the program, or a bus that does not drop repeats, was cut off in the midst
	// of batches.
	cuts int
	// impossible says why the trial cannot be run on this machine, empty where it can.
	impossible string
	score      score
}

// facts and entities are the streams of a trial, named as their tables.
const (
	facts    = world.Orders
	entities = world.Strict
)

// trial prepares to do a fault on the servers.
func (s *servers) trial(f fault) *trial {
	return &trial{servers: s, fault: f, rng: chance(s.bus.String(), f.name), score: score{
		Family: f.family, Fault: f.name, What: f.what, Bus: s.bus.String(),
		Seed: *tortureSeed, Short: *tortureShort, Day: time.Now().UTC().Format(time.DateOnly), Commit: sources(),
	}}
}

// run puts the program at path under load, does the harm, and judges what came of it.
func (tr *trial) run(t testing.TB, path string) {
	f := tr.fault
	tr.servers.heal(t)
	if f.on != nil {
		tr.servers = f.on(t, tr.servers)
	}
	rows, states := tr.load()
	tr.prepare(t, path, rows, states)
	if f.prepare != nil {
		f.prepare(tr)
	}
	if tr.group == nil {
		tr.Daemon.Start()
	}
	tr.write()
	tr.flows()
	f.inject(tr)
	tr.recovers()
	tr.stopWriters()
	if tr.group != nil {
		tr.group.Alone(tr.group.Published(2*time.Minute, "all is published"))
	}
	tr.AllPublished()
	tr.compare()
}

// load is what the writers of a trial do.
func (tr *trial) load() (workload.Options, workload.CapabilityOptions) {
	rows, states := world.Load(tr.rng.Uint64(), tr.rng.Uint64())
	states.Mix = tr.fault.mix
	if tr.crowded {
		states.Entities = 40
	}
	return rows, states
}

// prepare makes the tables, the destinations and the environment of the program at path.
func (tr *trial) prepare(t testing.TB, path string, rows workload.Options, states workload.CapabilityOptions) {
	t.Helper()
	w := world.New(t, world.Options{Database: tr.servers.db, Rows: &rows, Entities: &states})
	tr.Publisher = w.Publish(tr.servers.bus, world.Publishing{Path: path, Env: world.LoadEnv.With(world.Env{"BRIDGE_BATCH_ROWS": tr.batchRows()})})
}

// batchRows is small where bridge alone is cut off again and again: the bound of repeats is then
// below what the trial publishes.
func (tr *trial) batchRows() string {
	if f := tr.fault; f.repeats && (f.family == "bridge" || f.family == "standby" || f.family == "disk and clock") {
		return "20"
	}
	return "200"
}

// write sets the writers going.
func (tr *trial) write() { _, tr.stopWriters = tr.World.Write() }

// flows waits until both streams are under way.
func (tr *trial) flows() {
	tr.T.Helper()
	// A stream without a row has nothing on the bus that could be lost.
	world.Eventually(tr.T, time.Minute, "both tables have rows", func() bool {
		return tr.World.Highest(facts) > 0 && tr.World.Highest(entities) > 0
	})
	if tr.group != nil {
		tr.group.Published(time.Minute, "one of the group works")
		return
	}
	tr.CaughtUp(time.Minute, "what is written arrives")
}

// recovers waits until the program has caught up after the harm.
func (tr *trial) recovers() {
	tr.T.Helper()
	if tr.group != nil {
		tr.group.Published(2*time.Minute, "one of the group works")
		tr.score.Recovery = inSeconds(tr.group.Slowest())
		return
	}
	tr.score.Recovery = inSeconds(tr.CaughtUp(2*time.Minute, "recovered"))
}

// kill ends the program with SIGKILL.
func (tr *trial) kill() {
	tr.cuts++
	tr.Daemon.Kill()
}

// terminate ends the program with SIGTERM.
func (tr *trial) terminate() {
	tr.T.Helper()
	if status, _ := tr.Term(); status != 0 {
		tr.score.find("exit status %d after SIGTERM", status)
	}
}

// outage lets a while pass in which something is away.
func (tr *trial) outage(d time.Duration) { world.Pause(tr.within(d)) }

// within is how long harm lasts: d in the long form, at most 5 s in the short one.
func (tr *trial) within(d time.Duration) time.Duration {
	if *tortureShort {
		return min(d, 5*time.Second)
	}
	return d
}

// sometime lets up to d pass, by chance.
func (tr *trial) sometime(d time.Duration) { world.Pause(time.Duration(tr.rng.Int64N(int64(d)))) }

// ended waits for the end of the program and returns its exit status.
func (tr *trial) ended() int {
	tr.T.Helper()
	return tr.endOf(tr.Daemon)
}

// endOf waits for the end of a program and returns its exit status.
func (tr *trial) endOf(d *world.Daemon) int {
	tr.T.Helper()
	select {
	case <-d.Done:
	case <-time.After(syncWithin):
		tr.T.Fatalf("the program has not ended within %s", syncWithin)
	}
	return d.Cmd.ProcessState.ExitCode()
}

func (tr *trial) String() string { return fmt.Sprintf("%s on %s", tr.fault.name, tr.score.Bus) }

// compare fills the score and fails the test for what is wrong.
func (tr *trial) compare() {
	tr.T.Helper()
	s := &tr.score
	expect := world.Expect{Lossy: tr.fault.loses, Altered: tr.altered}
	if tr.large != nil {
		expect.Aside, expect.AsideRows = tr.large.events, tr.large.tokens
	}
	if tr.moves != nil {
		tr.moves.reconciled()
	}
	if tr.receipts != nil {
		tr.receipts.verify()
	}
	expect.Frozen = tr.group != nil && tr.group.Unfenced()
	s.Figures = tr.Figures(expect)
	if tr.moves != nil {
		tr.moves.judge(&s.Figures)
	}
	if tr.receipts != nil {
		tr.receipts.judge(&s.Figures)
	}
	tr.conclude()
}

// conclude fails the test for what is wrong with the figures.
func (tr *trial) conclude() {
	tr.T.Helper()
	s := &tr.score
	tr.boundRepeats()
	s.Findings = append(s.Findings, s.Wrongs...)
	s.LogLines = tr.Log.Lines()
	if len(s.Findings) > 0 {
		tr.T.Errorf("%s", s.findings())
	}
}

// boundRepeats holds the repeats against what invariant 6 allows.
func (tr *trial) boundRepeats() {
	bound, cuts := 0, tr.cuts
	if tr.group != nil {
		cuts += tr.group.Starved()
	}
	if tr.fault.repeats {
		bound = tr.MostRepeats(cuts)
	}
	tr.score.BoundRepeats(bound, cuts)
}
