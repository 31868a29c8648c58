package bench

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"bridge/event"
	"bridge/tests/bench/report"
)

// flagSet are the flags of `make bench ARGS='…'`.
type flagSet struct {
	only, kinds, buses, shards, out, profile, against *string
	rows, rounds                                      *int
	quick, docs                                       *bool
}

const allKinds = "release,capability"

var flags = flagSet{
	only:    flag.String("only", "", "measure these items alone, with commas: "+strings.Join(itemNames, ", ")),
	kinds:   flag.String("kinds", allKinds, "kinds of streams"),
	buses:   flag.String("buses", strings.Join(busNames, ","), "buses"),
	shards:  flag.String("shards", "", "numbers of quiet tables, with commas (default 1,100,1000,10000)"),
	rows:    flag.Int("rows", 0, "rows of the main table (default 1000000)"),
	rounds:  flag.Int("rounds", 0, "rounds on the main table (default 5)"),
	quick:   flag.Bool("quick", false, "a minute, to try it: 50,000 rows, one round, little of everything else"),
	out:     flag.String("out", filepath.Join(top(), "bin", "bench"), "folder for JSON and tables"),
	docs:    flag.Bool("docs", false, "record the run in docs/performance.md and docs/performance, too"),
	against: flag.String("against", "", "compare the ratios with those of this file, docs/performance/"+report.JSONFile+" say"),
	profile: flag.String("profile", "", "folder for profiles of bridge, which is built with their pages for that"),
}

// itemNames are what --only takes.
var itemNames = []string{report.Scan, report.Publish, report.Bridge, report.Profile, report.Latency, report.Idle, report.Busy, report.Reconcile, report.Recovery, report.Delivery, report.Growth}

// items says what is measured.
type items map[string]bool

// plan says what is measured, and how much of it.
type plan struct {
	only   items
	kinds  []event.Kind
	buses  []string
	rows   int
	rounds int
	// growth are further sizes of the table.
	growth []size
	// latencyFor is how long the rows are written whose latency counts, after latencyWarm.
	latencyFor, latencyWarm time.Duration
	paces                   []pace
	// shards are numbers of quiet tables, looked at for idleFor once idleSettle has passed.
	shards            []int
	idleFor, idleWarm time.Duration
	// busy is a number of tables that get rows, measured for idleFor.
	busy int
	// bufferPool is the memory that the database may use, empty for what the tests give it.
	bufferPool string
	// hurryAfter is when further rounds of tables of other sizes are left out, 0 for never.
	hurryAfter time.Duration
	// static has the program built as `make build` does.
	static  bool
	profile string
	// verify has the messages of bridge compared with those that were encoded for the publishers.
	verify bool
	// against is the run to compare with, nil for none.
	against *report.Report
	out     io.Writer
}

// size is a table of so many rows, on which all parts are measured so many times, for capability
// streams once where releaseAlone says so.
type size struct {
	rows, rounds int
	releaseAlone bool
}

// fullPlan takes less than an hour on two cores.
func fullPlan() plan {
	return plan{
		rows: 1_000_000, rounds: 5, growth: []size{{rows: 100_000, rounds: 3}, {rows: 5_000_000, rounds: 2, releaseAlone: true}},
		latencyFor: 12 * time.Second, latencyWarm: 3 * time.Second,
		paces: append(paces([]int{100, 1000, 5000}, windows, usualPoll), pace{1000, 0, 10 * time.Millisecond}),
		// A shard that has been quiet for ten seconds is polled half as often.
		shards: []int{1, 100, 1000, 10_000}, idleFor: 20 * time.Second, idleWarm: 15 * time.Second, busy: 200,
		bufferPool: poolFor(report.MemoryBytes()), static: true, hurryAfter: 50 * time.Minute,
	}
}

// poolFor is what the database may use for its pages on a machine with so many bytes of memory: the
// largest table with its keys, if there is room.
func poolFor(memory int64) string {
	// A machine of 16 GiB shows a little less.
	if memory >= 15<<30 {
		return "4G"
	}
	return "1G"
}

// windows are the default one and none; usualPoll is at which poll interval all rates are measured.
var windows = []time.Duration{time.Second, 0}

const usualPoll = 100 * time.Millisecond

func quickPlan() plan {
	p := fullPlan()
	p.rows, p.rounds, p.growth = 50_000, 1, []size{{rows: 10_000, rounds: 1}}
	p.latencyFor, p.latencyWarm = 2*time.Second, 500*time.Millisecond
	p.paces = append(paces([]int{100, 1000}, windows, usualPoll), pace{1000, 0, 10 * time.Millisecond})
	p.shards, p.busy, p.idleFor, p.idleWarm = []int{1, 50}, 50, 2*time.Second, time.Second
	return p
}

// tinyPlan shows that everything works, in seconds.
func tinyPlan() plan {
	p := quickPlan()
	p.rows, p.growth = 3000, nil
	p.latencyFor, p.latencyWarm, p.paces = 300*time.Millisecond, 200*time.Millisecond, []pace{{500, 0, usualPoll}, {500, 0, 10 * time.Millisecond}}
	p.shards, p.busy, p.idleFor, p.idleWarm = []int{3}, 3, 500*time.Millisecond, 0
	p.bufferPool, p.static = "", false
	p.verify = true
	p.only, p.kinds, p.buses = all(), []event.Kind{event.Release, event.Capability}, busNames
	return p
}

func all() items {
	only := make(items)
	for _, name := range itemNames {
		only[name] = true
	}
	return only
}

// planOf is the plan that flags ask for.
func planOf(f flagSet) (plan, error) {
	p := fullPlan()
	if *f.quick {
		p = quickPlan()
	}
	if *f.rows > 0 {
		p.rows = *f.rows
	}
	if *f.rounds > 0 {
		p.rounds = *f.rounds
	}
	if *f.shards != "" {
		var err error
		if p.shards, err = numbers("shards", *f.shards); err != nil {
			return p, err
		}
	}
	p.profile, p.only, p.buses = *f.profile, all(), strings.Split(*f.buses, ",")
	if *f.only != "" {
		p.only = make(items)
		for name := range strings.SplitSeq(*f.only, ",") {
			if !slices.Contains(itemNames, name) {
				return p, fmt.Errorf("--only: there is no %q: choose from %s", name, strings.Join(itemNames, ", "))
			}
			p.only[name] = true
		}
	}
	for _, name := range p.buses {
		if !slices.Contains(busNames, name) {
			return p, fmt.Errorf("--buses: there is no %q: choose from %s", name, strings.Join(busNames, ", "))
		}
	}
	for name := range strings.SplitSeq(*f.kinds, ",") {
		kind := event.Kind(name)
		if kind != event.Release && kind != event.Capability {
			return p, fmt.Errorf("--kinds: there is no %q: choose from %s, %s", name, event.Release, event.Capability)
		}
		p.kinds = append(p.kinds, kind)
	}
	if *f.docs {
		if err := recordable(f); err != nil {
			return p, err
		}
	}
	return p, p.readAgainst(*f.against)
}

// numbers reads what a flag lists.
func numbers(flag, list string) ([]int, error) {
	var all []int
	for text := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("--%s: %q: numbers with commas", flag, list)
		}
		all = append(all, n)
	}
	return all, nil
}

// fewestRounds are what a recorded run has at least: a median needs them.
const fewestRounds = 3

// recordable refuses to record what is no whole run.
func recordable(f flagSet) error {
	if *f.only != "" || *f.quick || *f.kinds != allKinds || *f.buses != strings.Join(busNames, ",") || *f.rows > 0 || *f.shards != "" || *f.profile != "" {
		return errors.New("--docs records whole runs: leave --only, --quick, --kinds, --buses, --rows, --shards and --profile away")
	}
	if *f.rounds > 0 && *f.rounds < fewestRounds {
		return fmt.Errorf("--docs records whole runs: let --rounds be at least %d", fewestRounds)
	}
	return nil
}

// readAgainst reads the run to compare with, before anything is measured. The path is from the top
// of the repository.
func (p *plan) readAgainst(path string) (err error) {
	if path == "" {
		return nil
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(top(), path)
	}
	if p.against, err = report.Read(path); err != nil {
		return fmt.Errorf("--against wants the %s of a run: %w", report.JSONFile, err)
	}
	return nil
}

// has reports whether one of the items is to be measured.
func (p *plan) has(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return p.only[name] })
}
