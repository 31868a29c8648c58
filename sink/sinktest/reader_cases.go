package sinktest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"example.org/bridge/sink"
	"example.org/bridge/tests/must"
)

// noMessage is what a Read calls that is to hand out none.
func noMessage(m *sink.Stored) error { return fmt.Errorf("offset %d is handed out", m.Offset) }

func readParts(t *testing.T, f ReaderFixture) {
	tp := tpOf(t, f)
	if tp.First != tp.End || tp.Stable != tp.End || tp.Expired {
		t.Errorf("an empty TP is %+v", tp)
	}
	readAll(t, f, span(tp))
	sent := batch(f.Destination, "parts", 2500, 7)
	for i := range 12 {
		sent = append(sent, message(f.Destination, "large", "k", 2*i, f.MaxBytes), message(f.Destination, "large", "k", 2*i+1, 10))
	}
	for part := range slices.Chunk(sent, 700) {
		f.Publish(t, part)
	}
	if tp = tpOf(t, f); tp.Stable != tp.End || tp.Expired || tp.Thinned {
		t.Errorf("the TP is %+v", tp)
	}
	// A read ends with the error of its caller, and another goes on from there.
	var whole []stored
	enough := errors.New("enough")
	for s, ended := span(tp), false; !ended; {
		next, err := f.Reader.Read(Deadline(t), s, func(m *sink.Stored) error {
			if whole = append(whole, keep(m)); len(whole)%1000 == 50 {
				return enough
			}
			return nil
		})
		if ended = err == nil; !ended && !errors.Is(err, enough) || !ended && next != whole[len(whole)-1].offset+1 || ended && next != s.To {
			t.Fatalf("Read of %+v ends at %d after %d messages: %v", s, next, len(whole), err)
		}
		s.From = next
	}
	if wantStored(t, f, whole, sent); t.Failed() {
		return
	}
	// Several reads do not disturb one another.
	var reading sync.WaitGroup
	ctx := Deadline(t)
	for _, bounds := range [][2]int{{0, 1}, {333, 334}, {333, 777}, {len(sent) - 2, len(sent) - 1}, {0, len(sent) - 1}, {500, 500}} {
		reading.Go(func() {
			part := span(tp)
			part.From, part.To = whole[bounds[0]].offset, whole[bounds[1]].offset
			got, _, err := read(ctx, f.Reader, part)
			if err != nil {
				t.Error(err)
			}
			wantStored(t, f, got, sent[bounds[0]:bounds[1]])
		})
	}
	for from, to := range map[uint64]uint64{tp.End: tp.End, tp.End + 5: tp.End, tp.End + 10: tp.End + 20, tp.End + 11: sink.NoEnd} {
		reading.Go(func() {
			beyond := span(tp)
			beyond.From, beyond.To = from, to
			next, err := f.Reader.Read(ctx, beyond, noMessage)
			if behind := to > tp.End; behind != errors.Is(err, sink.ErrBehind) || !behind && err != nil || next != from {
				t.Errorf("Read of %+v ends at %d: %v", beyond, next, err)
			}
		})
	}
	reading.Wait()
}

func readOn(t *testing.T, f ReaderFixture) {
	sent := batch(f.Destination, "on", 600, 7)
	f.Publish(t, sent[:100])
	tp := tpOf(t, f)
	// What was read so far is all there is.
	var got []stored
	more := func(m *sink.Stored) {
		if got = append(got, keep(m)); len(got)%100 == 0 && len(got) < len(sent) {
			f.Publish(t, sent[len(got):len(got)+100])
		}
	}
	s := span(tp)
	s.To = sink.NoEnd
	ctx, cancel := context.WithCancelCause(Deadline(t))
	defer cancel(nil)
	enough := errors.New("enough")
	next, err := f.Reader.Read(ctx, s, func(m *sink.Stored) error {
		if more(m); len(got) == 600 {
			cancel(enough)
		}
		return nil
	})
	if last := got[len(got)-1].offset; !errors.Is(err, enough) || next != last+1 || len(got) != 600 {
		t.Fatalf("Read ends at %d after %d messages with %v", next, len(got), err)
	}
	// Once more from the last hundred on, to where the next one will end.
	sent = append(sent, batch(f.Destination, "ahead", 100, 7)...)
	s.From, s.To, got = got[500].offset, next+100, got[:500]
	if _, err := f.Reader.Read(Deadline(t), s, func(m *sink.Stored) error { more(m); return nil }); err != nil {
		t.Fatal(err)
	}
	wantStored(t, f, got, sent)
	// Others publish, and it ends where it was to.
	ctx, cancel = context.WithCancelCause(Deadline(t))
	var publishing sync.WaitGroup
	publishing.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			f.Publish(t, batch(f.Destination, fmt.Sprint("meanwhile-", i), 100, 3))
		}
	})
	s.From = tp.First
	for range 3 {
		wantStored(t, f, readAll(t, f, s), sent)
	}
	cancel(nil)
	publishing.Wait()
}

func readClosed(t *testing.T, f ReaderFixture) {
	f.Publish(t, batch(f.Destination, "closed", 10, 3))
	tp := tpOf(t, f)
	s := span(tp)
	s.To = sink.NoEnd
	_, err := f.Reader.Read(Deadline(t), s, func(m *sink.Stored) error {
		if m.Offset == tp.End-1 {
			return f.Close()
		}
		return nil
	})
	must.Fail(t, err, sink.ErrClosed)
	must.Fail(t, must.Err(f.Reader.TPs(Deadline(t), []string{f.Destination})), sink.ErrClosed)
	must.Fail(t, must.Err(f.Reader.Read(Deadline(t), s, noMessage)), sink.ErrClosed)
}

func readGone(t *testing.T, f ReaderFixture) {
	f.Publish(t, batch(f.Destination, "here", 300, 1))
	tp := tpOf(t, f)
	tps, err := f.Reader.TPs(Deadline(t), []string{f.Destination, "nowhere-at-all"})
	if err != nil || len(tps) != 1 || tps[0] != tp {
		t.Errorf("TPs %+v, %v, want %+v", tps, err, tp)
	}
	gone := []sink.Span{span(tp)}
	gone[0].TP, gone[0].Incarnation = strings.Replace(tp.Name, f.Destination, "nowhere-at-all", 1), ""
	if gone[0].TP == tp.Name {
		gone[0].TP = "NOWHERE"
	}
	// Not each bus tells one making of a TP from another.
	if tp.Incarnation != "" && f.Wipe != nil {
		gone = append(gone, span(tp))
		f.Wipe(t)
		after := batch(f.Destination, "after", 100, 7)
		f.Publish(t, after)
		wantStored(t, f, readAll(t, f, span(tpOf(t, f))), after)
	}
	var reading sync.WaitGroup
	ctx := Deadline(t)
	for _, s := range gone {
		reading.Go(func() {
			must.Fail(t, must.Err(f.Reader.Read(ctx, s, noMessage)), sink.ErrGone)
		})
	}
	reading.Wait()
}

func readForeign(t *testing.T, f ReaderFixture) {
	sent := batch(f.Destination, "ours", 60, 7)
	for part := range slices.Chunk(sent, 20) {
		f.Foreign(t, 30)
		f.Publish(t, part)
	}
	f.Foreign(t, 30)
	all := readAll(t, f, span(tpOf(t, f)))
	ours := slices.DeleteFunc(slices.Clone(all), func(m stored) bool { return m.Headers[sink.HeaderStream] == "" })
	wantStored(t, f, ours, sent)
	if foreign := len(all) - len(ours); foreign != 120 {
		t.Errorf("%d messages of others are read, want 120", foreign)
	}
}

func readExpired(t *testing.T, f ReaderFixture) {
	sent := batch(f.Destination, "expired", 400, 7)
	f.Publish(t, sent[:200])
	before := tpOf(t, f)
	f.Publish(t, sent[200:])
	f.Expire(t, before.First+150)
	tp := tpOf(t, f)
	s := span(tp)
	s.From = before.First + 20
	next, err := f.Reader.Read(Deadline(t), s, noMessage)
	expired, ok := errors.AsType[*sink.ExpiredError](err)
	want := sink.ExpiredError{TP: tp.Name, From: s.From, First: before.First + 150}
	if !ok || !errors.Is(err, sink.ErrExpired) || *expired != want || tp.First != want.First || next < s.From || next > tp.First {
		t.Fatalf("Read of %+v ends at %d with %v, want %+v", tp, next, err, want)
	}
	s.From = tp.First
	wantStored(t, f, readAll(t, f, s), sent[150:])
	f.Expire(t, tp.End)
	if s = span(tpOf(t, f)); s.From != tp.End || s.To != tp.End {
		t.Fatalf("the TP is %+v, was %+v", s, tp)
	}
	readAll(t, f, s)
	later := batch(f.Destination, "later", 100, 7)
	f.Publish(t, later)
	wantStored(t, f, readAll(t, f, span(tpOf(t, f))), later)
}

func readDeleted(t *testing.T, f ReaderFixture) {
	// Every message has a key of its own, so that compaction leaves the others.
	sent := batch(f.Destination, "deleted", 300, 300)
	f.Publish(t, sent)
	s := span(tpOf(t, f))
	var offsets []uint64
	var want []sink.Message
	for i, m := range readAll(t, f, s) {
		// The first, some in the middle and a stretch at the end.
		if i == 0 || i%7 == 3 || i >= 250 {
			offsets = append(offsets, m.offset)
		} else {
			want = append(want, sent[i])
		}
	}
	f.Delete(t, offsets)
	s.From = max(s.From, tpOf(t, f).First)
	wantStored(t, f, readAll(t, f, s), want)
	later := batch(f.Destination, "later", 10, 7)
	f.Publish(t, later)
	s.From, s.To = s.To, tpOf(t, f).End
	got := readAll(t, f, s)
	wantStored(t, f, got[max(0, len(got)-10):], later)
}

// readThrough reads while harm is done behind so many messages, and wants every message once.
func readThrough(t *testing.T, f ReaderFixture, harm func(testing.TB), behind ...int) {
	sent := batch(f.Destination, "harm", 6000, 7)
	for part := range slices.Chunk(sent, 1000) {
		f.Publish(t, part)
	}
	var got []stored
	s := span(tpOf(t, f))
	next, err := f.Reader.Read(Deadline(t), s, func(m *sink.Stored) error {
		if got = append(got, keep(m)); slices.Contains(behind, len(got)) {
			harm(t)
		}
		return nil
	})
	if err != nil || next != s.To {
		t.Fatalf("Read ends at %d after %d messages: %v", next, len(got), err)
	}
	wantStored(t, f, got, sent)
}
