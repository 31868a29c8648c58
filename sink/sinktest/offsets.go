package sinktest

import (
	"errors"
	"fmt"
	"testing"

	"bridge/sink"
)

// publishOffsets publishes several batches and returns the newest offset of each TP.
func publishOffsets(t *testing.T, f Fixture) map[string]sink.Offset {
	t.Helper()
	offsets := make(map[string]sink.Offset)
	for round := range 4 {
		for i, d := range f.Destinations {
			out := mustPublish(t, f.Sink, batch(d, fmt.Sprintf("offsets-%d-%d", round, i), 100, 20))
			if len(out.Offsets) == 0 {
				t.Fatal("an acknowledged batch has no offsets")
			}
			for _, offset := range out.Offsets {
				last, known := offsets[offset.TP]
				if known && (offset.Last <= last.Last || offset.Incarnation != last.Incarnation) {
					t.Fatalf("the offset after %+v is %+v", last, offset)
				}
				offsets[offset.TP] = offset
			}
		}
	}
	return offsets
}

func offsetsAscend(t *testing.T, f Fixture) {
	var all []sink.Offset
	for _, offset := range publishOffsets(t, f) {
		all = append(all, offset)
	}
	if err := f.Sink.Verify(deadline(t), all); err != nil {
		t.Errorf("Verify refuses the newest offsets: %v", err)
	}
	for i := range all {
		all[i].Last, all[i].ID = all[i].Last-1, ""
	}
	if err := f.Sink.Verify(deadline(t), all); err != nil {
		t.Errorf("Verify refuses offsets that the bus has passed: %v", err)
	}
}

func offsetsBehind(t *testing.T, f Fixture) {
	for _, offset := range publishOffsets(t, f) {
		ahead := offset
		ahead.Last += 1000
		if err := f.Sink.Verify(deadline(t), []sink.Offset{ahead}); !errors.Is(err, sink.ErrBehind) {
			t.Errorf("Verify of an offset beyond the end of %s returns %v, want ErrBehind", offset.TP, err)
		}
		next := offset
		next.Last++
		if err := f.Sink.Verify(deadline(t), []sink.Offset{next}); !errors.Is(err, sink.ErrBehind) {
			t.Errorf("Verify of an offset one beyond the end of %s returns %v, want ErrBehind", offset.TP, err)
		}
		if offset.Incarnation == "" {
			continue
		}
		other := offset
		other.Incarnation += "0"
		if err := f.Sink.Verify(deadline(t), []sink.Offset{other}); !errors.Is(err, sink.ErrBehind) {
			t.Errorf("Verify of another incarnation of %s returns %v, want ErrBehind", offset.TP, err)
		}
	}
}

// offsetsOfOtherMessages: what a TP holds at an offset is the message that it acknowledged.
func offsetsOfOtherMessages(t *testing.T, f Fixture) {
	for _, offset := range publishOffsets(t, f) {
		if offset.ID == "" {
			t.Errorf("the offset %+v does not name its message", offset)
		}
		other := offset
		other.ID += "0"
		if err := f.Sink.Verify(deadline(t), []sink.Offset{other}); !errors.Is(err, sink.ErrBehind) {
			t.Errorf("Verify of another message at the offset of %s returns %v, want ErrBehind", offset.TP, err)
		}
	}
}

func offsetsWiped(t *testing.T, f Fixture) {
	var all []sink.Offset
	for _, offset := range publishOffsets(t, f) {
		all = append(all, offset)
	}
	f.Wipe(t)
	if err := f.Sink.Verify(deadline(t), all); !errors.Is(err, sink.ErrBehind) {
		t.Errorf("Verify of a bus created again returns %v, want ErrBehind", err)
	}
}
