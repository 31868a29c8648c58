package sinktest

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"testing"

	"bridge/sink"
)

// recall returns what a sink recalls behind marks, by id and in order, and where that ends.
func recall(t *testing.T, s sink.Sink, marks []sink.Offset) (ids []string, told map[string]sink.Message, ends []sink.Offset) {
	t.Helper()
	told = make(map[string]sink.Message)
	ends, err := s.(sink.Recaller).Recall(deadline(t), marks, func(m *sink.Message) error {
		kept := *m
		kept.Key, kept.Value = bytes.Clone(m.Key), bytes.Clone(m.Value)
		ids, told[m.ID] = append(ids, m.ID), kept
		return nil
	})
	if err != nil {
		t.Fatalf("Recall: %v", err)
	}
	return ids, told, ends
}

// behindMarks publishes two batches and returns the marks of the first and the second one itself.
func behindMarks(t *testing.T, f Fixture) (before, after []sink.Offset, behind []sink.Message) {
	t.Helper()
	marks := make(map[string]sink.Offset)
	note := func(out sink.Outcome) {
		for _, mark := range out.Offsets {
			marks[mark.TP] = mark
		}
	}
	note(mustPublish(t, f.Sink, batch(f.Destinations[0], "before", 200, 20)))
	before = slices.Collect(maps.Values(marks))
	behind = batch(f.Destinations[0], "behind", 300, 7)
	behind = append(behind, message(f.Destinations[0], "large", "k", 1, min(200<<10, max(f.MaxBytes/2, 1<<10))))
	note(mustPublish(t, f.Sink, behind[:100]))
	note(mustPublish(t, f.Sink, behind[100:]))
	return before, slices.Collect(maps.Values(marks)), behind
}

func recalls(t *testing.T, f Fixture) {
	before, after, behind := behindMarks(t, f)
	ids, told, ends := recall(t, f.Sink, before)
	if len(ids) != len(behind) || len(told) != len(behind) {
		t.Fatalf("%d messages with %d ids are behind the marks, want %d", len(ids), len(told), len(behind))
	}
	newest := make(map[string]int)
	at := make(map[string]int)
	for i, id := range ids {
		at[id] = i
	}
	for _, want := range behind {
		got := told[want.ID]
		if got.ID != want.ID || !bytes.Equal(got.Value, want.Value) || got.Stream != want.Stream || got.Shard != want.Shard || got.Type != want.Type || got.RowID != want.RowID {
			t.Fatalf("got %.300v, want %.300v", got, want)
		}
		if key := string(want.Key); at[want.ID] < newest[key] {
			t.Fatalf("%s is told before one that came before it", want.ID)
		} else {
			newest[key] = at[want.ID]
		}
	}
	raised := slices.DeleteFunc(slices.Clone(after), func(m sink.Offset) bool { return slices.Contains(before, m) })
	for _, end := range ends {
		if !slices.Contains(raised, end) {
			t.Errorf("%+v is no end of what lies behind the marks, those are %+v", end, raised)
		}
	}
	if len(ends) != len(raised) {
		t.Errorf("there are %d ends, want %d", len(ends), len(raised))
	}
	if again, _, ends := recall(t, f.Sink, after); len(again)+len(ends) != 0 {
		t.Errorf("%d messages lie behind the end, which is %v", len(again), ends)
	}
	if none, _, ends := recall(t, f.Sink, nil); len(none)+len(ends) != 0 {
		t.Errorf("%d messages lie behind no mark, which end at %v", len(none), ends)
	}
	wanted := errors.New("enough")
	calls := 0
	_, err := f.Sink.(sink.Recaller).Recall(deadline(t), before, func(*sink.Message) error { calls++; return wanted })
	if !errors.Is(err, wanted) || calls != 1 {
		t.Errorf("Recall returns %v after %d calls, want the error of the first", err, calls)
	}
	ctx, cancel := context.WithCancelCause(deadline(t))
	_, err = f.Sink.(sink.Recaller).Recall(ctx, before, func(*sink.Message) error { cancel(wanted); return nil })
	if !errors.Is(err, wanted) {
		t.Errorf("Recall returns %v when it is cancelled", err)
	}
}

func recallClosed(t *testing.T, f Fixture) {
	before, _, _ := behindMarks(t, f)
	if err := f.Sink.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := f.Sink.(sink.Recaller).Recall(deadline(t), before, func(*sink.Message) error { return nil })
	if !errors.Is(err, sink.ErrClosed) {
		t.Errorf("Recall returns %v, want ErrClosed", err)
	}
}

func recallWiped(t *testing.T, f Fixture) {
	before, after, _ := behindMarks(t, f)
	for i := range before {
		if before[i].Incarnation == "" {
			// Only its end tells that it was made anew.
			before[i] = after[i]
		}
	}
	f.Wipe(t)
	if ids, _, ends := recall(t, f.Sink, before); len(ids)+len(ends) != 0 {
		t.Errorf("%d messages are recalled of a bus that is empty, and ends at %v", len(ids), ends)
	}
}
