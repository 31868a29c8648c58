package catchup_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"bridge/sink"
	"bridge/tests/testall"
)

// mutants break one thing each, by what lies between the code and its surroundings.
const (
	none            = ""
	offsetTooHigh   = "an offset is saved beyond what was read"
	skipsOne        = "a message is skipped"
	inFlightIgnored = "a reader does not stop before what is in flight"
	changesLost     = "an offset is saved without what was read up to it"
)

// reader is the bus as a process sees it.
type reader struct {
	*bus
	w *world
}

func (w *world) reader() sink.Reader { return &reader{w.bus, w} }

func (r *reader) Read(ctx context.Context, span sink.Span, each func(*sink.Stored) error) (uint64, error) {
	single := span.To == span.From+1
	skipped := r.w.mutant != skipsOne
	return r.bus.Read(ctx, span, func(m *sink.Stored) error {
		if !skipped && !single && m.Offset%5 == 3 && m.Header(sink.HeaderStream) != nil {
			skipped = true
			return nil
		}
		return each(m)
	})
}

// life is one random life of a world. It returns what does not hold.
func life(t *testing.T, seed uint64, mutant string) (faults []string) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w := newWorld(seed, mutant)
		for range 40 + int(seed%100) {
			w.step(ctx)
			if len(w.faults) > 0 {
				break
			}
		}
		if len(w.faults) == 0 {
			w.finish(ctx)
		}
		for len(w.running) > 0 {
			w.kill(w.running[0])
		}
		if faults = w.faults; len(faults) > 0 && mutant == none {
			t.Log(strings.Join(slices.Compact(w.notes), "\n"))
		}
	})
	return faults
}

// TestCatchUpHolds runs random lives: what bridge reads back is what it would have known.
func TestCatchUpHolds(t *testing.T) {
	for seed := range uint64(testall.Cases(150, 5000)) {
		if faults := life(t, seed, none); len(faults) > 0 {
			t.Fatalf("seed %d: %v", seed, faults)
		}
	}
}

// TestMutantsAreFound shows that TestCatchUpHolds can fail. The first ones are found within a few
// dozen lives. The search for the last one, which takes thousands, begins shortly before a seed
// that finds it.
func TestMutantsAreFound(t *testing.T) {
	mutants := []struct {
		name string
		from uint64
	}{{skipsOne, 0}, {inFlightIgnored, 0}, {changesLost, 0}, {offsetTooHigh, 2500}}
	for _, mutant := range mutants[:testall.Cases(3, len(mutants))] {
		t.Run(mutant.name, func(t *testing.T) {
			for seed := mutant.from; seed < mutant.from+5_000; seed++ {
				if faults := life(t, seed, mutant.name); len(faults) > 0 {
					t.Logf("seed %d: %s", seed, faults[0])
					return
				}
			}
			t.Error("not found")
		})
	}
}
