package torture

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/workload"
	"example.org/bridge/tests/world"
)

var (
	tortureSeed    = flag.Uint64("seed", 0, "what chance is drawn from; 0 takes the time")
	tortureFault   = flag.String("fault", "", "a regular expression: only the faults, or mutants, whose names it matches")
	tortureBus     = flag.String("bus", "", "only this bus: kafka or nats; both is each fault on both of them, in the short form, too")
	tortureShort   = flag.Bool("short", false, "outages of at most 5 s, harm repeated at most twice, each fault once, on alternating buses, eight trials at a time")
	tortureOnce    = flag.Bool("exactly-once", false, "on Kafka alone, with BRIDGE_DELIVERY=exactly-once: a read_committed consumer may see nothing twice")
	tortureFor     = flag.Duration("for", 0, "a soak instead of trials: so long one program a bus, with a fault by chance every 10 s, judged every 5 minutes")
	tortureMutants = flag.Bool("mutants", false, "deliberate defects of the program, one after the other, which trials have to find")
	torturePage    = flag.Bool("page", false, "no trials: only makes the page in the folder of --write again, of the results that lie there")
	tortureWrite   = flag.String("write", "", "a folder, docs for the page itself, that the matrix is written to, as Markdown and as JSON; rows that are not run stay")
)

func TestMain(m *testing.M) { world.Main(m) }

// TestTorture runs the program under load on every bus, does one kind of harm after the other, and
// judges what arrived. It is part of `make torture`: in its long form it takes longer than the
// other tests together.
func TestTorture(t *testing.T) {
	testall.Long(t)
	if os.Getenv("BRIDGE_TEST_TORTURE") == "" {
		t.Skip("part of `make torture`")
	}
	if *tortureSeed == 0 {
		*tortureSeed = uint64(time.Now().UnixNano() % 1_000_000)
	}
	if *tortureOnce {
		*tortureBus = "kafka"
	}
	// At once, not after hours.
	if info, err := os.Stat(resultsFolder()); *tortureWrite != "" && (err != nil || !info.IsDir() || *tortureOnce) {
		t.Fatalf("--write: %s has to be a folder, and the matrix has no rows with --exactly-once (%v)", resultsFolder(), err)
	}
	switch {
	case *torturePage:
		must.OK(t, writePage(resultsFolder(), resultsFolder()))
	case *tortureMutants:
		*tortureShort = true
		mutantTorture(t)
	case *tortureFor > 0:
		soakTorture(t)
	default:
		trialTorture(t)
	}
}

// trialTorture runs the trials that the flags ask for. The servers of a bus take from its queue.
func trialTorture(t *testing.T) {
	queues, due := planTorture(t)
	m := &matrix{begun: time.Now(), due: due}
	m.progress("%d trials, --seed %d", due, *tortureSeed)
	// The trials that need it are the last ones.
	var build sync.WaitGroup
	build.Go(world.BuildFaulty)
	defer build.Wait()
	t.Run("on", func(t *testing.T) {
		for bus, queue := range queues {
			// Trials mostly wait, those on Kafka longer. The long form, whose figures are
			// published, has one at a time.
			groups := 1
			if *tortureShort {
				groups = map[string]int{"kafka": 5, "nats": 3}[bus]
			}
			for group := range min(groups, len(queue)) {
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
	if len(m.Trials) < due {
		t.Errorf("%d of %d trials were run: servers are missing, or those of one bus have ended early", len(m.Trials), due)
	}
	if *tortureWrite != "" {
		must.OK(t, m.write(resultsFolder()))
	}
}

// planTorture returns the trials that the flags ask for, by bus. Those on clusters, which take
// longest, come first, and those that end the program at points of its code last.
func planTorture(t *testing.T) (queues map[string]chan fault, due int) {
	wanted := namesWanted(t)
	queues = map[string]chan fault{"kafka": make(chan fault, 200), "nats": make(chan fault, 200)}
	turn := int(*tortureSeed % 2)
	// Those of several processes come one by one between the others.
	var several []func()
	plan := func(f fault, bus string) {
		due++
		if f.shares > 0 {
			several = append(several, func() { queues[bus] <- f })
			return
		}
		queues[bus] <- f
		if len(several) > 0 {
			several[0]()
			several = several[1:]
		}
	}
	for _, f := range slices.Backward(allFaults()) {
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
				plan(f, bus)
			}
		}
	}
	if due == 0 {
		t.Fatalf("no fault is called %q: see docs/fault-matrix.md for their names", *tortureFault)
	}
	for _, next := range several {
		next()
	}
	for _, queue := range queues {
		close(queue)
	}
	return queues, due
}

func namesWanted(t *testing.T) *regexp.Regexp {
	t.Helper()
	wanted, err := regexp.Compile(*tortureFault)
	if err != nil {
		t.Fatalf("--fault: %v", err)
	}
	return wanted
}

// crowded bounds the trials of several processes at a time: with eight of them the machine is too
// busy for programs to send their signs of life in time.
var crowded = make(chan struct{}, 2)

func (m *matrix) work(t *testing.T, on *servers, queue <-chan fault) {
	for f := range queue {
		t.Run(f.name, func(t *testing.T) {
			if f.shares > 0 {
				crowded <- struct{}{}
				defer func() { <-crowded }()
			}
			tr, begun := on.trial(f), time.Now()
			// Also a trial that ends early has its row. One that was skipped has not passed.
			defer func() {
				if t.Skipped() {
					tr.score.Find("%s: it was skipped, see its log", notRun)
				}
				tr.score.Passed, tr.score.took = !t.Failed() && !t.Skipped(), time.Since(begun)
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
	return filepath.Join(cmp.Or(os.Getenv("BRIDGE_TEST_FROM"), testenv.Root()), *tortureWrite)
}

// sources says which commit the program is built of, with -dirty behind it where something else
// than docs differs from that.
var sources = sync.OnceValue(func() string {
	commit, err := exec.Command("git", "-C", testenv.Root(), "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	name := strings.TrimSpace(string(commit))
	if exec.Command("git", "-C", testenv.Root(), "diff", "--quiet", "HEAD", "--", ".", ":!docs").Run() != nil {
		name += "-dirty"
	}
	return name
})

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
	// shares is how many processes share the tables, 0 where one has them.
	shares int
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

// In the order of the matrix.
func allFaults() []fault {
	once := withOnce(shareFaults)
	if *tortureOnce {
		once = nil // All are.
	}
	return slices.Concat(processFaults, pointFaults, standbyFaults, shareFaults, once, checkpointFaults, diskFaults, clockFaults, serverFaults, networkFaults, tableFaults, contentsFaults)
}

// withOnce returns faults as they are done to programs with BRIDGE_DELIVERY=exactly-once.
func withOnce(faults []fault) (once []fault) {
	for _, f := range faults {
		f.family, f.what, f.name, f.repeats = f.family+", exactly-once", "as `"+f.name+"`", f.name+"-once", false
		f.on = func(t testing.TB, s *servers) *servers {
			other := *s
			other.bus = s.bus.ExactlyOnce(t.Name())
			return &other
		}
		once = append(once, f)
	}
	return once
}

// Trials run on them one after the other.
type servers struct {
	bus *world.Bus
	db  *testenv.DatabaseServer
	// busProxy and dbProxy are ways to the servers that networkFaults harm.
	busProxy, dbProxy *testenv.Proxy
}

func startServers(t *testing.T, bus string) *servers {
	t.Helper()
	s := &servers{db: testenv.StartMariaDB(t)}
	s.dbProxy = testenv.StartProxy(t, s.db.Addr)
	if bus == "kafka" {
		s.bus = world.KafkaBus(testenv.StartKafka(t, testenv.KafkaOptions{Proxied: true}))
		s.busProxy = s.bus.Kafka.Proxy()
		if *tortureOnce {
			s.bus = s.bus.ExactlyOnce(t.Name())
		}
	} else {
		s.bus = world.NATSBus(testenv.StartNATS(t))
		s.busProxy = testenv.StartProxy(t, s.bus.NATS.Addr())
	}
	return s
}

// heal undoes what a trial that ended early has left.
func (s *servers) heal(t testing.TB) {
	t.Helper()
	s.dbProxy.Heal()
	s.busProxy.Heal()
	s.db.Heal(t)
	s.bus.Server().Heal(t)
}

// The same database, and a bus that is three servers.
func clustered(t testing.TB, s *servers) *servers {
	other := *s
	other.bus = s.bus.Clustered(t)
	return &other
}
