package sinktest

import (
	"errors"
	"fmt"
	"testing"

	"bridge/sink"
)

// publishMarks publishes several batches and returns the newest mark of each place.
func publishMarks(t *testing.T, f Fixture) map[string]sink.Mark {
	t.Helper()
	marks := make(map[string]sink.Mark)
	for round := range 4 {
		for i, d := range f.Destinations {
			out := mustPublish(t, f.Sink, batch(d, fmt.Sprintf("marks-%d-%d", round, i), 100, 20))
			if len(out.Marks) == 0 {
				t.Fatal("an acknowledged batch has no marks")
			}
			for _, mark := range out.Marks {
				last, known := marks[mark.Place]
				if known && (mark.Last <= last.Last || mark.Incarnation != last.Incarnation) {
					t.Fatalf("the mark after %+v is %+v", last, mark)
				}
				marks[mark.Place] = mark
			}
		}
	}
	return marks
}

func marksAscend(t *testing.T, f Fixture) {
	var all []sink.Mark
	for _, mark := range publishMarks(t, f) {
		all = append(all, mark)
	}
	if err := f.Sink.Verify(deadline(t), all); err != nil {
		t.Errorf("Verify refuses the newest marks: %v", err)
	}
	for i := range all {
		all[i].Last--
	}
	if err := f.Sink.Verify(deadline(t), all); err != nil {
		t.Errorf("Verify refuses marks that the bus has passed: %v", err)
	}
}

func marksBehind(t *testing.T, f Fixture) {
	for _, mark := range publishMarks(t, f) {
		ahead := mark
		ahead.Last += 1000
		if err := f.Sink.Verify(deadline(t), []sink.Mark{ahead}); !errors.Is(err, sink.ErrBehind) {
			t.Errorf("Verify of a mark beyond the end of %s returns %v, want ErrBehind", mark.Place, err)
		}
		next := mark
		next.Last++
		if err := f.Sink.Verify(deadline(t), []sink.Mark{next}); !errors.Is(err, sink.ErrBehind) {
			t.Errorf("Verify of a mark one beyond the end of %s returns %v, want ErrBehind", mark.Place, err)
		}
		if mark.Incarnation == "" {
			continue
		}
		other := mark
		other.Incarnation += "0"
		if err := f.Sink.Verify(deadline(t), []sink.Mark{other}); !errors.Is(err, sink.ErrBehind) {
			t.Errorf("Verify of another incarnation of %s returns %v, want ErrBehind", mark.Place, err)
		}
	}
}

func marksWiped(t *testing.T, f Fixture) {
	var all []sink.Mark
	for _, mark := range publishMarks(t, f) {
		all = append(all, mark)
	}
	f.Wipe(t)
	if err := f.Sink.Verify(deadline(t), all); !errors.Is(err, sink.ErrBehind) {
		t.Errorf("Verify of a bus made anew returns %v, want ErrBehind", err)
	}
}
