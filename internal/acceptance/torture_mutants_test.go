package acceptance

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
)

// hunt is under which fault a mutant is looked for, and on which bus, empty for either.
type hunt struct {
	mutant, fault, bus string
	// atOnce has rows published as soon as they are read.
	atOnce bool
}

var hunts = []hunt{
	{mutant: "drop-one", fault: "connections-killed"},
	{mutant: "a-batch-late", fault: "connections-killed"},
	{mutant: "save-before-publish", fault: "bridge-killed-without-bus"},
	{mutant: "no-resend", fault: "bridge-killed-without-bus"},
	{mutant: "trust-the-scan", fault: "connections-killed"},
	{mutant: "other-id-again", fault: "bridge-killed", bus: "kafka"},
	{mutant: "read-uncommitted", fault: "connections-killed"},
	{mutant: "no-ledger", fault: "connections-killed"},
	{mutant: "stale-state", fault: "connections-killed", atOnce: true},
	{mutant: "alter-one", fault: "connections-killed"},
	{mutant: "kafka-error-is-ack", fault: "bus-killed", bus: "kafka"},
	{mutant: "nats-error-is-ack", fault: "stream-full", bus: "nats"},
	{mutant: "end-is-ack", fault: "bridge-terminated-without-bus"},
}

// mutantTorture builds the program with one deliberate defect after the other and shows that trials find each of them, or each whose
// name --fault matches.
func mutantTorture(t *testing.T) {
	names := namesWanted(t)
	wanted := slices.DeleteFunc(slices.Clone(hunts), func(h hunt) bool { return !names.MatchString(h.mutant) })
	m := &matrix{due: len(wanted)}
	t.Run("mutants", func(t *testing.T) {
		for i, bus := range []string{"kafka", "nats"} {
			t.Run(bus, func(t *testing.T) {
				t.Parallel()
				l := newLane(t, bus)
				for n, h := range wanted {
					if h.bus == bus || h.bus == "" && n%2 == i {
						t.Run(h.mutant, func(t *testing.T) { m.hunt(t, l, h) })
					}
				}
			})
		}
	})
	fmt.Fprintf(os.Stderr, "torture: %d of %d mutants found\n", len(m.Trials), len(wanted))
	if len(m.Trials) < len(wanted) {
		t.Errorf("%d of %d mutants were found", len(m.Trials), len(wanted))
	}
}

// hunt fails the test unless trials of the mutant show that something is wrong. Chance has more than one throw.
func (m *matrix) hunt(t *testing.T, l *lane, h hunt) {
	mutant, f := mutantNamed(t, h.mutant), faultNamed(t, h.fault)
	path, prepare := mutant.build(t), f.prepare
	f.prepare = func(tr *trial) {
		if prepare != nil {
			prepare(tr)
		}
		if h.atOnce {
			tr.env["BRIDGE_STABILITY_WINDOW"] = "0s"
		}
	}
	for range 4 {
		r := &recorder{TB: t}
		tr := l.trial(f)
		r.run(func() { tr.suffer(r, path) })
		s := tr.score
		if findings := slices.Concat(s.Findings, r.findings); len(findings) > 0 {
			s.Fault, s.Findings = mutant.name, findings
			m.add(s)
			m.progress("      broke %s; found under %s", mutant.breaks, f.name)
			return
		}
	}
	t.Errorf("broke %s, and nothing was found under %s", mutant.breaks, f.name)
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

// recorder is a test that notes what is wrong instead of failing. What cleans up after it runs at the end of run.
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

func (r *recorder) note(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.findings = append(r.findings, text)
}

func (r *recorder) Cleanup(f func())             { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Error(args ...any)            { r.note(fmt.Sprint(args...)) }
func (r *recorder) Errorf(form string, a ...any) { r.note(fmt.Sprintf(form, a...)) }
func (r *recorder) Fatal(args ...any)            { r.note(fmt.Sprint(args...)); runtime.Goexit() }
func (r *recorder) Fatalf(form string, a ...any) { r.note(fmt.Sprintf(form, a...)); runtime.Goexit() }
func (r *recorder) FailNow()                     { runtime.Goexit() }
func (r *recorder) Failed() bool                 { r.mu.Lock(); defer r.mu.Unlock(); return len(r.findings) > 0 }
func (r *recorder) Log(...any)                   {}
func (r *recorder) Logf(string, ...any)          {}
