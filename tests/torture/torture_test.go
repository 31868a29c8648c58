package torture

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"bridge/tests/workload"
	"bridge/tests/world"
)

// The flags of `make torture`.
var (
	tortureSeed    = flag.Uint64("seed", 0, "what chance is drawn from; 0 takes the time")
	tortureFault   = flag.String("fault", "", "a regular expression: only the faults, or mutants, whose names it matches")
	tortureBus     = flag.String("bus", "", "only this bus: kafka or nats; both is each fault on both of them, in the short form, too")
	tortureShort   = flag.Bool("short", false, "outages of at most 5 s, each fault once, on alternating buses, four trials at a time on each")
	tortureOnce    = flag.Bool("exactly-once", false, "on Kafka alone, with BRIDGE_DELIVERY=exactly-once: a read_committed consumer may see nothing twice")
	tortureFor     = flag.Duration("for", 0, "a soak instead of trials: so long one program a bus, with a fault by chance every 10 s, judged every 5 minutes")
	tortureMutants = flag.Bool("mutants", false, "deliberate defects of the program, one after the other, which trials have to find")
	torturePage    = flag.Bool("page", false, "no trials: only makes the page in the folder of --write again, of the results that lie there")
	tortureWrite   = flag.String("write", "", "a folder, docs for the page itself, that the matrix is written to, as Markdown and as JSON; rows that are not run stay")
)

// TestTorture runs the program under load on every bus, does one kind of harm after the other, and
// judges what arrived. It is part of `make torture`: in its long form it takes longer than the
// other tests together.
func TestTorture(t *testing.T) {
	if os.Getenv("BRIDGE_TEST_TORTURE") == "" {
		t.Skip("part of `make torture`")
	}
	if *tortureSeed == 0 {
		*tortureSeed = uint64(time.Now().UnixNano() % 1_000_000)
	}
	if *tortureOnce {
		if *tortureWrite != "" {
			t.Fatal("--write: the matrix has no rows with exactly-once")
		}
		*tortureBus = "kafka"
	}
	checkResultsFolder(t)
	if *torturePage {
		if *tortureWrite == "" {
			t.Fatal("--page: name the folder with --write")
		}
		if err := writePage(resultsFolder()); err != nil {
			t.Fatal(err)
		}
		return
	}
	if *tortureMutants {
		*tortureShort = true
		mutantTorture(t)
		return
	}
	if *tortureFor > 0 {
		soakTorture(t)
		return
	}
	plan := planTorture(t)
	m := &matrix{begun: time.Now(), due: len(plan)}
	m.progress("%d trials, --seed %d", len(plan), *tortureSeed)
	t.Run("on", func(t *testing.T) {
		for _, bus := range []string{"kafka", "nats"} {
			queue := queueOf(plan, bus)
			for group := range min(groups(), len(queue)) {
				// A second test of the same name gets a #, which the URL of a checkpoint in its
				// folder may not have.
				t.Run(fmt.Sprintf("%s-%d", bus, group+1), func(t *testing.T) {
					t.Parallel()
					m.work(t, startServers(t, bus), queue)
				})
			}
		}
	})
	m.print()
	if len(m.Trials) < len(plan) {
		t.Errorf("%d of %d trials were run: servers are missing, or those of one bus have ended early", len(m.Trials), len(plan))
	}
	if *tortureWrite != "" {
		if err := m.write(resultsFolder()); err != nil {
			t.Error(err)
		}
	}
}

// groups is how many groups of servers a bus has. Trials mostly wait: the short form has four. The
// long form, whose figures are published, has one.
func groups() int {
	if *tortureShort {
		return 4
	}
	return 1
}

// queueOf returns the trials of a bus in the order of the plan. All groups of servers of the bus
// take from it.
func queueOf(plan []planned, bus string) <-chan planned {
	queue := make(chan planned, len(plan))
	defer close(queue)
	for _, p := range plan {
		if p.bus == bus {
			queue <- p
		}
	}
	return queue
}

// work runs trials of a queue on some servers, one after the other, until none is left.
func (m *matrix) work(t *testing.T, on *servers, queue <-chan planned) {
	for p := range queue {
		t.Run(p.fault.name, func(t *testing.T) {
			tr := on.trial(p.fault)
			// Also a trial that ends early has its row.
			defer func() {
				tr.close(t)
				m.add(tr.score)
			}()
			tr.run(t, world.Binary(t, false))
		})
	}
}

// resultsFolder is what --write names, by the folder in which the command was typed.
func resultsFolder() string {
	if filepath.IsAbs(*tortureWrite) {
		return *tortureWrite
	}
	return filepath.Join(cmp.Or(os.Getenv("BRIDGE_TEST_FROM"), world.Root), *tortureWrite)
}

// checkResultsFolder fails the test at once, not after hours, when results cannot be written.
func checkResultsFolder(t *testing.T) {
	t.Helper()
	if *tortureWrite == "" {
		return
	}
	if info, err := os.Stat(resultsFolder()); err != nil || !info.IsDir() {
		t.Fatalf("--write: %s is no folder: make it, or name another (%v)", resultsFolder(), err)
	}
}

// close says what became of a trial that has ended. One that was skipped has not passed; with
// CI=true it has failed, unless it cannot be run on this machine.
func (tr *trial) close(t testing.TB) {
	if t.Skipped() {
		tr.score.find("%s: %s", notRun, cmp.Or(tr.impossible, "it was skipped, see its log"))
		if tr.impossible == "" && os.Getenv("CI") == "true" {
			t.Errorf("%s was skipped", tr)
		}
	}
	tr.score.Passed = !t.Failed() && !t.Skipped()
}

// cannot skips a trial that this machine does not let be run.
func (tr *trial) cannot(why string, err error) {
	tr.T.Helper()
	tr.impossible = fmt.Sprintf("%s: %v", why, err)
	tr.T.Skip(tr.impossible)
}

// sources says which commit the program is built of, with -dirty behind it where something else
// than docs differs from that.
var sources = sync.OnceValue(func() string {
	commit, err := exec.Command("git", "-C", world.Root, "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	name := strings.TrimSpace(string(commit))
	if exec.Command("git", "-C", world.Root, "diff", "--quiet", "HEAD", "--", ".", ":!docs").Run() != nil {
		name += "-dirty"
	}
	return name
})

// planned is one fault that one bus is to see.
type planned struct {
	fault fault
	bus   string
}

// namesWanted is what --fault asks for.
func namesWanted(t *testing.T) *regexp.Regexp {
	t.Helper()
	wanted, err := regexp.Compile(*tortureFault)
	if err != nil {
		t.Fatalf("--fault: %v", err)
	}
	return wanted
}

// planTorture returns the trials that the flags ask for.
func planTorture(t *testing.T) []planned {
	wanted := namesWanted(t)
	var plan []planned
	turn := int(*tortureSeed % 2)
	for _, f := range allFaults() {
		if !wanted.MatchString(f.name) {
			continue
		}
		buses := []string{"kafka", "nats"}
		switch {
		case f.only != "":
			buses = []string{f.only}
		case *tortureShort && *tortureBus == "":
			turn++
			buses = buses[turn%2 : turn%2+1]
		}
		for _, bus := range buses {
			if *tortureBus == "" || *tortureBus == "both" || *tortureBus == bus {
				plan = append(plan, planned{f, bus})
			}
		}
	}
	if len(plan) == 0 {
		t.Fatalf("no fault is called %q: see docs/fault-matrix.md for their names", *tortureFault)
	}
	return plan
}

// fault is one kind of harm.
type fault struct {
	name string
	// family is the part of the matrix where it stands, what one line that says what is done.
	family, what string
	// only is the one bus that has it, because says why.
	only, because string
	// repeats says that messages may be stored twice: after SIGKILL of bridge or bus (invariant 6).
	// At most the batches in flight; not by JetStream.
	repeats bool
	// loses says that the bus has lost messages.
	loses bool
	// on returns the servers of the trial: the same database with another bus. Optional.
	on func(testing.TB, *servers) *servers
	// mix has the weights of the changes of entities, nil for those of EveryChange.
	mix map[workload.Change]int
	// prepare is called before the program starts, to set its environment or other ways to its
	// servers. Optional.
	prepare func(*trial)
	// inject does the harm while there is load, and returns when it is over and whatever a person
	// has to do is done.
	inject func(*trial)
	// soaks says that the harm passes by itself and the program lives on: it can be done at any
	// time, again and again.
	soaks bool
}

// allFaults returns the faults in the order of the matrix.
func allFaults() []fault {
	return slices.Concat(processFaults, pointFaults, standbyFaults, checkpointFaults, diskFaults, clockFaults, serverFaults, networkFaults, tableFaults, contentsFaults, loginFaults)
}

// matrix is what came of all trials. It is safe for concurrent use.
type matrix struct {
	// Trials are in the order of the matrix once all have ended.
	Trials []score `json:"trials"`

	mu    sync.Mutex
	begun time.Time
	due   int
}

func (m *matrix) add(s score) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.Trials = append(m.Trials, s)
	m.progress("[%d/%d] %-5s %-32s %s", len(m.Trials), m.due, s.Bus, s.Fault, s)
	for _, finding := range s.Findings {
		m.progress("      %.600s", finding)
	}
}

// progress writes a line for those who wait.
func (m *matrix) progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "torture: "+format+"\n", args...)
}

// chance returns a source of chance for one trial, the same for the same seed.
func chance(bus, name string) *rand.Rand {
	h := *tortureSeed
	for _, b := range []byte(bus + "/" + name) {
		h = h*1099511628211 ^ uint64(b)
	}
	return rand.New(rand.NewPCG(*tortureSeed, h))
}
