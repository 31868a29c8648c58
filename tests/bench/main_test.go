package bench

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"bridge/tests/bench/report"
	"bridge/tests/testenv"
)

func TestMain(m *testing.M) {
	if job := os.Getenv(childVariable); job != "" {
		os.Exit(runChild(job, os.Stdout))
	}
	flag.Parse()
	testenv.Main(m)
}

// top is the top of the repository.
func top() string { return testenv.Root() }

// TestBench is `make bench`: it measures, prints tables and writes files. No figure is judged.
func TestBench(t *testing.T) {
	if os.Getenv("BRIDGE_TEST_BENCH") == "" {
		t.Skip("part of `make bench`")
	}
	p, err := planOf(flags)
	if err != nil {
		t.Fatal(err)
	}
	p.out = os.Stderr
	b := newBench(t, p)
	b.run()
	if err := b.report.WriteFolder(*flags.out); err != nil {
		t.Fatal(err)
	}
	os.Stdout.WriteString("\n" + b.report.Markdown() + "\nin " + *flags.out + "\n")
	if p.against != nil {
		os.Stdout.WriteString("\n" + report.Compare(p.against, b.report) + "\n")
	}
	if *flags.docs {
		record(t, b.report)
	}
}

// record writes the report into the documentation.
func record(t *testing.T, r *report.Report) {
	t.Helper()
	docs := filepath.Join(top(), "docs")
	if err := report.Record(filepath.Join(docs, "performance.md"), report.Begin, report.End, r.Markdown()); err != nil {
		t.Fatal(err)
	}
	if err := r.WriteFolder(filepath.Join(docs, "performance")); err != nil {
		t.Fatal(err)
	}
	// The page shows the same.
	if err := os.Remove(filepath.Join(docs, "performance", report.TableFile)); err != nil {
		t.Fatal(err)
	}
}

// bench is one run.
type bench struct {
	t      *testing.T
	plan   plan
	report *report.Report
	screen *screen
	db     *database
	buses  []bus
	path   string
	began  time.Time
	// profilerPath is that of the program with its own profiles, "" until it is built.
	profilerPath string
}

// newBench starts the servers and builds the program.
func newBench(t *testing.T, p plan) *bench {
	t.Helper()
	began := time.Now()
	b := &bench{t: t, plan: p, began: began, screen: newScreen(p.out, began)}
	b.report = &report.Report{Version: version(t), Began: began.UTC().Truncate(time.Second), Machine: report.ThisMachine(), Load: loadBefore(),
		Servers: make(map[string]string), Rows: p.rows, Rounds: p.rounds}
	b.screen.say("building bridge %s, starting the servers", b.report.Version)
	b.path = build(t, p)
	b.db = openDatabase(t, p.bufferPool)
	b.report.Servers["MariaDB"] = b.db.server.Version
	for _, name := range p.buses {
		one := openBus(t, name)
		b.report.Servers[one.product()] = one.version()
		b.buses = append(b.buses, one)
	}
	return b
}

// loadBefore is the load of the machine before the benchmark was compiled where `make bench` says
// it, otherwise that of now.
func loadBefore() float64 {
	if load, err := strconv.ParseFloat(os.Getenv("BRIDGE_TEST_BENCH_LOAD"), 64); err == nil {
		return load
	}
	return report.LoadNow()
}

// run measures what the plan says.
func (b *bench) run() {
	b.t.Helper()
	if b.plan.has(report.Scan, report.Publish, report.Bridge, report.Reconcile, report.Recovery, report.Delivery, report.Profile) {
		b.throughput(size{rows: b.plan.rows, rounds: b.plan.rounds}, b.plan.only)
	}
	if b.plan.has(report.Latency) {
		b.latencies()
	}
	if b.plan.has(report.Delivery) {
		b.deliveryLatencies()
	}
	if b.plan.has(report.Idle) {
		b.idleCosts()
	}
	if b.plan.has(report.Busy) {
		b.busyCosts()
	}
	if b.plan.has(report.Growth) {
		for _, one := range b.plan.growth {
			b.throughput(one, items{report.Scan: true, report.Bridge: true, report.Reconcile: true, report.Recovery: b.plan.has(report.Recovery)})
		}
	}
	b.finish()
}

func (b *bench) finish() {
	b.report.Took = time.Since(b.began).Seconds()
	b.screen.say("done")
}

// version is that of the program, as `make build` has it.
func version(t testing.TB) string {
	t.Helper()
	command := exec.Command("git", "describe", "--tags", "--always", "--dirty")
	command.Dir = top()
	out, err := command.Output()
	if err != nil {
		return "dev"
	}
	return strings.TrimSpace(string(out))
}

// build builds the program as `make build` does and returns its path. For profiles it has their
// pages, and its symbols.
func build(t *testing.T, p plan) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bridge")
	args := []string{"build", "-o", path}
	if p.static {
		args = append(args, "-trimpath", "-ldflags", "-s -w -X main.version="+version(t))
	}
	if p.profile != "" {
		args = []string{"build", "-o", path, "-tags", "bridge_pprof"}
	}
	command := exec.Command("go", append(args, "bridge/cmd/bridge")...)
	command.Dir = top()
	if p.static {
		command.Env = append(os.Environ(), "CGO_ENABLED=0")
	}
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}
