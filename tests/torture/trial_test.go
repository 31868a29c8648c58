package torture

import (
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"example.org/bridge/tests/workload"
	"example.org/bridge/tests/world"
)

type trial struct {
	*world.Publisher
	servers *servers
	fault   fault
	rng     *rand.Rand
	// stopWriters ends the writers and waits for them.
	stopWriters func()
	// points are the points of withFailpoints.
	points *world.Failpoints
	// second is where the stream elsewhere is; nil without one.
	second *world.World
	// altered says that columns came or went under load.
	altered bool
	// group is the standby group of which the program is a member; nil where it works alone.
	group *world.Group
	// woken counts the tables of processes of a former number of shares that have woken up and that
	// the bus does not fence: to JetStream, too, shares publish without fences.
	woken int
	// crowded has the load change a few entities only.
	crowded bool
	// cuts is how often the program, or a bus that does not drop repeats, was cut off in the midst
	// of batches.
	cuts  int
	score score
}

// facts and entities are the streams of a trial, named as their tables.
const (
	facts    = world.Orders
	entities = world.Strict
)

var bothStreams = []string{facts, entities}

func (s *servers) trial(f fault) *trial {
	h, bus := *tortureSeed, s.bus.String()
	for _, b := range []byte(bus + "/" + f.name) {
		h = h*1099511628211 ^ uint64(b)
	}
	return &trial{servers: s, fault: f, rng: rand.New(rand.NewPCG(*tortureSeed, h)), score: score{
		Family: f.family, Fault: f.name, What: f.what, Bus: bus,
		Seed: *tortureSeed, Short: *tortureShort, Day: time.Now().UTC().Format(time.DateOnly), Commit: sources(),
	}}
}

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
	switch {
	case f.shares > 0:
		tr.StartShares(f.shares)
	case tr.group == nil:
		tr.Start()
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
	frozen := tr.group != nil && tr.group.Unfenced() || tr.woken > 0
	tr.conclude(tr.Figures(world.Expect{Lossy: f.loses, Altered: tr.altered, Frozen: frozen}))
}

// sideBySide reports whether eight trials share the machine: with more load, all of them wait for a
// processor.
func sideBySide() bool { return *tortureShort && !*tortureMutants && *tortureFor == 0 }

func (tr *trial) load() (workload.Options, workload.CapabilityOptions) {
	rows, states := world.Load(tr.rng.Uint64(), tr.rng.Uint64())
	if sideBySide() {
		rows.Rate, states.Rate = 35, 25
	}
	states.Mix = tr.fault.mix
	if tr.crowded {
		states.Entities = 40
	}
	return rows, states
}

func (tr *trial) prepare(t testing.TB, path string, rows workload.Options, states workload.CapabilityOptions) {
	t.Helper()
	batch := "200"
	// Where bridge alone is cut off again and again, the bound of repeats is to be below what the
	// trial publishes.
	if f := tr.fault; f.repeats && slices.Contains([]string{"bridge", "standby", "disk and clock"}, f.family) {
		batch = "20"
	}
	env := world.LoadEnv.With(world.Env{"BRIDGE_BATCH_ROWS": batch})
	if sideBySide() {
		env["BRIDGE_POLL_INTERVAL"] = "250ms"
	}
	if tr.fault.shares > 0 {
		rows.IDs, env["BRIDGE_BATCH_ROWS"] = workload.IDs{Tables: 12}, "2"
	}
	w := world.New(t, world.Options{Database: tr.servers.db, Rows: &rows, Entities: &states})
	tr.Publisher = w.Publish(tr.servers.bus, world.Publishing{Path: path, Env: env})
}

func (tr *trial) write() { _, tr.stopWriters = tr.World.Write() }

func (tr *trial) flows() {
	tr.T.Helper()
	// A stream without a row has nothing on the bus that could be lost.
	world.Eventually(tr.T, time.Minute, "both streams have rows", tr.HasRows)
	if tr.group != nil {
		tr.group.Published(time.Minute, "one of the group works")
		return
	}
	tr.CaughtUp(time.Minute, "what is written arrives")
}

func (tr *trial) recovers() {
	tr.T.Helper()
	if tr.group != nil {
		tr.group.Published(2*time.Minute, "one of the group works")
		tr.score.Recovery = inSeconds(tr.group.Slowest)
		return
	}
	tr.score.Recovery = inSeconds(tr.CaughtUp(2*time.Minute, "recovered"))
}

// conclude fails the test for what is wrong with the figures. Invariant 6 bounds the repeats.
func (tr *trial) conclude(f world.Figures) {
	tr.T.Helper()
	f.Findings = append(tr.score.Findings, f.Findings...)
	tr.score.Figures = f
	s, bound, cuts := &tr.score, 0, tr.cuts
	if tr.group != nil {
		cuts += tr.group.Starved()
	}
	if tr.fault.repeats {
		bound = tr.MostRepeats(cuts)
	}
	s.BoundRepeats(bound)
	if rows, _ := strconv.Atoi(tr.Env["BRIDGE_BATCH_ROWS"]); s.Behind > tr.woken*rows && tr.woken > 0 {
		s.Find("%d messages came behind those of a later owner, at most %d may", s.Behind, tr.woken*rows)
	}
	s.LogLines = tr.Log.Lines()
	if len(s.Findings) > 0 {
		tr.T.Errorf("%s", strings.Join(s.Findings, "\n"))
	}
}

func (tr *trial) kill() {
	tr.cuts++
	tr.Daemon.Kill()
}

func (tr *trial) terminate() {
	tr.T.Helper()
	if status, _ := tr.Term(); status != 0 {
		tr.score.Find("exit status %d after SIGTERM", status)
	}
}

// In good order or not.
func (tr *trial) stops() {
	tr.T.Helper()
	if tr.rng.IntN(2) == 0 {
		tr.kill()
	} else {
		tr.terminate()
	}
}

// syncWithin is more than the time between two syncs of the checkpoint.
const syncWithin = 100 * time.Second

func (tr *trial) outage(d time.Duration) { world.Pause(tr.within(d)) }

// within is how long harm lasts: d in the long form, at most 5 s in the short one.
func (tr *trial) within(d time.Duration) time.Duration {
	if *tortureShort {
		return min(d, 5*time.Second)
	}
	return d
}

// times is how often harm is repeated: n times in the long form, at most twice in the short one.
func (tr *trial) times(n int) int {
	if *tortureShort {
		return min(n, 2)
	}
	return n
}

func (tr *trial) sometime(d time.Duration) { world.Pause(time.Duration(tr.rng.Int64N(int64(d)))) }

// says notes it when what ended with a status has not failed, or has not said all of words.
func (tr *trial) says(who string, status int, text string, words ...string) {
	if status != 1 {
		tr.score.Find("%s: exit status %d, want 1: %.600s", who, status, text)
	}
	for _, word := range words {
		if !strings.Contains(text, word) {
			tr.score.Find("%s: nothing about %q: %.600s", who, word, text)
		}
	}
}

// met notes it when harm has met nothing: such a trial shows nothing. In a soak other harm may have
// come first.
func (tr *trial) met(count int, otherwise string) {
	if count == 0 && tr.fault.name != soakName {
		tr.score.Find("the harm has met nothing: %s", otherwise)
	}
}

// goesOn waits until all rows of the moment of one stream are published, whatever became of the
// other.
func (tr *trial) goesOn(stream string) {
	tr.T.Helper()
	id := tr.World.Highest(stream)
	world.Eventually(tr.T, time.Minute, stream+" goes on", func() bool { return tr.Position(stream) >= id })
}

func (tr *trial) shardStops(stream string, words ...string) {
	tr.T.Helper()
	world.AwaitStopped(tr.T, tr.Daemon, stream, words...)
	if code, body := tr.Get("/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, stream) {
		tr.score.Find("%s has stopped, /readyz says %d: %s", stream, code, body)
	}
}
