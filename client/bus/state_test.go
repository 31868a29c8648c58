package bus_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"example.org/bridge/client/bus"
)

// inDecision is the example of docs/events.md.
const inDecision = "1 19ab3c4d5e6f 2a1 0.1f4.7 Rn3kUZ0pT8m1hQxv2bYc9A 0 5be1c2d9"

var digest = [16]byte{0x46, 0x7d, 0xe4, 0x51, 0x9d, 0x29, 0x4f, 0xc9, 0xb5, 0x85, 0x0c, 0x6f, 0xd9, 0xb6, 0x1c, 0xf4}

func TestStates(t *testing.T) {
	base := bus.State{Epoch: 0x19ab3c4d5e6f, Seq: 0x2a1, Acked: 0x1f4, Index: 7, Digest: digest, Hash: 0x5be1c2d9}
	with := func(change func(*bus.State)) bus.State {
		s := base
		change(&s)
		return s
	}
	tests := map[string]struct {
		state bus.State
		text  string
	}{
		"the example of docs/events.md": {base, inDecision},
		"zero":                          {bus.State{}, "1 0 0 0.0.0 AAAAAAAAAAAAAAAAAAAAAA 0 0"},
		"tombstone": {
			with(func(s *bus.State) { s.Kind, s.Digest = bus.StateTombstone, [16]byte{} }),
			"1 19ab3c4d5e6f 2a1 0.1f4.7 t 0 5be1c2d9",
		},
		"absent behind a floor": {
			with(func(s *bus.State) { s.Kind, s.Digest, s.Floor = bus.StateAbsent, [16]byte{}, 255 }),
			"1 19ab3c4d5e6f 2a1 0.1f4.7 x ff 5be1c2d9",
		},
		"since":            {with(func(s *bus.State) { s.Floor, s.Since = 16, 0xabc }), strings.Replace(inDecision, " 0 5b", " 10@abc 5b", 1)},
		"since, no floor":  {with(func(s *bus.State) { s.Since = 1 }), strings.Replace(inDecision, " 0 5b", " 0@1 5b", 1)},
		"low":              {with(func(s *bus.State) { s.Low = 0x10 }), inDecision + " l=10"},
		"event":            {with(func(s *bus.State) { s.Event[15] = 0xa }), inDecision + " e=0000000000000000000000000000000a"},
		"key":              {with(func(s *bus.State) { s.Key = "red+7" }), inDecision + " k=red+7."},
		"a blank as key":   {with(func(s *bus.State) { s.Key = " " }), inDecision + " k= ."},
		"a dot as key":     {with(func(s *bus.State) { s.Key = "." }), inDecision + " k=.."},
		"NULL as key":      {with(func(s *bus.State) { s.Key = "%" }), inDecision + " k=%."},
		"a key like flags": {with(func(s *bus.State) { s.Key = " l=1 k=." }), inDecision + " k= l=1 k=.."},
		"all of a dead letter": {
			with(func(s *bus.State) { s.Low, s.Event, s.Key = 1, digest, "a b. " }),
			inDecision + " l=1 e=467de4519d294fc9b5850c6fd9b61cf4 k=a b. .",
		},
		"the highest": {
			bus.State{
				Epoch: bus.MaxEpoch, Seq: math.MaxUint64, Term: math.MaxUint32, Acked: math.MaxUint32, Index: math.MaxUint32, Kind: bus.StateAbsent,
				Floor: math.MaxUint64, Since: bus.MaxEpoch, Low: math.MaxUint64, Hash: math.MaxUint32,
			},
			"1 3fffffffffffffff ffffffffffffffff ffffffff.ffffffff.ffffffff x ffffffffffffffff@3fffffffffffffff ffffffff l=ffffffffffffffff",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := string(bus.AppendState(nil, &tt.state)); got != tt.text {
				t.Errorf("the text is\n%s, want\n%s", got, tt.text)
			}
			if got, err := bus.ParseState(tt.text); err != nil || got != tt.state {
				t.Errorf("the state is %+v, %v\nwant %+v", got, err, tt.state)
			}
		})
	}
}

func TestStatesAreRefused(t *testing.T) {
	for _, text := range []string{
		"", "01 1 1 0.0.0 t 0 0", "1  1 1 0.0.0 t 0 0", "1 00 1 0.0.0 t 0 0", "1 A 1 0.0.0 t 0 0",
		"1 0x1 1 0.0.0 t 0 0", "1 4000000000000000 1 0.0.0 t 0 0", "1 1 1 0.0.0 t 0@4000000000000000 0",
		"1 10000000000000000 1 0.", "1 1 1 100000000.0.0 t", "1 1 1 0 t 0 0",
		"1 1 1 0.0.0 tt 0 0", "1 1 1 0.0.0 AAAAAAAAAAAAAAAAAAAAA 0 0", "1 1 1 0.0.0 AAAAAAAAAAAAAAAAAAAAAAA 0 0",
		"1 1 1 0.0.0 AAAAAAAAAAAAAAAAAAAAAB 0 0", "1 1 1 0.0.0 AAAAAAAAAAAAAAAAAAAA\n\n 0 0",
		"1 1 1 0.0.0 AAAAAAAAAAAAAAAAAAAA+/ 0 0", "1 1 1 0.0.0 t", "1 1 1 0.0.0 t 1@", "1 1 1 0.0.0 t 1@0 0",
		"1 1 1 0.0.0 t 0 100000000", "1 1 1 0.0.0 t 0 0\n", "1 1 1 0.0.0 t 0 0 z=1", "1 1 1 0.0.0 t 0 0 l=0",
		"1 1 1 0.0.0 t 0 0 l=1 l=1", "1 1 1 0.0.0 t 0 0 e=00000000000000000000000000000000",
		"1 1 1 0.0.0 t 0 0 e=467DE4519d294fc9b5850c6fd9b61cf4", "1 1 1 0.0.0 t 0 0 e=467de4519d294fc9b5850c6fd9b61cf4a",
		"1 1 1 0.0.0 t 0 0 e=467de4519d294fc9b5850c6fd9b61cf4 l=1", "1 1 1 0.0.0 t 0 0 k=.", "1 1 1 0.0.0 t 0 0 k=key",
		"1 19ab3c4d5e6f 2a1 0.1f4.7 Rn3kUZ0pT8m1hQxv2bYc9A 0 5be1c2d9 k=a. ",
		"1 19ab3c4d5e6f 2a1 0.1f4.7\tRn3kUZ0pT8m1hQxv2bYc9A 0 5be1c2d9 k=a. b. ",
	} {
		if s, err := bus.ParseState(text); err == nil || s != (bus.State{}) || errors.Is(err, bus.ErrNewerForm) {
			t.Errorf("%q: %+v, %v", text, s, err)
		}
	}
}

func TestANewerFormIsSaid(t *testing.T) {
	for text, newer := range map[string]bool{"2": true, "2 of anything": true, "a 1 1": true, "10 1": true, "2\tof": true, "02 1": false, "A": false} {
		if _, err := bus.ParseState(text); errors.Is(err, bus.ErrNewerForm) != newer {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := bus.ParseState("1 1 1 0.0.0 tt 0 0"); err == nil || !strings.Contains(err.Error(), "digest at byte 12 of") {
		t.Errorf("the error does not say where: %v", err)
	}
}

func TestStatesAllocateNothing(t *testing.T) {
	s := bus.State{Epoch: 1 << 60, Seq: 1 << 60, Digest: digest, Floor: 1, Since: 2, Low: 3, Event: digest, Key: strings.Repeat("k", 1000)}
	buf := bus.AppendState(nil, &s)
	text := string(buf)
	if n := testing.AllocsPerRun(100, func() { buf = bus.AppendState(buf[:0], &s) }); n > 0 {
		t.Errorf("AppendState allocates %v times", n)
	}
	var got bus.State
	if n := testing.AllocsPerRun(100, func() { got, _ = bus.ParseState(text) }); n > 0 {
		t.Errorf("ParseState allocates %v times", n)
	}
	if got != s {
		t.Errorf("%+v, want %+v", got, s)
	}
}

func FuzzState(f *testing.F) {
	f.Add(uint64(0x19ab3c4d5e6f), uint64(0x2a1), uint32(1), uint32(0x1f4), uint32(7), uint8(0), digest[:], uint64(0), uint64(0), uint64(0), uint32(9), []byte{}, "")
	f.Add(uint64(0), uint64(0), uint32(0), uint32(0), uint32(0), uint8(1), []byte{}, uint64(1), uint64(2), uint64(3), uint32(0), digest[:], " a.b%20 . ")
	f.Add(uint64(bus.MaxEpoch), uint64(1), uint32(math.MaxUint32), uint32(0), uint32(0), uint8(2), []byte{}, uint64(0), uint64(1), uint64(0), uint32(0), []byte{}, ".")
	f.Fuzz(func(t *testing.T, epoch, seq uint64, term, acked, index uint32, kind uint8, digest []byte, floor, since, low uint64, hash uint32, event []byte, key string) {
		s := bus.State{
			Epoch: epoch & bus.MaxEpoch, Seq: seq, Term: term, Acked: acked, Index: index, Kind: bus.StateKind(kind % 3),
			Floor: floor, Since: since & bus.MaxEpoch, Low: low, Hash: hash, Key: key,
		}
		if copy(s.Event[:], event); s.Kind == bus.StateLive {
			copy(s.Digest[:], digest)
		}
		text := string(bus.AppendState(nil, &s))
		if got, err := bus.ParseState(text); err != nil || got != s {
			t.Fatalf("%q is read as %+v, %v\nwant %+v", text, got, err, s)
		}
	})
}

func FuzzStateText(f *testing.F) {
	for _, text := range []string{
		inDecision, inDecision + " l=1f e=467de4519d294fc9b5850c6fd9b61cf4 k= a.b%20 . .", "1 0 0 0.0.0 t 0@1 0", "1 0 0 0.0.0 x 0 0 k=..",
		"1 0 0 0.0.0 x 0 0 k=.", "1 0 0 0.0.0 AAAAAAAAAAAAAAAAAAAAAB 0 0", "2 0", "1 00 0 0.0.0 x 0 0 l=0",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := bus.ParseState(text)
		if err != nil {
			return
		}
		if got := string(bus.AppendState(nil, &s)); got != text {
			t.Fatalf("%q is written as %q", text, got)
		}
	})
}

func TestFaultIsOptional(*testing.T) { bus.Fault(nil).Fail("who", "topic/0", errors.New("away")) }
