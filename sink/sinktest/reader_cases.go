package sinktest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"bridge/sink"
)

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
