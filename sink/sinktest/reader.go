package sinktest

import (
	"bytes"
	"slices"
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
