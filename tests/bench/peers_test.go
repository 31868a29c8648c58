package bench

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"bridge/event"
	"bridge/tests/bench/report"
	"bridge/tests/testall"
	"bridge/tests/testenv"
)

// peerPlan says how much is measured of the peers.
type peerPlan struct {
	rows, rounds int
	buses        []string
	// names choose peers by a part of their name, all without one.
	names []string
	// steadyFor is how long rows are written whose latency counts, after steadyWarm.
	steadyFor, steadyWarm time.Duration
	lateFor               time.Duration
	// noise is which part of the machine others may have, else the round is measured again.
	noise float64
	// items are those that are measured, all where it is empty.
	items []string
}

// wants reports whether an item is measured.
func (p *peerPlan) wants(item string) bool {
	return len(p.items) == 0 || slices.Contains(p.items, item)
}

// peerBench is one run over the peers.
type peerBench struct {
	*bench
	plan peerPlan
}

// peerBuses are what is measured of the peers.
var peerBuses = []string{onePartition, eightPartitions, "jetstream"}

const onePartition, eightPartitions = "kafka, 1 partition", "kafka, 8 partitions"

var peerFlags = struct {
	names  *string
	noise  *int
	steady *bool
}{
	names:  flag.String("peers", "", "of the peers, measure alone those whose names hold one of these, with commas"),
	noise:  flag.Int("noise", 10, "of the peers, measure a round again if others use more than this percentage of the machine"),
	steady: flag.Bool("steady", false, "of the peers, measure 1,000 rows a second alone; with --docs, replace these figures in the recorded run"),
}

// TestPeers is `make bench-peers`: it measures bridge beside its peers. No figure is judged.
func TestPeers(t *testing.T) {
	if os.Getenv("BRIDGE_TEST_BENCH") == "" {
		t.Skip("part of `make bench-peers`")
	}
	p := peerPlan{rows: 1_000_000, rounds: 3, buses: peerBuses, steadyFor: 15 * time.Second, steadyWarm: 5 * time.Second, lateFor: 20 * time.Second, noise: float64(*peerFlags.noise) / 100}
	if *flags.quick {
		p.rows, p.rounds, p.steadyFor, p.steadyWarm, p.lateFor = 50_000, 1, 4*time.Second, time.Second, 5*time.Second
	}
	if *flags.rows > 0 {
		p.rows = *flags.rows
	}
	if *flags.rounds > 0 {
		p.rounds = *flags.rounds
	}
	wanted := strings.Split(*flags.buses, ",")
	p.buses = slices.DeleteFunc(slices.Clone(peerBuses), func(name string) bool {
		product, _, _ := strings.Cut(name, ",")
		return !slices.Contains(wanted, product)
	})
	if len(p.buses) == 0 {
		t.Fatalf("--buses: choose from %s", strings.Join(busNames, ", "))
	}
	if *peerFlags.steady {
		p.items = []string{report.PeerSteady}
	}
	if *peerFlags.names != "" {
		p.names = strings.Split(*peerFlags.names, ",")
	}
	if *flags.docs && (*flags.quick || *flags.rows > 0 || p.names != nil || len(p.buses) < len(peerBuses) || p.rounds < fewestRounds || p.noise > 0.1) {
		t.Fatal("--docs records whole runs: leave --quick, --rows, --buses, --peers and --noise away, and let --rounds be at least 3")
	}
	r := runPeers(t, p, os.Stderr)
	if err := r.WritePeers(*flags.out); err != nil {
		t.Fatal(err)
	}
	os.Stdout.WriteString("\n" + r.PeersMarkdown() + "\nin " + *flags.out + "\n")
	if *flags.docs {
		if p.items != nil {
			recorded, err := report.ReadPeers(top())
			if err != nil {
				t.Fatal(err)
			}
			recorded.Replace(r)
			r = recorded
		}
		if err := r.RecordPeers(top()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPeersHarness shows that each peer that can run here brings a few rows to each bus.
func TestPeersHarness(t *testing.T) {
	testall.Long(t)
	testenv.Kafka(t)
	p := peerPlan{rows: 2000, rounds: 1, buses: []string{"jetstream"}, steadyFor: 500 * time.Millisecond, lateFor: 2 * time.Second, noise: 1, names: []string{bridgeName}}
	r := runPeers(t, p, t.Output())
	for _, item := range []string{report.PeerBacklog, report.PeerSteady, report.PeerFirst, report.PeerLate} {
		if got := len(r.Cases(item)); got < 2 {
			t.Errorf("%d cases of %s, want 2 or more", got, item)
		}
	}
	for _, c := range r.Cases(report.PeerLate) {
		lost := r.Last(report.PeerLate, c, report.Lost)
		if (c.Client == pollerName) != (lost > 0) {
			t.Errorf("%s has lost %v late rows", c.Client, lost)
		}
	}
}

// runPeers starts the servers and measures all peers in turns.
func runPeers(t *testing.T, p peerPlan, out interface{ Write([]byte) (int, error) }) *report.Report {
	t.Helper()
	began := time.Now()
	b := &peerBench{plan: p, bench: &bench{t: t, began: began, screen: newScreen(out, began), plan: plan{rows: p.rows, static: true}}}
	b.report = &report.Report{Version: version(t), Began: began.UTC().Truncate(time.Second), Machine: report.ThisMachine(), Load: loadBefore(),
		Servers: make(map[string]string), Rows: p.rows, Rounds: p.rounds}
	b.screen.say("building bridge %s, starting the servers", b.report.Version)
	b.path = build(t, b.bench.plan)
	b.db = newDatabase(t, testenv.StartMariaDB(t, append(withPool(poolFor(report.MemoryBytes())), "--log-bin=binlog", "--binlog-format=ROW", "--server-id=1")...))
	// What a reader of the binlog needs beside SELECT.
	b.db.exec(t, fmt.Sprintf("GRANT RELOAD, SHOW DATABASES, REPLICATION SLAVE, BINLOG MONITOR ON *.* TO '%s'@'%%'", b.db.reader))
	b.report.Servers["MariaDB"] = b.db.server.Version
	for _, name := range p.buses {
		b.addPeerBus(name)
	}
	all, missing := b.peers()
	for _, why := range missing {
		b.screen.say("%s", why)
		b.report.Missing = append(b.report.Missing, why)
	}
	all = slices.DeleteFunc(all, func(one peer) bool {
		return p.names != nil && !slices.ContainsFunc(p.names, func(part string) bool { return strings.Contains(one.name, part) })
	})
	for i := range all {
		maps.Copy(b.report.Servers, all[i].versions)
	}
	table := fmt.Sprintf("rows_%d", p.rows)
	if p.wants(report.PeerBacklog) {
		b.db.fill(t, b.screen, table, p.rows)
	}
	b.db.fill(t, b.screen, "first", 1)
	for round := range p.rounds {
		for i, one := range b.buses {
			b.peerRound(all, one, p.buses[i], table, round)
		}
	}
	b.report.Took = time.Since(began).Seconds()
	return b.report
}

// addPeerBus opens a bus by its name in peerBuses.
func (b *peerBench) addPeerBus(name string) {
	b.t.Helper()
	product, _, _ := strings.Cut(name, ",")
	one := openBus(b.t, product)
	if name == onePartition {
		k := one.(kafkaBus)
		k.partitions = 1
		one = k
	}
	b.report.Servers[one.product()] = one.version()
	b.buses = append(b.buses, one)
}

// peerRound measures all peers on one bus, one after the other, another one first in each round.
func (b *peerBench) peerRound(all []peer, one bus, busName, table string, round int) {
	b.t.Helper()
	var steps []func(add func(item, metric string, value float64))
	var names []string
	for i := range all {
		peer := &all[(i+round)%len(all)]
		if !peer.runs(one) {
			continue
		}
		for _, step := range []struct {
			item string
			do   func(add func(string, string, float64))
		}{
			{report.PeerBacklog, func(add func(string, string, float64)) { b.peerBacklog(peer, one, table, add) }},
			{report.PeerFirst, func(add func(string, string, float64)) { b.peerFirst(peer, one, add) }},
			{report.PeerSteady, func(add func(string, string, float64)) { b.peerSteady(peer, one, add) }},
			{report.PeerLate, func(add func(string, string, float64)) { b.peerLate(peer, one, add) }},
		} {
			if b.plan.wants(step.item) {
				steps, names = append(steps, step.do), append(names, peer.name)
			}
		}
	}
	if b.plan.wants(report.PeerLate) {
		steps, names = append(steps, func(add func(string, string, float64)) { b.peerLate(nil, one, add) }), append(names, pollerName)
	}
	for i, step := range steps {
		b.screen.say("round %d of %d, %s: %s", round+1, b.plan.rounds, busName, names[i])
		c := report.Case{Client: names[i], Bus: busName}
		b.undisturbed(func(add func(string, string, float64)) { step(add) }, func(item, metric string, value float64) { b.report.Add(item, c, metric, value) })
	}
}

// mostAgain is how often one measurement is made again because others used the machine.
const mostAgain = 5

// undisturbed measures, and measures again while others use more than a part of the machine.
func (b *peerBench) undisturbed(measure func(add func(string, string, float64)), add func(item, metric string, value float64)) {
	b.t.Helper()
	type figure struct {
		item, metric string
		value        float64
	}
	for again := range mostAgain {
		var figures []figure
		before, err := usageNow()
		if err != nil {
			b.t.Fatal(err)
		}
		measure(func(item, metric string, value float64) { figures = append(figures, figure{item, metric, value}) })
		now, err := usageNow()
		if err != nil {
			b.t.Fatal(err)
		}
		share := before.others(now)
		if share <= b.plan.noise {
			for _, f := range figures {
				add(f.item, f.metric, f.value)
			}
			return
		}
		b.screen.say("refused: others have used %.0f %% of the machine (%d of %d)", share*100, again+1, mostAgain)
	}
	b.t.Fatalf("others use more than %.0f %% of the machine: leave it alone, or allow it with --noise", b.plan.noise*100)
}

// newErrand makes a target for a peer. end drops it.
func (b *peerBench) newErrand(p *peer, one bus, table string) (e errand, end func()) {
	b.t.Helper()
	e = errand{bus: one, database: b.db.name, table: table, target: newTarget(event.Release)}
	holder := p.holder(e)
	one.open(b.t, holder)
	return e, func() { one.drop(b.t, holder) }
}
