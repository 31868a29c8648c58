package progress

import (
	"errors"
	"math"
	"slices"
	"testing"

	"example.org/bridge/internal/form"
	"example.org/bridge/sink"
)

// notesOf returns the notes of a part.
func notesOf(t *testing.T, b []byte) (list []note, err error) {
	t.Helper()
	err = parseNotes(b, func(n *note) { list = append(list, *n) })
	return list, err
}

func TestNotes(t *testing.T) {
	var n Notes
	var want []note
	for i, s := range []sink.State{{Epoch: 9, Seq: 40, Floor: 3, Low: 2}, {Epoch: 9, Seq: 41, Floor: 3, Low: 2}, {Epoch: 8, Seq: math.MaxUint64, Since: 7}} {
		origin := []sink.Origin{sink.FromTail, sink.FromLate}[i%2]
		n.Add(s.Seq, origin, &s)
		want = append(want, noteOf(s.Seq, origin, &s))
	}
	part := n.Part(7)
	if got, err := notesOf(t, part.Bytes); err != nil || !slices.Equal(got, want) || part.Number != 7 {
		t.Fatalf("got %+v, %v, want %+v", got, err, want)
	}
	for i := range part.Bytes {
		damaged := slices.Clone(part.Bytes)
		damaged[i] ^= 1
		if _, err := notesOf(t, damaged); !errors.Is(err, ErrDamaged) {
			t.Errorf("byte %d is damaged: %v", i, err)
		}
		if _, err := notesOf(t, part.Bytes[:i]); !errors.Is(err, ErrDamaged) {
			t.Errorf("cut off after %d bytes: %v", i, err)
		}
	}
}

// FuzzNotes has parseNotes read anything with a checksum that is right: what it reads has a form of
// its own, which says the same.
func FuzzNotes(f *testing.F) {
	var n Notes
	for row := range uint64(3) {
		n.Add(row*row, sink.FromTail, &sink.State{Epoch: row / 2, Seq: 5, Floor: row})
	}
	f.Add(n.bytes)
	f.Add([]byte{notesVersion, tailBit, 2, 2, commonBit})
	f.Fuzz(func(t *testing.T, b []byte) {
		list, err := notesOf(t, form.Seal(slices.Clone(b)))
		if err != nil {
			if !errors.Is(err, ErrDamaged) {
				t.Fatal(err)
			}
			return
		}
		var again Notes
		for _, one := range list {
			origin := sink.FromLate
			if one.tail {
				origin = sink.FromTail
			}
			again.Add(one.row, origin, &sink.State{Epoch: one.epoch, Seq: one.seq, Floor: one.floor, Since: one.since, Low: one.low})
		}
		if len(list) == 0 {
			return
		}
		if same, err := notesOf(t, again.Part(1).Bytes); err != nil || !slices.Equal(list, same) {
			t.Fatalf("%+v became %+v, %v", list, same, err)
		}
	})
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
