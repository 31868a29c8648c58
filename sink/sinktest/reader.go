package sinktest

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"example.org/bridge/sink"
	"example.org/bridge/tests/must"
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
	must.OK(t, probe.Close())
	runAll(t, []test[ReaderFixture]{
		{"a restart of the bus repeats and skips nothing", probe.Restart != nil, true, func(t *testing.T, f ReaderFixture) {
			readThrough(t, f, f.Restart, 4000)
		}},
		{"what was published is read whole, in parts, and not from beyond", true, false, readParts},
		{"a read goes on, waits for an end that is not there yet, and ends there", true, false, readOn},
		{"a closed reader reads nothing", true, false, readClosed},
		{"a TP that is not there, or was created again, is gone", true, false, readGone},
		{"messages of others are handed out as they are", probe.Foreign != nil, false, readForeign},
		{"what has expired is an error that names it", probe.Expire != nil, false, readExpired},
		{"single messages that are gone are passed over", probe.Delete != nil, false, readDeleted},
		{"a cut connection repeats and skips nothing", probe.Cut != nil, false, func(t *testing.T, f ReaderFixture) {
			readThrough(t, f, f.Cut, 1, 2000, 4000, 5999)
		}},
	}, open, func(f ReaderFixture) error { return f.Close() })
}

type stored struct {
	Record
	offset uint64
	time   int64
	size   int
}

func keep(m *sink.Stored) stored {
	headers := make(map[string]string)
	for _, h := range m.Headers {
		headers[h.Name] = string(h.Value)
	}
	return stored{Record{headers[sink.HeaderID], bytes.Clone(m.Key), bytes.Clone(m.Value), headers, m.Destination}, m.Offset, m.Time, m.Size()}
}

// It fails unless offsets ascend and lie within s.
func read(ctx context.Context, r sink.Reader, s sink.Span) (got []stored, next uint64, err error) {
	low := s.From
	next, err = r.Read(ctx, s, func(m *sink.Stored) error {
		if m.Offset < low || s.Done(m.Offset) {
			return fmt.Errorf("message %d of %+v has the offset %d, wanted was at least %d", len(got), s, m.Offset, low)
		}
		low = m.Offset + 1
		got = append(got, keep(m))
		return nil
	})
	if err == nil && next != max(s.To, s.From) {
		err = fmt.Errorf("read of %+v ends at %d after %d messages", s, next, len(got))
	}
	return got, next, err
}

func tpOf(t *testing.T, f ReaderFixture) sink.TP {
	t.Helper()
	tps, err := f.Reader.TPs(Deadline(t), []string{f.Destination})
	if err != nil || len(tps) != 1 {
		t.Fatalf("%s has TPs %+v, %v, want one", f.Destination, tps, err)
	}
	return tps[0]
}

func span(tp sink.TP) sink.Span {
	return sink.Span{TP: tp.Name, Incarnation: tp.Incarnation, From: tp.First, To: tp.End}
}

// The Read must end where it was to.
func readAll(t *testing.T, f ReaderFixture, s sink.Span) []stored {
	t.Helper()
	got, _, err := read(Deadline(t), f.Reader, s)
	must.OK(t, err)
	return got
}

func wantStored(t *testing.T, f ReaderFixture, got []stored, want []sink.Message) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%d messages are read, want %d", len(got), len(want))
		return
	}
	for i := range want {
		g, w := &got[i], &want[i]
		size := len(g.Key) + len(g.Value)
		new(sink.Headers).Each(w, func(name, _ string) { size += len(name) + len(g.Headers[name]) })
		// A bus with keys has the time of the message, another one when it stored that.
		timed := g.time > 0 && (!f.Keys || g.time == w.Time.UnixMilli())
		if fault := differs(w, &g.Record, f.Keys, true); fault != "" || g.ID != w.ID || g.destination != w.Destination || !timed || g.size < size {
			t.Errorf("message %d of %d bytes is %s to %s of the time %d, want %s: %s", i, g.size, g.ID, g.destination, g.time, w.ID, fault)
			return
		}
	}
}

// ReadBack returns the ids that catch-up would find at destinations: up to the ends that the bus
// has now. It fails the test where they cannot be read.
func ReadBack(ctx context.Context, t testing.TB, r sink.Reader, destinations []string) map[string]bool {
	t.Helper()
	tps := must.Get(r.TPs(ctx, destinations))(t)
	found := make(map[string]bool)
	for _, tp := range tps {
		all, _, err := read(ctx, r, span(tp))
		must.OK(t, err)
		for _, m := range all {
			found[m.ID] = true
		}
	}
	return found
}

// Without returns the messages of a batch that were not found.
func Without(batch []sink.Message, found map[string]bool) (left []sink.Message) {
	for _, m := range batch {
		if !found[m.ID] {
			left = append(left, m)
		}
	}
	return left
}
