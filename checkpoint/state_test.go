package checkpoint_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"math"
	"reflect"
	"testing"
	"time"

	"bridge/checkpoint"
	"bridge/sink"
	"bridge/source"
	"bridge/source/ledger"

	"pgregory.net/rapid"
)

var moment = time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC)

func example() checkpoint.State {
	return checkpoint.State{
		Position: ledger.Position{
			ID: math.MaxUint64,
			Gaps: []ledger.Gap{
				{First: 0, Last: 0, Missed: moment},
				{First: 1, Last: 9, Missed: moment.Add(-time.Hour)},
				{First: 1 << 63, Last: 1<<63 + 5, Missed: moment.Add(time.Microsecond)},
				{First: math.MaxUint64, Last: math.MaxUint64, Missed: time.Time{}},
			},
			Reading: ledger.Reading{Through: 77, At: moment.Add(time.Second)},
		},
		Offsets:  []sink.Offset{{TP: "orders/3", Last: 9, ID: "84096231-c09a-5b9a-877d-d4ea34f91b7c"}, {TP: "ORDERS", Incarnation: "2026-01-02T03:04:05Z", Last: math.MaxUint64}},
		Saved:    moment,
		Cursor:   source.Cursor{Modified: "2026-01-02 03:04:05.678901", ID: math.MaxUint64},
		Snapshot: source.Range{First: 3, Last: math.MaxUint64},
	}
}

// tailOfVersion2 is how many bytes the cursor and the snapshot of example are.
const tailOfVersion2 = 1 + 26 + 10 + 1 + 10

func mustDecode(t *testing.T, b []byte) checkpoint.State {
	t.Helper()
	s, err := checkpoint.DecodeState(b)
	if err != nil {
		t.Fatalf("DecodeState: %v", err)
	}
	return s
}

func TestStateRoundTrip(t *testing.T) {
	for name, s := range map[string]checkpoint.State{"empty": {}, "full": example()} {
		t.Run(name, func(t *testing.T) {
			prefix := []byte("prefix")
			b := checkpoint.AppendState(prefix, s)
			if !bytes.HasPrefix(b, prefix) {
				t.Fatal("AppendState does not append")
			}
			b = b[len(prefix):]
			got := mustDecode(t, b)
			clear(b)
			if !reflect.DeepEqual(got, s) {
				t.Errorf("got\n%+v, want\n%+v", got, s)
			}
		})
	}
}

func TestStateRoundTripOfAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawState(t)
		if err := s.Check(); err != nil {
			t.Fatalf("Check: %v", err)
		}
		got, err := checkpoint.DecodeState(checkpoint.AppendState(nil, s))
		if err != nil || !reflect.DeepEqual(got, s) {
			t.Fatalf("got %+v, %v, want %+v", got, err, s)
		}
	})
}

func drawState(t *rapid.T) checkpoint.State {
	drawTime := rapid.Custom(func(t *rapid.T) time.Time {
		return time.UnixMicro(rapid.Int64Range(time.Time{}.UnixMicro(), time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC).UnixMicro()).Draw(t, "micros")).UTC()
	})
	s := checkpoint.State{Saved: drawTime.Draw(t, "saved")}
	s.Position.ID = rapid.Uint64().Draw(t, "id")
	s.Position.Reading = ledger.Reading{Through: rapid.Uint64().Draw(t, "through"), At: drawTime.Draw(t, "at")}
	for range rapid.IntRange(0, 5).Draw(t, "offsets") {
		s.Offsets = append(s.Offsets, sink.Offset{TP: rapid.String().Draw(t, "partition"), Incarnation: rapid.String().Draw(t, "incarnation"), Last: rapid.Uint64().Draw(t, "last"), ID: rapid.String().Draw(t, "message")})
	}
	s.Cursor = source.Cursor{Modified: rapid.String().Draw(t, "modified"), ID: rapid.Uint64().Draw(t, "cursor")}
	s.Snapshot.Last = rapid.Uint64().Draw(t, "through")
	s.Snapshot.First = rapid.Uint64Range(0, s.Snapshot.Last).Draw(t, "from")
	next, room := uint64(0), true
	for range rapid.IntRange(0, 20).Draw(t, "gaps") {
		if !room || next > s.Position.ID {
			break
		}
		first := rapid.Uint64Range(next, s.Position.ID).Draw(t, "first")
		last := rapid.Uint64Range(first, s.Position.ID).Draw(t, "last")
		s.Position.Gaps = append(s.Position.Gaps, ledger.Gap{First: first, Last: last, Missed: drawTime.Draw(t, "missed")})
		next = last + 1
		room = next != 0
	}
	return s
}

// TestFormerVersionsAreRead holds the forms of versions of bridge whose offsets did not name their
// messages, and that knew no view.
func TestFormerVersionsAreRead(t *testing.T) {
	second, err := hex.DecodeString("02eabcbae5ded7a306ffffffffffffffffff014deac5b4e6ded7a30602086f72646572732f330009064f524445525314323032362d30312d30325430" +
		"333a30343a30355affffffffffffffffff01040000000008ff8f9de91af6ffffffffffffff7f0582909de91af9ffffffffffffff7f00ebbc98d8bed7" +
		"83e3011a323032362d30312d30322030333a30343a30352e363738393031ffffffffffffffffff0103fcffffffffffffffff0183e37e99")
	if err != nil {
		t.Fatal(err)
	}
	want := example()
	for i := range want.Offsets {
		want.Offsets[i].ID = ""
	}
	if got := mustDecode(t, second); !reflect.DeepEqual(got, want) {
		t.Errorf("version 2: got\n%+v, want\n%+v", got, want)
	}
	// Version 1 ends before the cursor and the snapshot.
	want.Cursor, want.Snapshot = source.Cursor{}, source.Range{}
	first := bytes.Clone(second[:len(second)-4-tailOfVersion2])
	first[0] = 1
	if got := mustDecode(t, seal(first...)); !reflect.DeepEqual(got, want) {
		t.Errorf("version 1: got\n%+v, want\n%+v", got, want)
	}
}

func TestAMillionGapsAreCompact(t *testing.T) {
	s := checkpoint.State{Saved: moment, Position: ledger.Position{ID: 1 << 40}}
	for i := range uint64(1_000_000) {
		s.Position.Gaps = append(s.Position.Gaps, ledger.Gap{First: 3 * i, Last: 3*i + 1, Missed: moment.Add(time.Duration(i/2000) * 200 * time.Millisecond)})
	}
	b := checkpoint.AppendState(nil, s)
	if perGap := float64(len(b)) / 1e6; perGap > 3.1 {
		t.Errorf("a gap takes %.2f bytes", perGap)
	}
	if got := mustDecode(t, b); !reflect.DeepEqual(got, s) {
		t.Error("a million gaps do not survive")
	}
}

func TestDecodeStateRefusesDamage(t *testing.T) {
	good := checkpoint.AppendState(nil, example())
	for i := range good {
		for bit := range 8 {
			bad := bytes.Clone(good)
			bad[i] ^= 1 << bit
			if _, err := checkpoint.DecodeState(bad); !errors.Is(err, checkpoint.ErrCorrupt) {
				t.Fatalf("bit %d of byte %d flipped: %v, want ErrCorrupt", bit, i, err)
			}
		}
		if _, err := checkpoint.DecodeState(good[:i]); !errors.Is(err, checkpoint.ErrCorrupt) {
			t.Fatalf("cut to %d bytes: %v, want ErrCorrupt", i, err)
		}
	}
}

// seal ends body with the checksum that makes it look whole.
func seal(body ...byte) []byte {
	return binary.LittleEndian.AppendUint32(body, crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
}

func TestDecodeStateRefusesNonsenseWithAGoodChecksum(t *testing.T) {
	good := checkpoint.AppendState(nil, checkpoint.State{Position: ledger.Position{ID: 9}})
	body := good[:len(good)-4]
	for name, test := range map[string]struct {
		b    []byte
		want error
	}{
		"bytes behind its end": {seal(append(bytes.Clone(body), 0)...), checkpoint.ErrCorrupt},
		"newer version":        {seal(4, 1, 2, 3), checkpoint.ErrNewer},
		"version 0":            {seal(0, 1, 2, 3), checkpoint.ErrCorrupt},
		"a billion gaps":       {seal(append(bytes.Clone(body[:len(body)-5]), 0x80, 0x94, 0xeb, 0xdc, 0x03)...), checkpoint.ErrCorrupt},
		"nothing":              {nil, checkpoint.ErrCorrupt},
		"only a version":       {seal(1), checkpoint.ErrCorrupt},
	} {
		if _, err := checkpoint.DecodeState(test.b); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", name, err, test.want)
		}
	}
}

func TestCheckRefusesWhatIsNoState(t *testing.T) {
	for name, change := range map[string]func(*checkpoint.State){
		"gaps that overlap":     func(s *checkpoint.State) { s.Position.Gaps[1].First = 0 },
		"gaps that descend":     func(s *checkpoint.State) { s.Position.Gaps[2] = ledger.Gap{First: 3, Last: 4} },
		"a gap backwards":       func(s *checkpoint.State) { s.Position.Gaps[1].First = 10 },
		"a gap beyond the id":   func(s *checkpoint.State) { s.Position.ID = 1 << 63 },
		"a range backwards":     func(s *checkpoint.State) { s.Snapshot = source.Range{First: 2, Last: 1} },
		"an early time":         func(s *checkpoint.State) { s.Saved = time.Time{}.Add(-time.Hour) },
		"a late time of a gap":  func(s *checkpoint.State) { s.Position.Gaps[0].Missed = moment.AddDate(9000, 0, 0) },
		"a late time of a read": func(s *checkpoint.State) { s.Position.Reading.At = moment.AddDate(300_000, 0, 0) },
	} {
		s := example()
		if err := s.Check(); err != nil {
			t.Fatalf("the example: %v", err)
		}
		change(&s)
		if err := s.Check(); err == nil {
			t.Errorf("%s: Check returns nil", name)
		}
		if got, err := checkpoint.DecodeState(checkpoint.AppendState(nil, s)); err == nil {
			t.Errorf("%s: DecodeState returns %+v", name, got)
		}
	}
}

// FuzzDecodeState feeds bodies with a good checksum, so that damage reaches the decoder: it never
// panics, and what it accepts passes Check and survives another round.
func FuzzDecodeState(f *testing.F) {
	for _, s := range []checkpoint.State{{}, example()} {
		b := checkpoint.AppendState(nil, s)
		f.Add(b[:len(b)-4])
	}
	f.Add([]byte{})
	f.Add([]byte{2})
	f.Fuzz(func(t *testing.T, body []byte) {
		if _, err := checkpoint.DecodeState(body); err != nil && !errors.Is(err, checkpoint.ErrCorrupt) && !errors.Is(err, checkpoint.ErrNewer) {
			t.Fatalf("an error of no kind: %v", err)
		}
		s, err := checkpoint.DecodeState(seal(bytes.Clone(body)...))
		if err != nil {
			return
		}
		if err := s.Check(); err != nil {
			t.Fatalf("the decoded state is invalid: %v", err)
		}
		again, err := checkpoint.DecodeState(checkpoint.AppendState(nil, s))
		if err != nil || !reflect.DeepEqual(again, s) {
			t.Fatalf("got %+v, %v, want %+v", again, err, s)
		}
	})
}

func BenchmarkStateOfAThousandGaps(b *testing.B) {
	s := checkpoint.State{Saved: moment, Position: ledger.Position{ID: 1 << 40}}
	for i := range uint64(1000) {
		s.Position.Gaps = append(s.Position.Gaps, ledger.Gap{First: 3 * i, Last: 3 * i, Missed: moment})
	}
	buf := checkpoint.AppendState(nil, s)
	b.ReportAllocs()
	for b.Loop() {
		buf = checkpoint.AppendState(buf[:0], s)
		if _, err := checkpoint.DecodeState(buf); err != nil {
			b.Fatal(err)
		}
	}
}
