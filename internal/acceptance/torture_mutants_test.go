package acceptance

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// hunt is how a mutant is looked for.
type hunt struct {
	mutant string
	// fault is the one that trials have, on a bus, empty for either. shows is the figure of the score that has to show the defect, as the matrix
	// names it: that something else is found does not count.
	fault, bus, shows string
	// env is added to the program's environment, crowded has the load change few entities, so that what happens to one happens again soon.
	env     env
	crowded bool
	// test is one of a package, in place of trials, where those cannot show the defect; shows is then what it has to say when it fails.
	test, pkg string
}

var hunts = []hunt{
	{mutant: "drop-one", fault: "connections-killed", shows: "lost"},
	// With the window two states of an entity are seldom in batches that follow one another.
	{mutant: "a-batch-late", fault: "connections-killed", shows: "out of order", crowded: true, env: env{"BRIDGE_STABILITY_WINDOW": "0s"}},
	{mutant: "save-before-publish", fault: "bridge-killed-without-bus", shows: "lost"},
	{mutant: "no-resend", fault: "bridge-killed-without-bus", shows: "out of order"},
	{mutant: "trust-the-scan", fault: "connections-killed", shows: "false at the end"},
	{mutant: "other-id-again", fault: "killed-before-save", bus: "kafka", shows: "other id"},
	{mutant: "read-uncommitted", fault: "connections-killed", shows: "rolled back"},
	{mutant: "no-ledger", fault: "connections-killed", shows: "lost"},
	{mutant: "stale-state", fault: "connections-killed", shows: "out of order", env: env{"BRIDGE_STABILITY_WINDOW": "0s"}},
	{mutant: "alter-one", fault: "connections-killed", shows: "wrong content"},
	{mutant: "kafka-error-is-ack", fault: "bus-killed", bus: "kafka", shows: "lost"},
	{mutant: "nats-error-is-ack", fault: "stream-full", bus: "nats", shows: "lost"},
	{mutant: "end-is-ack", fault: "bridge-terminated-without-bus", shows: "lost"},
	{mutant: "saves-late", fault: "bridge-killed", bus: "kafka", shows: "repeated"},
	// In a trial the next poll reads what a broken result has left out, and what a scan did not find is asked for by key.
	{mutant: "broken-read-is-whole", test: "TestConnectionKilledInMidResult", pkg: "bridge/source/mysql", shows: "want a transient one"},
	// In a trial the next reconcile publishes what the second cursor has missed.
	{mutant: "no-look-back", test: "TestLookBack", pkg: "bridge/internal/pipeline", shows: "events, there are"},
}

// shown are the figures that show a defect. Of repeats those count that may not be.
var shown = map[string]func(*score) int{
	"lost":             func(s *score) int { return s.Lost },
	"other id":         func(s *score) int { return s.OtherID },
	"out of order":     func(s *score) int { return s.Disorder },
	"rolled back":      func(s *score) int { return s.RolledBack },
	"wrong content":    func(s *score) int { return s.Wrong },
	"false at the end": func(s *score) int { return s.False },
	"repeated":         func(s *score) int { return s.Repeated - s.Bound },
}

// huntsWanted returns the hunts of the mutants whose names --fault matches.
func huntsWanted(t *testing.T) []hunt {
	t.Helper()
	names := namesWanted(t)
	wanted := slices.DeleteFunc(slices.Clone(hunts), func(h hunt) bool { return !names.MatchString(h.mutant) })
	if len(wanted) == 0 {
		var known []string
		for _, h := range hunts {
			known = append(known, h.mutant)
		}
		t.Fatalf("no mutant is called %q: --fault takes one of %s", *tortureFault, strings.Join(known, ", "))
	}
	return wanted
}

// mutantTorture builds the program with one deliberate defect after the other and shows that each of them is found, or each whose name
// --fault matches.
func mutantTorture(t *testing.T) {
	wanted := huntsWanted(t)
	m := &matrix{due: len(wanted)}
	t.Run("mutants", func(t *testing.T) {
		for i, bus := range []string{"kafka", "nats"} {
			var mine []hunt
			for n, h := range wanted {
				if h.bus == bus || h.bus == "" && n%2 == i {
					mine = append(mine, h)
				}
			}
			if len(mine) == 0 {
				continue
			}
			t.Run(bus, func(t *testing.T) {
				t.Parallel()
				l := newLane(t, bus)
				for _, h := range mine {
					t.Run(h.mutant, func(t *testing.T) { m.hunt(t, l, h) })
				}
			})
		}
	})
	fmt.Fprintf(os.Stderr, "torture: %d of %d mutants found\n", len(m.Trials), len(wanted))
	if len(m.Trials) < len(wanted) {
		t.Errorf("%d of %d mutants were found", len(m.Trials), len(wanted))
	}
}

// hunt fails the test unless the mutant is found. Chance has more than one throw.
func (m *matrix) hunt(t *testing.T, l *lane, h hunt) {
	mutant := mutantNamed(t, h.mutant)
	if h.test != "" {
		m.found(mutant, h.test, mutant.failing(t, h))
		return
	}
	f := faultNamed(t, h.fault)
	prepare := f.prepare
	f.prepare = func(tr *trial) {
		if prepare != nil {
			prepare(tr)
		}
		tags := []string(nil)
		if tr.points != nil {
			tags = []string{failpointsTag}
		}
		tr.daemon.path = mutant.build(tr.t, tags...)
		tr.daemon.env = tr.daemon.env.with(h.env)
	}
	var last score
	for range 4 {
		r := &recorder{TB: t}
		tr := l.trial(f)
		tr.crowded = h.crowded
		r.run(func() { tr.suffer(r, binary(t, false)) })
		last = tr.score
		last.Findings = append(last.Findings, r.findings...)
		if shown[h.shows](&last) > 0 {
			m.found(mutant, f.name, last)
			return
		}
	}
	t.Errorf("broke %s, and nothing %s was found under %s; of the last trial: %s %.600s", mutant.breaks, h.shows, f.name, last, last.Findings)
}

// found notes that a mutant was found, and where.
func (m *matrix) found(mutant mutant, where string, s score) {
	s.Fault = mutant.name
	m.add(s)
	m.progress("      broke %s; found under %s", mutant.breaks, where)
}

// failing fails the test unless the test of a package that h names fails with the mutant.
func (mutant mutant) failing(t *testing.T, h hunt) (s score) {
	t.Helper()
	overlay, err := writeOverlay(t.TempDir(), mutant.edits)
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("go", "test", "-count=1", "-overlay="+overlay, "-run=^"+h.test+"$", h.pkg).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "--- FAIL: "+h.test) || !strings.Contains(string(out), h.shows) {
		t.Fatalf("broke %s, and %s of %s does not fail with %q: %v: %.2000s", mutant.breaks, h.test, h.pkg, h.shows, err, out)
	}
	s.find("%.600s", out)
	return s
}

func TestEveryMutantIsHunted(t *testing.T) {
	hunted := make(map[string]bool)
	for _, h := range hunts {
		hunted[h.mutant] = true
		mutantNamed(t, h.mutant)
		if h.test != "" {
			continue
		}
		faultNamed(t, h.fault)
		if shown[h.shows] == nil {
			t.Errorf("%s is to show %q, which no score has", h.mutant, h.shows)
		}
	}
	for _, m := range mutants {
		if !hunted[m.name] {
			t.Errorf("nobody looks for %s", m.name)
		}
	}
}

func mutantNamed(t *testing.T, name string) mutant {
	t.Helper()
	i := slices.IndexFunc(mutants, func(m mutant) bool { return m.name == name })
	if i < 0 {
		t.Fatalf("there is no mutant %q", name)
	}
	return mutants[i]
}

func faultNamed(t *testing.T, name string) fault {
	t.Helper()
	list := allFaults()
	i := slices.IndexFunc(list, func(f fault) bool { return f.name == name })
	if i < 0 {
		t.Fatalf("there is no fault %q", name)
	}
	return list[i]
}
