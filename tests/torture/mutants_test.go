package torture

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"example.org/bridge/tests/faulty"
	"example.org/bridge/tests/faulty/failpoint"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/world"
)

type hunt struct {
	defect string
	// what the program does with it, as docs/defects.md says it.
	what string
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
	{defect: "drop-one", what: "drops one message of a thousand and counts it as published",
		breaks: "2", fault: "connections-killed", shows: "lost"},
	// With the window two states of an entity are seldom in batches that follow one another.
	{defect: "a-batch-late", what: "sends the last message of a batch after the next batch",
		breaks: "3", fault: "connections-killed", shows: "out of order", crowded: true, env: world.Env{"BRIDGE_STABILITY_WINDOW": "0s"}},
	// What is saved too early is durable at the end of the process.
	{defect: "save-before-publish", what: "saves the position after a batch before it sends the batch",
		breaks: "1", fault: "bridge-terminated-without-bus", shows: "lost"},
	{defect: "skip-catch-up", what: "believes the store and reads nothing from the bus",
		breaks: "6", fault: "bridge-killed", shows: "out of order", crowded: true},
	{defect: "offset-ahead", what: "saves offsets that are 40 messages ahead of what the store has",
		breaks: "6", test: "TestFold", pkg: "tests/fold", shows: "rest "},
	{defect: "skip-one", what: "leaves out one message of ten that catch-up reads",
		breaks: "6", test: "TestFold", pkg: "tests/fold", shows: "rest "},
	{defect: "seq-twice", what: "gives the first message of a batch the stamp of the message before it",
		breaks: "3", test: "TestFold", pkg: "tests/fold", shows: "rest "},
	{defect: "older-wins", what: "applies a message of another topic-partition that is older than the entry",
		breaks: "3", test: "TestFold", pkg: "tests/fold", shows: "rest "},
	{defect: "moved-by-shard", what: "publishes a row from a shard while the entity lives in another table",
		breaks: "3", test: "TestFold", pkg: "tests/fold", shows: "rest "},
	{defect: "trust-the-scan", what: "makes every read by key find nothing, so that rows that a scan missed are deleted",
		breaks: "5", fault: "connections-killed", shows: "false at the end"},
	{defect: "other-id-again", what: "gives an event that is encoded again a second later another meta.id",
		breaks: "4", test: "TestFold", pkg: "tests/fold", shows: "rest "},
	{defect: "read-uncommitted", what: "reads rows of transactions that have not committed",
		breaks: "2", fault: "connections-killed", shows: "rolled back"},
	{defect: "no-ledger", what: "forgets an id that commits below the position",
		breaks: "2", fault: "connections-killed", shows: "lost"},
	{defect: "stale-state", what: "makes reconcile publish a row as its scan read it 2 s ago",
		breaks: "3", fault: "connections-killed", shows: "out of order", env: world.Env{"BRIDGE_STABILITY_WINDOW": "0s"}},
	{defect: "alter-one", what: "changes a value in one event of a thousand",
		breaks: "4", fault: "connections-killed", shows: "wrong content"},
	{defect: "kafka-error-is-ack", what: "counts a batch as acknowledged that Kafka refused or did not answer",
		breaks: "1", fault: "bus-killed", bus: "kafka", shows: "lost"},
	{defect: "nats-error-is-ack", what: "counts a message as acknowledged that JetStream refused or did not answer",
		breaks: "1", fault: "stream-full", bus: "nats", shows: "lost"},
	{defect: "end-is-ack", what: "counts messages in flight at a cancelled publish as acknowledged",
		breaks: "1", fault: "bridge-terminated-without-bus", shows: "lost"},
	{defect: "no-fence", what: "reads the bus without initialising the producer first, at a start and after an unknown outcome",
		breaks: "6", test: "TestAZombieAtEachStep", pkg: "sink/kafka", shows: "the zombie "},
	{defect: "fence-again", what: "makes a superseded process take over again",
		breaks: "6", test: "TestAZombieAtEachStep", pkg: "sink/kafka", shows: "the zombie fences with <nil>"},
	{defect: "abort-in-epoch", what: "aborts a transaction without a new epoch though a batch had no answer",
		breaks: "1", test: "TestALateBatchBehindAnAbort", pkg: "sink/kafka", shows: "which was not sent"},
	// In a trial the next poll reads what a broken result left out, and reconcile reads missing
	// entities by key.
	{defect: "broken-read-is-whole", what: "accepts a result that breaks off in the middle as the whole result",
		breaks: "2 and 5", test: "TestConnectionKilledInMidResult", pkg: "source/mysql", shows: "want a transient one"},
	// A trial has no process that goes on behind its successor.
	{defect: "no-claim", what: "publishes atomic batches to JetStream without the condition on the claim",
		breaks: "6", test: "TestAZombieAtEachStepOfABatch", pkg: "sink/jetstream", shows: "the zombie's batch ends with"},
	// In a trial the next reconcile publishes what the second cursor missed.
	{defect: "by-store", what: "makes the view decide by the store and ignore claims",
		breaks: "3", test: "TestClaims", pkg: "internal/stream", shows: "the same state is news"},
	{defect: "keeps-claims", what: "makes the view keep released claims",
		breaks: "2", test: "TestClaims", pkg: "internal/stream", shows: "a shard has one batch at a time"},
	{defect: "any-order", what: "lets an acknowledged message replace a newer one in the view",
		breaks: "3", test: "TestTheBusEndsAsTheTables", pkg: "internal/stream", shows: "seed "},
	{defect: "no-repeat", what: "makes the view use an old lookup of an entry that has changed since",
		breaks: "3", test: "TestTheBusEndsAsTheTables", pkg: "internal/stream", shows: "seed "},
	{defect: "no-reserve", what: "makes the view skip the reservation of an entity that moves",
		breaks: "3", test: "TestTheBusEndsAsTheTables", pkg: "internal/stream", shows: "seed "},
	{defect: "no-look-back", what: "misses changes that commit behind the second cursor",
		breaks: "2", test: "TestLookBack", pkg: "internal/shard", shows: "events, there are"},
}

var shown = map[string]func(*score) int{
	"lost":             func(s *score) int { return s.Lost },
	"out of order":     func(s *score) int { return s.Disorder },
	"rolled back":      func(s *score) int { return s.RolledBack },
	"wrong content":    func(s *score) int { return s.Wrong },
	"false at the end": func(s *score) int { return s.False },
}

// It runs those whose names --fault matches.
func mutantTorture(t *testing.T) {
	names := namesWanted(t)
	wanted := slices.DeleteFunc(slices.Clone(hunts), func(h hunt) bool { return !names.MatchString(h.defect) })
	if len(wanted) == 0 {
		t.Fatalf("no mutant is called %q: see docs/defects.md for their names", *tortureFault)
	}
	m := &matrix{due: len(wanted)}
	t.Run("mutants", func(t *testing.T) {
		for i, bus := range []string{"kafka", "nats"} {
			t.Run(bus, func(t *testing.T) {
				t.Parallel()
				on := sync.OnceValue(func() *servers { return startServers(t, bus) })
				for n, h := range wanted {
					if h.bus == bus || h.bus == "" && n%2 == i {
						t.Run(h.defect, func(t *testing.T) { m.hunt(t, on, h) })
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
	found := make(map[string]string)
	for i := range m.Trials {
		found[m.Trials[i].Fault] = time.Now().UTC().Format(time.DateOnly)
	}
	must.OK(t, writeDefects(filepath.Join(resultsFolder(), "defects.md"), found))
}

// writeDefects writes the page of all defects, what finds them, and when that was seen last: on the
// dates of found, else as the page says.
func writeDefects(path string, found map[string]string) error {
	former, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for line := range strings.Lines(string(former)) {
		if cells := strings.Split(strings.TrimSpace(line), " | "); len(cells) == 6 && strings.HasPrefix(line, "| `") {
			defect := strings.Trim(cells[0], "| `")
			found[defect] = cmp.Or(found[defect], strings.Trim(cells[5], " |"))
		}
	}
	var page strings.Builder
	page.WriteString("# Deliberate defects\n\n`make torture ARGS='--mutants --write docs'` builds the program with each of these defects (`tests/faulty`), fails\n" +
		"unless its test finds the defect, and writes this page. With `--fault` it updates only the dates of those defects. The\n" +
		"numbers are those of the [invariants](architecture.md#invariants).\n\n" +
		"| defect | what is wrong | breaks invariant | found by | as | seen last |\n|---|---|---|---|---|---|\n")
	for _, h := range hunts {
		by, as := "torture's `"+h.fault+"`", h.shows
		if h.test != "" {
			by, as = fmt.Sprintf("`%s` of `%s`", h.test, h.pkg), "it fails"
		}
		fmt.Fprintf(&page, "| `%s` | %s | %s | %s | %s | %s |\n", h.defect, h.what, h.breaks, by, as, cmp.Or(found[h.defect], "not yet"))
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
		tr.Env = tr.Env.With(h.env).With(world.Env{failpoint.MutantVariable: h.defect})
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

func (m *matrix) found(h hunt, where string, s score) {
	s.Fault = h.defect
	m.add(s)
	m.progress("      broke invariant %s; found under %s", h.breaks, where)
}

// failing fails the test unless the test of h fails with the defect.
func (h hunt) failing(t *testing.T) (s score) {
	t.Helper()
	list := must.Get(faulty.List(testenv.Root(), t.TempDir()))(t)
	cmd := exec.Command("go", "test", "-count=1", "-overlay="+list, "-run=^"+h.test+"$", "example.org/bridge/"+h.pkg)
	cmd.Env = append(os.Environ(), failpoint.MutantVariable+"="+h.defect, "BRIDGE_TEST_ALL=1")
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "--- FAIL: "+h.test) || !strings.Contains(string(out), h.shows) {
		t.Fatalf("broke invariant %s, and %s of %s does not fail with %q: %v: %.2000s", h.breaks, h.test, h.pkg, h.shows, err, out)
	}
	s.Find("%.600s", out)
	return s
}

func TestEveryMutantIsHunted(t *testing.T) {
	testall.Beside(t)
	var hunted []string
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
	page := contents(t, filepath.Join(testenv.Root(), "docs/defects.md"))
	again := filepath.Join(t.TempDir(), "defects.md")
	if err := errors.Join(os.WriteFile(again, page, 0o600), writeDefects(again, make(map[string]string))); err != nil || !bytes.Equal(contents(t, again), page) {
		t.Errorf("docs/defects.md is not what the hunts make: make torture ARGS='--mutants --write docs' (%v)", err)
	}
	slices.Sort(hunted)
	var all []string
	for _, file := range []string{"edits.diff", "added/internal/shard/defects.go.txt", "added/reconcile/defects.go.txt"} {
		for _, found := range regexp.MustCompile(`Mutant\("(.*?)"\)`).FindAllSubmatch(contents(t, filepath.Join(testenv.Root(), "tests/faulty", file)), -1) {
			all = append(all, string(found[1]))
		}
	}
	slices.Sort(all)
	if all = slices.Compact(all); !slices.Equal(hunted, all) {
		t.Errorf("the hunts are for %q, want one for each of %q", hunted, all)
	}
}

func contents(t *testing.T, file string) []byte {
	t.Helper()
	return must.Get(os.ReadFile(file))(t)
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
func (r *recorder) Failed() bool                 { r.mu.Lock(); defer r.mu.Unlock(); return len(r.findings) > 0 }
func (r *recorder) Log(...any)                   {}
func (r *recorder) Logf(string, ...any)          {}
