package stream

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"example.org/bridge/internal/form"
	"example.org/bridge/sink"
	"example.org/bridge/tests/must"
)

// stored returns a message with the headers that catch-up reads.
func stored(state string) *sink.Stored {
	header := func(name, value string) sink.Header { return sink.Header{Name: name, Value: []byte(value)} }
	return &sink.Stored{Key: []byte("key"), Value: []byte("{}"), Headers: []sink.Header{
		header(sink.HeaderID, "00112233-4455-6677-8899-aabbccddeeff"), header(sink.HeaderRowID, "18446744073709551615"),
		header(sink.HeaderOrigin, "late"), header(sink.HeaderPublishedAt, "2026-01-02T03:04:05.678Z"), header(sink.HeaderState, state),
	}}
}

func TestParse(t *testing.T) {
	m, err := ParseMessage(stored("1 5 a 0.0.0 x 0 9"))
	if err != nil || string(m.Key) != "key" || m.Row != 1<<64-1 || m.Origin != sink.FromLate || m.Dead || m.State.Seq != 10 ||
		m.Event[1] != 0x11 || !m.Time.Equal(time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC)) {
		t.Errorf("%+v, %v", m, err)
	}
	dead := stored("1 5 a 0.0.0 x 0 9 e=000102030405060708090a0b0c0d0e0f k=a whole key .")
	dead.Headers = append(dead.Headers, sink.Header{Name: sink.HeaderType, Value: []byte(sink.DeadLetterType)})
	if m, err := ParseMessage(dead); err != nil || string(m.Key) != "a whole key " || !m.Dead || m.State.Key != "" || m.State.Event[15] != 15 {
		t.Errorf("%+v, %v", m, err)
	}
}

// TestTheTimeOfTheBusStandsForTheHeader: messages of now have no header of their time.
func TestTheTimeOfTheBusStandsForTheHeader(t *testing.T) {
	m := stored("1 5 a 0.0.0 x 0 9")
	m.Time = 1_700_000_000_123
	if got, err := ParseMessage(m); err != nil || got.Time.Year() != 2026 {
		t.Errorf("with the header: %v, %v", got.Time, err)
	}
	m.Headers = slices.Delete(m.Headers, 3, 4)
	if got, err := ParseMessage(m); err != nil || got.Time.UnixMilli() != m.Time {
		t.Errorf("without: %v, %v", got.Time, err)
	}
	m.Time = 0
	if got, err := ParseMessage(m); err != nil || !got.Time.IsZero() {
		t.Errorf("without any: %v, %v", got.Time, err)
	}
}

func TestParseRefuses(t *testing.T) {
	for want, change := range map[string]func(*sink.Stored){
		"no header bridge-state":     func(m *sink.Stored) { m.Headers = m.Headers[:4] },
		"newer form":                 func(m *sink.Stored) { m.Headers[4].Value = []byte("2") },
		"seq at byte 3":              func(m *sink.Stored) { m.Headers[4].Value = []byte("1 5") },
		"eiffel-id":                  func(m *sink.Stored) { m.Headers[0].Value = []byte("x") },
		"is not a row id":            func(m *sink.Stored) { m.Headers[1].Value = []byte("18446744073709551616") },
		"no header bridge-row-id":    func(m *sink.Stored) { m.Headers[1].Value = nil },
		"\"12a\" is not a row id":    func(m *sink.Stored) { m.Headers[1].Value = []byte("12a") },
		"\"9999999999999999999999\"": func(m *sink.Stored) { m.Headers[1].Value = []byte("9999999999999999999999") },
	} {
		m := stored("1 5 a 0.0.0 x 0 9")
		change(m)
		if _, err := ParseMessage(m); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	m := stored("1 5 a 0.0.0 x 0 9")
	m.Headers[3].Value = []byte("2026-01-02T03:04:05.678+01:00")
	if got, err := ParseMessage(m); err != nil || !got.Time.IsZero() {
		t.Errorf("another form of a time is %v, %v", got.Time, err)
	}
}

func TestParseAllocatesNothing(t *testing.T) {
	m := stored("1 5 a 0.0.0 x 0 9 k=a whole key .")
	if n := testing.AllocsPerRun(100, func() {
		must.Get(ParseMessage(m))(t)
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestHashes holds that the publisher's hash of a message is the reader's, and that those of others
// differ by each part.
func TestHashes(t *testing.T) {
	m := stored("1 5 a 0.0.0 x 0 9")
	p := must.Get(ParseMessage(m))(t)
	if hashStored(m) != HashMessage([]byte("key"), p.Event, 5, 10) {
		t.Error("the hash of a message of ours is another one")
	}
	other := &sink.Stored{Key: []byte("k"), Value: []byte("v"), Headers: []sink.Header{{Name: "a", Value: []byte("1")}, {Name: "b", Value: []byte("2")}}}
	was := hashStored(other)
	other.Headers[0], other.Headers[1] = other.Headers[1], other.Headers[0]
	if hashStored(other) != was {
		t.Error("the order of headers changes the hash")
	}
	for _, part := range []*[]byte{&other.Key, &other.Value, &other.Headers[0].Value} {
		kept := *part
		if *part = []byte("x"); hashStored(other) == was {
			t.Error("a part does not change the hash")
		}
		*part = kept
	}
}

func TestParseTheSchema(t *testing.T) {
	for name, c := range map[string]struct {
		version, schema string
		want            Schema
	}{
		"both":                           {"1.20.300", "0123456789ab", Schema{[3]uint32{1, 20, 300}, [6]byte{1, 0x23, 0x45, 0x67, 0x89, 0xab}}},
		"none, as of an older version":   {"1.0.0", "", Schema{}},
		"a hash of another length":       {"1.0.0", "0123456789", Schema{}},
		"a hash of other characters":     {"1.0.0", "0123456789xy", Schema{}},
		"two numbers":                    {"1.0", "0123456789ab", Schema{}},
		"four numbers":                   {"1.0.0.0", "0123456789ab", Schema{}},
		"no number":                      {"1..0", "0123456789ab", Schema{}},
		"a number that is not one of us": {"1.0.1234567890", "0123456789ab", Schema{}},
	} {
		m := stored("1 5 a 0.0.0 x 0 9")
		m.Headers = append(m.Headers, sink.Header{Name: sink.HeaderVersion, Value: []byte(c.version)}, sink.Header{Name: sink.HeaderSchema, Value: []byte(c.schema)})
		if got, err := ParseMessage(m); err != nil || got.Schema != c.want {
			t.Errorf("%s: %+v, %v", name, got.Schema, err)
		}
		m.Headers = append(m.Headers, sink.Header{Name: sink.HeaderType, Value: []byte(sink.DeadLetterType)})
		if got, err := ParseMessage(m); err != nil || got.Schema != (Schema{}) {
			t.Errorf("%s, of a dead letter: %+v, %v", name, got.Schema, err)
		}
	}
}

func FuzzHead(f *testing.F) {
	f.Add(head{rebuild: true, epoch: 1_760_000_000_000, seq: 7}.appendTo(nil))
	f.Add(head{trust: true, epoch: math.MaxUint64, seq: math.MaxUint64}.appendTo(nil))
	f.Add([]byte{1, 0, 0x80, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := parseHead(b)
		if err != nil {
			if !errors.Is(err, ErrDamaged) {
				t.Fatal(err)
			}
			return
		}
		if string(h.appendTo(nil)) != string(b) {
			t.Fatalf("%x has another form", b)
		}
	})
}

// FuzzNotes: notes of a former version are read whole or are damaged, whatever is in them.
func FuzzNotes(f *testing.F) {
	sealed := func(body ...byte) []byte { return form.Seal(append([]byte{1}, body...)) }
	// Rows 101 to 103 of the tail, and 50.
	f.Add(sealed(3, 0xca, 1, 0xd8, 1, 0xe8, 7, 3, 0, 0x5a, 1, 2, 2, 1, 2, 2, 2, 0x69, 0xd1, 1, 0xe9, 7, 3, 0, 0x5b))
	f.Add(sealed(2, 2, 2, 1))
	f.Add(sealed())
	f.Add([]byte{2, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, b := range [][]byte{b, sealed(b...)} {
			n := 0
			err := parseNotes(b, func(_ uint64, origin sink.Origin, _ *sink.State) {
				if n++; origin != sink.FromTail && origin != sink.FromLate {
					t.Fatalf("origin %s", origin)
				}
			})
			if err != nil && !errors.Is(err, ErrDamaged) {
				t.Fatal(err)
			}
			// The least that a message takes is its bits and two numbers of a byte.
			if n*3 > len(b) {
				t.Fatalf("%d messages in %d bytes", n, len(b))
			}
		}
	})
}
