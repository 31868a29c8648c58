package sinktest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"bridge/sink"
)

// ReaderFixture is a reader with a bus that holds nothing yet on Destination.
type ReaderFixture struct {
	// Reader is under test.
	Reader sink.Reader
	// Destination has one TP, which is empty.
	Destination string
	// Publish publishes messages in their order and returns when they are there.
	Publish func(t testing.TB, batch []sink.Message)
	// Close closes the reader; the suite does so at the end of each test.
	Close func() error
	// Keys: the bus carries keys.
	Keys bool
	// MaxBytes is a size that a message may surely have.
	MaxBytes int

	// What follows is optional, and what a bus cannot do is not asked.

	// Foreign publishes messages of somebody else, without headers.
	Foreign func(t testing.TB, n int)
	// Expire removes the messages below an offset.
	Expire func(t testing.TB, first uint64)
	// Delete removes single messages; others may go, too, as by compaction. It returns when the bus
	// has removed them.
	Delete func(t testing.TB, offsets []uint64)
	// Cut ends all connections of the reader.
	Cut func(t testing.TB)
	// Restart ends the bus hard and starts it again with the same data.
	Restart func(t testing.TB)
	// Wipe removes Destination with its messages and creates it again.
	Wipe func(t testing.TB)
}

// RunReader runs the suite of readers. It calls open for each test of it.
func RunReader(t *testing.T, open func(t *testing.T) ReaderFixture) {
	probe := open(t)
	if err := probe.Close(); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name  string
		asked bool
		run   func(*testing.T, ReaderFixture)
	}{
		{"an empty TP ends at once", true, readEmpty},
		{"what was published is read whole and in order", true, readAll},
		{"a part is read from its first to its last message", true, readPart},
		{"a large message is read", true, readLarge},
		{"a read ends at the end given while others publish", true, readWhilePublishing},
		{"a read without an end goes on", true, readOn},
		{"a read waits for an end that is not there yet", true, readAhead},
		{"nothing is read from beyond the end", true, readBeyond},
		{"a read ends with the error of its caller, and another goes on from there", true, readError},
		{"several reads do not disturb one another", true, readConcurrently},
		{"a closed reader reads nothing", true, readClosed},
		{"a TP that is not there is gone", true, readNowhere},
		{"messages of others are handed out as they are", probe.Foreign != nil, readForeign},
		{"what has expired is an error that names it", probe.Expire != nil, readExpired},
		{"a TP of which everything has expired ends at once", probe.Expire != nil, readAllExpired},
		{"single messages that are gone are passed over", probe.Delete != nil, readDeleted},
		{"a cut connection repeats and skips nothing", probe.Cut != nil, readCut},
		{"a restart of the bus repeats and skips nothing", probe.Restart != nil, readRestart},
		{"a TP that was created again is gone", probe.Wipe != nil, readWiped},
	} {
		if !test.asked {
			t.Logf("not asked of this reader, its fixture lacks what it takes: %s", test.name)
			continue
		}
		t.Run(test.name, func(t *testing.T) {
			f := open(t)
			t.Cleanup(func() {
				if err := f.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
			})
			test.run(t, f)
		})
	}
}

// tpOf returns the one TP of the fixture.
func tpOf(t *testing.T, f ReaderFixture) sink.TP {
	t.Helper()
	tps, err := f.Reader.TPs(deadline(t), []string{f.Destination})
	if err != nil || len(tps) != 1 {
		t.Fatalf("%s has TPs %+v, %v, want one", f.Destination, tps, err)
	}
	return tps[0]
}

// span is what there is of a TP now.
func span(tp sink.TP) sink.Span {
	return sink.Span{TP: tp.Name, Incarnation: tp.Incarnation, From: tp.First, To: tp.End}
}

// readSpan returns copies of what a Read hands out, which must end where it was to.
func readSpan(t *testing.T, f ReaderFixture, s sink.Span) []sink.Stored {
	t.Helper()
	var got []sink.Stored
	next, err := f.Reader.Read(deadline(t), s, func(m *sink.Stored) error {
		got = append(got, copyStored(m))
		return nil
	})
	if err != nil || next != max(s.To, s.From) {
		t.Fatalf("Read of %+v ends at %d after %d messages: %v", s, next, len(got), err)
	}
	checkSpan(t, s, got)
	return got
}

func copyStored(m *sink.Stored) sink.Stored {
	kept := *m
	kept.Key, kept.Value, kept.Headers = bytes.Clone(m.Key), bytes.Clone(m.Value), slices.Clone(m.Headers)
	for i := range kept.Headers {
		kept.Headers[i].Value = bytes.Clone(kept.Headers[i].Value)
	}
	return kept
}

// checkSpan fails the test unless offsets ascend and lie within s.
func checkSpan(t *testing.T, s sink.Span, got []sink.Stored) {
	t.Helper()
	low := s.From
	for i := range got {
		if at := got[i].Offset; at < low || s.Done(at) {
			t.Fatalf("message %d of %+v has the offset %d, wanted was at least %d", i, s, at, low)
		}
		low = got[i].Offset + 1
	}
}

// wantStored fails the test unless got is want, in its order.
func wantStored(t *testing.T, f ReaderFixture, got []sink.Stored, want []sink.Message) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d messages are read, want %d", len(got), len(want))
	}
	for i := range want {
		g, w := &got[i], &want[i]
		if !bytes.Equal(g.Value, w.Value) || g.Destination != w.Destination || f.Keys && !bytes.Equal(g.Key, w.Key) {
			t.Fatalf("message %d is %s %q of %d bytes at %s, want %s", i, g.Header(sink.HeaderID), g.Key, len(g.Value), g.Destination, w.ID)
		}
		// A bus with keys has the time of the message, another one when it stored that.
		if made := w.Time.UnixMilli(); g.Time <= 0 || f.Keys && g.Time != made {
			t.Fatalf("message %d, made at %d, is of the time %d", i, made, g.Time)
		}
		size := len(g.Key) + len(g.Value)
		w.EachHeader(func(name, value string) {
			h := string(g.Header(name))
			if name == sink.HeaderState {
				checkState(t, w, h, f.Keys)
			} else if h != value {
				t.Fatalf("header %s of message %d is %q, want %q", name, i, h, value)
			}
			size += len(name) + len(h)
		})
		if g.Size() < size {
			t.Fatalf("message %d has %d bytes, want %d at least", i, g.Size(), size)
		}
	}
}

// storedIDs returns the ids of messages.
func storedIDs(got []sink.Stored) []string {
	ids := make([]string, len(got))
	for i := range got {
		ids[i] = string(got[i].Header(sink.HeaderID))
	}
	return ids
}

func sentIDs(batch []sink.Message) []string {
	ids := make([]string, len(batch))
	for i := range batch {
		ids[i] = batch[i].ID
	}
	return ids
}

func readEmpty(t *testing.T, f ReaderFixture) {
	tp := tpOf(t, f)
	if tp.First != tp.End || tp.Stable != tp.End || tp.Expired {
		t.Errorf("an empty TP is %+v", tp)
	}
	readSpan(t, f, span(tp))
}

func readAll(t *testing.T, f ReaderFixture) {
	sent := batch(f.Destination, "all", 5000, 7)
	for part := range slices.Chunk(sent, 700) {
		f.Publish(t, part)
	}
	tp := tpOf(t, f)
	wantStored(t, f, readSpan(t, f, span(tp)), sent)
	if tp.Stable != tp.End || tp.Expired || tp.Thinned {
		t.Errorf("the TP is %+v", tp)
	}
}

func readPart(t *testing.T, f ReaderFixture) {
	sent := batch(f.Destination, "part", 1000, 7)
	f.Publish(t, sent)
	all := span(tpOf(t, f))
	whole := readSpan(t, f, all)
	for _, bounds := range [][2]int{{0, 1}, {333, 334}, {333, 777}, {999, 1000}, {0, 999}, {500, 500}} {
		part := all
		part.From, part.To = whole[0].Offset+uint64(bounds[0]), whole[0].Offset+uint64(bounds[1])
		wantStored(t, f, readSpan(t, f, part), sent[bounds[0]:bounds[1]])
	}
}

func readLarge(t *testing.T, f ReaderFixture) {
	var sent []sink.Message
	for i := range 12 {
		sent = append(sent, message(f.Destination, "large", "k", 2*i, f.MaxBytes), message(f.Destination, "large", "k", 2*i+1, 10))
	}
	f.Publish(t, sent)
	wantStored(t, f, readSpan(t, f, span(tpOf(t, f))), sent)
}

func readWhilePublishing(t *testing.T, f ReaderFixture) {
	before := batch(f.Destination, "before", 3000, 7)
	f.Publish(t, before)
	s := span(tpOf(t, f))
	var stop atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; !stop.Load(); i++ {
			f.Publish(t, batch(f.Destination, fmt.Sprint("meanwhile-", i), 100, 3))
		}
	}()
	defer func() { stop.Store(true); <-done }()
	for range 3 {
		wantStored(t, f, readSpan(t, f, s), before)
	}
}

func readOn(t *testing.T, f ReaderFixture) {
	sent := batch(f.Destination, "on", 600, 7)
	f.Publish(t, sent[:100])
	s := span(tpOf(t, f))
	s.To = sink.NoEnd
	ctx, cancel := context.WithCancelCause(deadline(t))
	defer cancel(nil)
	enough := errors.New("enough")
	var got []sink.Stored
	next, err := f.Reader.Read(ctx, s, func(m *sink.Stored) error {
		got = append(got, copyStored(m))
		switch len(got) {
		case 100, 200, 300, 400, 500:
			// What was read so far is all there is.
			f.Publish(t, sent[len(got):len(got)+100])
		case 600:
			cancel(enough)
		}
		return nil
	})
	if !errors.Is(err, enough) {
		t.Fatalf("Read ends with %v after %d messages", err, len(got))
	}
	wantStored(t, f, got, sent)
	if last := got[len(got)-1].Offset; next != last+1 {
		t.Errorf("Read ends at %d behind offset %d", next, last)
	}
}

func readAhead(t *testing.T, f ReaderFixture) {
	sent := batch(f.Destination, "ahead", 200, 7)
	f.Publish(t, sent[:100])
	s := span(tpOf(t, f))
	s.To += 100
	published := false
	var got []sink.Stored
	if _, err := f.Reader.Read(deadline(t), s, func(m *sink.Stored) error {
		if got = append(got, copyStored(m)); len(got) == 100 && !published {
			published = true
			f.Publish(t, sent[100:])
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	wantStored(t, f, got, sent)
}

func readBeyond(t *testing.T, f ReaderFixture) {
	f.Publish(t, batch(f.Destination, "beyond", 50, 7))
	tp := tpOf(t, f)
	s := span(tp)
	s.From = tp.End
	readSpan(t, f, s)
	s.From = tp.End + 10
	readSpan(t, f, s)
	for _, to := range []uint64{sink.NoEnd, tp.End + 20} {
		s.To = to
		next, err := f.Reader.Read(deadline(t), s, func(m *sink.Stored) error { return fmt.Errorf("offset %d is handed out", m.Offset) })
		if !errors.Is(err, sink.ErrBehind) || next != s.From {
			t.Errorf("Read of %+v ends at %d: %v, want ErrBehind", s, next, err)
		}
	}
}

func readError(t *testing.T, f ReaderFixture) {
	sent := batch(f.Destination, "error", 300, 7)
	f.Publish(t, sent)
	s := span(tpOf(t, f))
	enough := errors.New("enough")
	var got []sink.Stored
	for calls := 0; len(got) < len(sent) && calls < len(sent); calls++ {
		next, err := f.Reader.Read(deadline(t), s, func(m *sink.Stored) error {
			got = append(got, copyStored(m))
			if len(got)%100 == 50 {
				return enough
			}
			return nil
		})
		if last := got[len(got)-1].Offset; next != last+1 || err != nil && !errors.Is(err, enough) || err == nil && len(got) < len(sent) {
			t.Fatalf("Read ends at %d behind %d: %v", next, last, err)
		}
		s.From = next
	}
	wantStored(t, f, got, sent)
}

func readConcurrently(t *testing.T, f ReaderFixture) {
	sent := batch(f.Destination, "side", 2000, 7)
	f.Publish(t, sent)
	s := span(tpOf(t, f))
	want := sentIDs(sent)
	done := make(chan error)
	const readers = 4
	for range readers {
		go func() {
			var ids []string
			_, err := f.Reader.Read(deadline(t), s, func(m *sink.Stored) error {
				ids = append(ids, string(m.Header(sink.HeaderID)))
				return nil
			})
			if err == nil && !slices.Equal(ids, want) {
				err = fmt.Errorf("%d messages are read, want %d", len(ids), len(want))
			}
			done <- err
		}()
	}
	for range readers {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func readClosed(t *testing.T, f ReaderFixture) {
	f.Publish(t, batch(f.Destination, "closed", 10, 3))
	tp := tpOf(t, f)
	s := span(tp)
	s.To = sink.NoEnd
	_, err := f.Reader.Read(deadline(t), s, func(m *sink.Stored) error {
		if m.Offset == tp.End-1 {
			return f.Close()
		}
		return nil
	})
	if !errors.Is(err, sink.ErrClosed) {
		t.Errorf("Read ends with %v when it is closed, want ErrClosed", err)
	}
	if _, err := f.Reader.TPs(deadline(t), []string{f.Destination}); !errors.Is(err, sink.ErrClosed) {
		t.Errorf("TPs returns %v, want ErrClosed", err)
	}
	if _, err := f.Reader.Read(deadline(t), s, func(*sink.Stored) error { return nil }); !errors.Is(err, sink.ErrClosed) {
		t.Errorf("Read returns %v, want ErrClosed", err)
	}
}

func readNowhere(t *testing.T, f ReaderFixture) {
	f.Publish(t, batch(f.Destination, "here", 3, 1))
	tp := tpOf(t, f)
	tps, err := f.Reader.TPs(deadline(t), []string{f.Destination, "nowhere-at-all"})
	if err != nil || len(tps) != 1 || tps[0] != tp {
		t.Errorf("TPs %+v, %v, want %+v", tps, err, tp)
	}
	s := span(tp)
	s.TP, s.Incarnation = strings.Replace(tp.Name, f.Destination, "nowhere-at-all", 1), ""
	if s.TP == tp.Name {
		s.TP = "NOWHERE"
	}
	if _, err := f.Reader.Read(deadline(t), s, func(*sink.Stored) error { return nil }); !errors.Is(err, sink.ErrGone) {
		t.Errorf("Read of %s returns %v, want ErrGone", s.TP, err)
	}
}

func readForeign(t *testing.T, f ReaderFixture) {
	sent := batch(f.Destination, "ours", 60, 7)
	for part := range slices.Chunk(sent, 20) {
		f.Foreign(t, 30)
		f.Publish(t, part)
	}
	f.Foreign(t, 30)
	var ours []sink.Stored
	foreign := 0
	for _, m := range readSpan(t, f, span(tpOf(t, f))) {
		if m.Header(sink.HeaderStream) == nil {
			foreign++
			continue
		}
		ours = append(ours, m)
	}
	wantStored(t, f, ours, sent)
	if foreign != 120 {
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
