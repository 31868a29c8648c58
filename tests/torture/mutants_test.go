package torture

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"example.org/bridge/tests/faulty"
	"example.org/bridge/tests/faulty/failpoint"
	"example.org/bridge/tests/world"
)

// hunt is how a mutant is looked for.
type hunt struct {
	defect failpoint.Defect
	// breaks names the invariants of docs/architecture.md that the defect breaks.
	breaks string
	// fault is the one of the trials, on a bus, empty for either. shows is the figure of the score
	// that has to show the defect, as the matrix names it: other findings do not count.
	fault, bus, shows string
	// env is added to the program's environment. crowded has the load change few entities, each of
	// them often.
	env     world.Env
	crowded bool
	// test is one of package pkg and replaces trials where those cannot show the defect; shows is
	// then what it prints when it fails.
	test, pkg string
}

var hunts = []hunt{
	{defect: failpoint.DropOne, breaks: "2", fault: "connections-killed", shows: "lost"},
	// With the window two states of an entity are seldom in batches that follow one another.
	{defect: failpoint.MessageLate, breaks: "3", fault: "connections-killed", shows: "out of order", crowded: true, env: world.Env{"BRIDGE_STABILITY_WINDOW": "0s"}},
	// What is saved too early is durable at the end of the process.
	{defect: failpoint.SaveBeforePublish, breaks: "1", fault: "bridge-terminated-without-bus", shows: "lost"},
	{defect: failpoint.SkipCatchUp, breaks: "6", fault: "bridge-killed", shows: "out of order", crowded: true},
	{defect: failpoint.OffsetAhead, breaks: "6", test: "TestFold", pkg: "example.org/bridge/tests/fold", shows: "rest "},
	{defect: failpoint.SkipOne, breaks: "6", test: "TestFold", pkg: "example.org/bridge/tests/fold", shows: "rest "},
	{defect: failpoint.SeqTwice, breaks: "3", test: "TestFold", pkg: "example.org/bridge/tests/fold", shows: "rest "},
	{defect: failpoint.OlderWins, breaks: "3", test: "TestFold", pkg: "example.org/bridge/tests/fold", shows: "rest "},
	{defect: failpoint.MovedByShard, breaks: "3", test: "TestFold", pkg: "example.org/bridge/tests/fold", shows: "rest "},
	{defect: failpoint.TrustTheScan, breaks: "5", fault: "connections-killed", shows: "false at the end"},
	{defect: failpoint.OtherIDAgain, breaks: "4", test: "TestFold", pkg: "example.org/bridge/tests/fold", shows: "rest "},
	{defect: failpoint.ReadUncommitted, breaks: "2", fault: "connections-killed", shows: "rolled back"},
	{defect: failpoint.NoLedger, breaks: "2", fault: "connections-killed", shows: "lost"},
	{defect: failpoint.StaleState, breaks: "3", fault: "connections-killed", shows: "out of order", env: world.Env{"BRIDGE_STABILITY_WINDOW": "0s"}},
	{defect: failpoint.AlterOne, breaks: "4", fault: "connections-killed", shows: "wrong content"},
	{defect: failpoint.KafkaErrorIsAck, breaks: "1", fault: "bus-killed", bus: "kafka", shows: "lost"},
	{defect: failpoint.NATSErrorIsAck, breaks: "1", fault: "stream-full", bus: "nats", shows: "lost"},
	{defect: failpoint.EndIsAck, breaks: "1", fault: "bridge-terminated-without-bus", shows: "lost"},
	{defect: failpoint.NoFence, breaks: "6", test: "TestAZombieAtEachStep", pkg: "example.org/bridge/sink/kafka", shows: "the zombie "},
	{defect: failpoint.FenceAgain, breaks: "6", test: "TestAZombieAtEachStep", pkg: "example.org/bridge/sink/kafka", shows: "the zombie fences with <nil>"},
	{defect: failpoint.AbortInEpoch, breaks: "1", test: "TestALateBatchBehindAnAbort", pkg: "example.org/bridge/sink/kafka", shows: "which was not sent"},
	// In a trial the next poll reads what a broken result left out, and reconcile reads missing
	// entities by key.
	{defect: failpoint.BrokenReadIsWhole, breaks: "2 and 5", test: "TestConnectionKilledInMidResult", pkg: "example.org/bridge/source/mysql", shows: "want a transient one"},
	// A trial has no process that goes on behind its successor.
	{defect: failpoint.NoClaim, breaks: "6", test: "TestAZombieAtEachStepOfABatch", pkg: "example.org/bridge/sink/jetstream", shows: "the zombie's batch ends with"},
	// In a trial the next reconcile publishes what the second cursor missed.
	{defect: failpoint.ByStore, breaks: "3", test: "TestClaims", pkg: "example.org/bridge/internal/stream", shows: "the same state is news"},
	{defect: failpoint.KeepsClaims, breaks: "2", test: "TestClaims", pkg: "example.org/bridge/internal/stream", shows: "a shard has one batch at a time"},
	{defect: failpoint.AnyOrder, breaks: "3", test: "TestTheBusEndsAsTheTables", pkg: "example.org/bridge/internal/stream", shows: "seed "},
	{defect: failpoint.NoRepeat, breaks: "3", test: "TestTheBusEndsAsTheTables", pkg: "example.org/bridge/internal/stream", shows: "seed "},
	{defect: failpoint.NoReserve, breaks: "3", test: "TestTheBusEndsAsTheTables", pkg: "example.org/bridge/internal/stream", shows: "seed "},
	{defect: failpoint.NoLookBack, breaks: "2", test: "TestLookBack", pkg: "example.org/bridge/internal/shard", shows: "events, there are"},
}

// shown are the figures that show a defect.
var shown = map[string]func(*score) int{
	"lost":             func(s *score) int { return s.Lost },
	"out of order":     func(s *score) int { return s.Disorder },
	"rolled back":      func(s *score) int { return s.RolledBack },
	"wrong content":    func(s *score) int { return s.Wrong },
	"false at the end": func(s *score) int { return s.False },
}

// mutantTorture runs mutants, those whose names --fault matches, and shows that each of them is
// found.
func mutantTorture(t *testing.T) {
	names := namesWanted(t)
	wanted := slices.DeleteFunc(slices.Clone(hunts), func(h hunt) bool { return !names.MatchString(string(h.defect)) })
	if len(wanted) == 0 {
		t.Fatalf("no mutant is called %q: --fault takes one of %q", *tortureFault, failpoint.Defects)
	}
	m := &matrix{due: len(wanted)}
	t.Run("mutants", func(t *testing.T) {
		for i, bus := range []string{"kafka", "nats"} {
			t.Run(bus, func(t *testing.T) {
				t.Parallel()
				on := sync.OnceValue(func() *servers { return startServers(t, bus) })
				for n, h := range wanted {
					if h.bus == bus || h.bus == "" && n%2 == i {
						t.Run(string(h.defect), func(t *testing.T) { m.hunt(t, on, h) })
					}
				}
			})
		}
	})
	fmt.Fprintf(os.Stderr, "torture: %d of %d mutants found\n", len(m.Trials), len(wanted))
	if len(m.Trials) < len(wanted) {
		t.Errorf("%d of %d mutants were found", len(m.Trials), len(wanted))
	}
	if *tortureWrite == "" {
		return
	}
	found := make(map[failpoint.Defect]string)
	for i := range m.Trials {
		found[failpoint.Defect(m.Trials[i].Fault)] = time.Now().UTC().Format(time.DateOnly)
	}
	if err := writeDefects(filepath.Join(resultsFolder(), "defects.md"), found); err != nil {
		t.Error(err)
	}
}

// writeDefects writes the page of all defects, what finds them, and when that was seen last: on the
// dates of found, else as the page says.
func writeDefects(path string, found map[failpoint.Defect]string) error {
	former, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for line := range strings.Lines(string(former)) {
		if cells := strings.Split(strings.TrimSpace(line), " | "); len(cells) == 6 && strings.HasPrefix(line, "| `") {
			defect := failpoint.Defect(strings.Trim(cells[0], "| `"))
			found[defect] = cmp.Or(found[defect], strings.Trim(cells[5], " |"))
		}
	}
	list := filepath.Join(world.Root, "tests/faulty/failpoint/defects.go")
	parsed, err := parser.ParseFile(token.NewFileSet(), list, nil, parser.ParseComments)
	if err != nil {
		return err
	}
	what := make(map[failpoint.Defect]string)
	ast.Inspect(parsed, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && len(v.Values) == 1 {
			if value, ok := v.Values[0].(*ast.BasicLit); ok {
				_, says, _ := strings.Cut(strings.Join(strings.Fields(v.Doc.Text()), " "), " ")
				what[failpoint.Defect(strings.Trim(value.Value, `"`))] = says
			}
		}
		return true
	})
	var page strings.Builder
	page.WriteString("# Deliberate defects\n\n`make torture ARGS='--mutants --write docs'` builds the program with each of these defects (`tests/faulty`), fails\n" +
		"unless its test finds the defect, and writes this page. With `--fault` it updates only the dates of those defects. The\n" +
		"numbers are those of the [invariants](architecture.md#invariants).\n\n" +
		"| defect | what is wrong | breaks invariant | found by | as | seen last |\n|---|---|---|---|---|---|\n")
	for _, h := range hunts {
		by, as := "torture's `"+h.fault+"`", h.shows
		if h.test != "" {
			by, as = fmt.Sprintf("`%s` of `%s`", h.test, strings.TrimPrefix(h.pkg, "example.org/bridge/")), "it fails"
		}
		fmt.Fprintf(&page, "| `%s` | %s | %s | %s | %s | %s |\n", h.defect, strings.TrimSuffix(what[h.defect], "."), h.breaks, by, as, cmp.Or(found[h.defect], "not yet"))
	}
	return os.WriteFile(path, []byte(page.String()), 0o644)
}

// hunt fails the test unless the mutant is found. Chance has more than one throw.
func (m *matrix) hunt(t *testing.T, on func() *servers, h hunt) {
	if h.test != "" {
		m.found(h, h.test, h.failing(t))
		return
	}
	f := faultNamed(t, h.fault)
	prepare := f.prepare
	f.prepare = func(tr *trial) {
		if prepare != nil {
			prepare(tr)
		}
		tr.Env = tr.Env.With(h.env).With(world.Env{failpoint.MutantVariable: string(h.defect)})
	}
	var last score
	for range 4 {
		r := &recorder{TB: t}
		tr := on().trial(f)
		tr.crowded = h.crowded
		r.run(func() { tr.run(r, world.Faulty(t)) })
		last = tr.score
		last.Findings = append(last.Findings, r.findings...)
		if shown[h.shows](&last) > 0 {
			m.found(h, f.name, last)
			return
		}
	}
	t.Errorf("broke invariant %s, and nothing %s was found under %s; of the last trial: %+v %.600s", h.breaks, h.shows, f.name, last.Figures, last.Findings)
}

// found notes that a mutant was found, and where.
func (m *matrix) found(h hunt, where string, s score) {
	s.Fault = string(h.defect)
	m.add(s)
	m.progress("      broke invariant %s; found under %s", h.breaks, where)
}

// failing fails the test unless the test of h fails with the defect.
func (h hunt) failing(t *testing.T) (s score) {
	t.Helper()
	list, err := faulty.List(world.Root, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "test", "-count=1", "-overlay="+list, "-run=^"+h.test+"$", h.pkg)
	cmd.Env = append(os.Environ(), failpoint.MutantVariable+"="+string(h.defect), "BRIDGE_TEST_ALL=1")
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "--- FAIL: "+h.test) || !strings.Contains(string(out), h.shows) {
		t.Fatalf("broke invariant %s, and %s of %s does not fail with %q: %v: %.2000s", h.breaks, h.test, h.pkg, h.shows, err, out)
	}
	s.find("%.600s", out)
	return s
}

func TestEveryMutantIsHunted(t *testing.T) {
	var hunted []failpoint.Defect
	for _, h := range hunts {
		hunted = append(hunted, h.defect)
		if h.breaks == "" {
			t.Errorf("%s breaks no invariant", h.defect)
		}
		if h.test != "" {
			continue
		}
		faultNamed(t, h.fault)
		if shown[h.shows] == nil {
			t.Errorf("%s is to show %q, which no score has", h.defect, h.shows)
		}
	}
	page := contents(t, filepath.Join(world.Root, "docs/defects.md"))
	again := filepath.Join(t.TempDir(), "defects.md")
	if err := errors.Join(os.WriteFile(again, page, 0o600), writeDefects(again, make(map[failpoint.Defect]string))); err != nil || !bytes.Equal(contents(t, again), page) {
		t.Errorf("docs/defects.md is not what the hunts make: make torture ARGS='--mutants --write docs' (%v)", err)
	}
	slices.Sort(hunted)
	if want := slices.Sorted(slices.Values(failpoint.Defects)); !slices.Equal(hunted, want) {
		t.Errorf("the hunts are for %q, want one for each of %q", hunted, want)
	}
}

func contents(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func faultNamed(t *testing.T, name string) fault {
	t.Helper()
	list := allFaults()
	i := slices.IndexFunc(list, func(f fault) bool { return f.name == name })
	if i < 0 {
		t.Fatalf("unknown fault %q", name)
	}
	return list[i]
}

// recorder is a test that notes what is wrong instead of failing. What cleans up after it runs at
// the end of run.
type recorder struct {
	testing.TB
	mu       sync.Mutex
	findings []string
	cleanups []func()
}

// run runs do in a goroutine that Fatal ends.
func (r *recorder) run(do func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			for _, clean := range slices.Backward(r.cleanups) {
				clean()
			}
		}()
		do()
	}()
	<-done
}

func (r *recorder) Error(args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.findings = append(r.findings, fmt.Sprint(args...))
}

func (r *recorder) Cleanup(f func())             { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Errorf(form string, a ...any) { r.Error(fmt.Sprintf(form, a...)) }
func (r *recorder) Fatal(args ...any)            { r.Error(args...); runtime.Goexit() }
func (r *recorder) Fatalf(form string, a ...any) { r.Errorf(form, a...); runtime.Goexit() }
func (r *recorder) FailNow()                     { runtime.Goexit() }
func (r *recorder) Failed() bool                 { r.mu.Lock(); defer r.mu.Unlock(); return len(r.findings) > 0 }
func (r *recorder) Log(...any)                   {}
func (r *recorder) Logf(string, ...any)          {}
