package acceptance

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
)

// hunts says under which fault each mutant is looked for, and on which bus, empty for either.
var hunts = []struct{ mutant, fault, bus string }{
	{"drop-one", "connections-killed", ""},
	{"a-batch-late", "connections-killed", ""},
	{"save-before-publish", "bridge-killed-without-bus", ""},
	{"no-resend", "bridge-killed-without-bus", ""},
	{"trust-the-scan", "connections-killed", ""},
	{"other-id-again", "bridge-killed", "kafka"},
	{"read-uncommitted", "connections-killed", ""},
	{"no-ledger", "connections-killed", ""},
	{"stale-state", "network-latency", ""},
	{"alter-one", "connections-killed", ""},
	{"kafka-error-is-ack", "bus-killed", "kafka"},
	{"nats-error-is-ack", "bus-killed", "nats"},
	{"end-is-ack", "bridge-terminated-without-bus", ""},
}

// mutantTorture builds the program with one deliberate defect after the other and shows that trials find each of them.
func mutantTorture(t *testing.T) {
	m := &matrix{due: len(hunts)}
	t.Run("mutants", func(t *testing.T) {
		for i, bus := range []string{"kafka", "nats"} {
			t.Run(bus, func(t *testing.T) {
				t.Parallel()
				l := newLane(t, bus)
				for n, hunt := range hunts {
					if hunt.bus == bus || hunt.bus == "" && n%2 == i {
						t.Run(hunt.mutant, func(t *testing.T) { m.hunt(t, l, mutantNamed(t, hunt.mutant), faultNamed(t, hunt.fault)) })
					}
				}
			})
		}
	})
	fmt.Fprintf(os.Stderr, "torture: %d of %d mutants found\n", len(m.Trials), len(hunts))
	if len(m.Trials) < len(hunts) {
		t.Errorf("%d of %d mutants were found", len(m.Trials), len(hunts))
	}
}

// hunt fails the test unless trials of the mutant show that something is wrong. Chance has more than one throw.
func (m *matrix) hunt(t *testing.T, l *lane, mutant mutant, f fault) {
	path := mutant.build(t)
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
