package sinktest

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"bridge/sink"
)

func readExpired(t *testing.T, f ReaderFixture) {
	sent := batch(f.Destination, "expired", 400, 7)
	f.Publish(t, sent[:200])
	before := tpOf(t, f)
	f.Publish(t, sent[200:])
	f.Expire(t, before.First+150)
	tp := tpOf(t, f)
	if tp.First != before.First+150 {
		t.Fatalf("the TP is %+v, was %+v", tp, before)
	}
	s := span(tp)
	s.From = before.First + 20
	next, err := f.Reader.Read(deadline(t), s, func(m *sink.Stored) error { return fmt.Errorf("offset %d is handed out", m.Offset) })
	expired, ok := errors.AsType[*sink.ExpiredError](err)
	if !ok || !errors.Is(err, sink.ErrExpired) {
		t.Fatalf("Read ends with %v, want an ExpiredError", err)
	}
	if want := (sink.ExpiredError{TP: tp.Name, From: s.From, First: tp.First}); *expired != want || next < s.From || next > tp.First {
		t.Errorf("Read ends at %d: %+v, want %+v", next, *expired, want)
	}
	s.From = expired.First
	wantStored(t, f, readSpan(t, f, s), sent[150:])
}

func readAllExpired(t *testing.T, f ReaderFixture) {
	f.Publish(t, batch(f.Destination, "expired", 100, 7))
	before := tpOf(t, f)
	f.Expire(t, before.End)
	tp := tpOf(t, f)
	if tp.First != before.End || tp.End != before.End {
		t.Fatalf("the TP is %+v, was %+v", tp, before)
	}
	readSpan(t, f, span(tp))
	later := batch(f.Destination, "later", 100, 7)
	f.Publish(t, later)
	wantStored(t, f, readSpan(t, f, span(tpOf(t, f))), later)
}

func readDeleted(t *testing.T, f ReaderFixture) {
	// Every message has a key of its own, so that compaction leaves the others.
	sent := batch(f.Destination, "deleted", 300, 300)
	f.Publish(t, sent)
	s := span(tpOf(t, f))
	whole := readSpan(t, f, s)
	gone := make(map[uint64]bool)
	for i := range whole {
		// The first, some in the middle and a stretch at the end.
		if i == 0 || i%7 == 3 || i >= 250 {
			gone[whole[i].Offset] = true
		}
	}
	var offsets []uint64
	for i := range whole {
		if gone[whole[i].Offset] {
			offsets = append(offsets, whole[i].Offset)
		}
	}
	f.Delete(t, offsets)
	var want []string
	for i := range whole {
		if !gone[whole[i].Offset] {
			want = append(want, sent[i].ID)
		}
	}
	s.From = max(s.From, tpOf(t, f).First)
	if got := storedIDs(readSpan(t, f, s)); !slices.Equal(got, want) {
		t.Errorf("%d messages are read, want %d:\n%v\n%v", len(got), len(want), got, want)
	}
	later := batch(f.Destination, "later", 10, 7)
	f.Publish(t, later)
	s.From, s.To = s.To, tpOf(t, f).End
	if got := storedIDs(readSpan(t, f, s)); !slices.Equal(got[len(got)-10:], sentIDs(later)) {
		t.Errorf("got %v, want %v", got, sentIDs(later))
	}
}

// readThrough reads while harm is done, and wants every message once.
func readThrough(t *testing.T, f ReaderFixture, at []int, harm func(t testing.TB)) {
	t.Helper()
	sent := batch(f.Destination, "harm", 12000, 7)
	for part := range slices.Chunk(sent, 1000) {
		f.Publish(t, part)
	}
	s := span(tpOf(t, f))
	var got []sink.Stored
	next, err := f.Reader.Read(deadline(t), s, func(m *sink.Stored) error {
		got = append(got, copyStored(m))
		if slices.Contains(at, len(got)) {
			harm(t)
		}
		return nil
	})
	if err != nil || next != s.To {
		t.Fatalf("Read ends at %d after %d messages: %v", next, len(got), err)
	}
	checkSpan(t, s, got)
	wantStored(t, f, got, sent)
}

func readCut(t *testing.T, f ReaderFixture) { readThrough(t, f, []int{1, 5000, 9000, 11999}, f.Cut) }

func readRestart(t *testing.T, f ReaderFixture) { readThrough(t, f, []int{4000}, f.Restart) }

func readWiped(t *testing.T, f ReaderFixture) {
	f.Publish(t, batch(f.Destination, "before", 300, 7))
	s := span(tpOf(t, f))
	if s.Incarnation == "" {
		t.Skip("this bus does not tell one making of a TP from another")
	}
	f.Wipe(t)
	after := batch(f.Destination, "after", 100, 7)
	f.Publish(t, after)
	if _, err := f.Reader.Read(deadline(t), s, func(m *sink.Stored) error { return fmt.Errorf("offset %d is handed out", m.Offset) }); !errors.Is(err, sink.ErrGone) {
		t.Errorf("Read of the former TP ends with %v, want ErrGone", err)
	}
	wantStored(t, f, readSpan(t, f, span(tpOf(t, f))), after)
}
