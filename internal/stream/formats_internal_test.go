package stream

import (
	"errors"
	"math"
	"testing"

	"example.org/bridge/internal/form"
	"example.org/bridge/sink"
)

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
