package progress

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/internal/form"
	"example.org/bridge/sink"
)

// Notes are messages about a shard that runs. They go to the store, as one part, with the offsets
// of their messages; the owner takes them in with ApplyNotes. The zero value is empty.
type Notes struct {
	bytes []byte
	last  note
}

// note is what a message says of the progress.
type note struct {
	row  uint64
	tail bool
	seq  uint64
	common
}

// common is what is the same in all messages of a batch.
type common struct{ epoch, floor, since, low uint64 }

func noteOf(row uint64, origin sink.Origin, s *sink.State) note {
	return note{row: row, tail: origin == sink.FromTail, seq: s.Seq, common: common{s.Epoch, s.Floor, s.Since, s.Low}}
}

const notesVersion = 1

const (
	tailBit = 1 << iota
	// commonBit: epoch, floor, since and low follow; else they are those of the note before.
	commonBit
)

// Empty reports whether nothing was added.
func (n *Notes) Empty() bool { return len(n.bytes) == 0 }

// Reset forgets what was added.
func (n *Notes) Reset() { n.bytes, n.last = n.bytes[:0], note{} }

// Add adds a message, as Progress.Note would note it: some four bytes.
func (n *Notes) Add(row uint64, origin sink.Origin, s *sink.State) {
	next := noteOf(row, origin, s)
	bits := byte(0)
	if next.tail {
		bits |= tailBit
	}
	if next.common != n.last.common {
		bits |= commonBit
	}
	if n.Empty() {
		n.bytes = append(n.bytes, notesVersion)
	}
	n.bytes = binary.AppendVarint(append(n.bytes, bits), int64(row-n.last.row))
	n.bytes = binary.AppendVarint(n.bytes, int64(s.Seq-n.last.seq))
	if bits&commonBit != 0 {
		n.bytes = form.AppendUints(n.bytes, s.Epoch, s.Floor, s.Since, s.Low)
	}
	n.last = next
}

// Part returns the notes as the part with this number: version (1 byte); of each note its bits (1
// byte), the differences of row and seq from those before (varints) and, where they differ, epoch,
// floor, since and low (unsigned varints); the CRC-32C over all before (4 bytes, little endian).
func (n *Notes) Part(number uint64) store.Part {
	return store.Part{Kind: store.Noted, Number: number, Bytes: form.Seal(bytes.Clone(n.bytes))}
}

// parseNotes calls each for the notes of a part. The error wraps ErrDamaged; then each may have
// been called for some.
func parseNotes(b []byte, each func(*note)) error {
	r, last := form.Open(b, notesVersion), note{}
	for len(r.Rest) > 0 {
		if last.read(&r); r.Err == nil {
			each(&last)
		}
	}
	if r.Err != nil {
		return fmt.Errorf("%w: notes: %w", ErrDamaged, r.Err)
	}
	return nil
}

// read makes n the next note.
func (n *note) read(r *form.Reader) {
	bits := r.Bytes(1)[0]
	n.row += uint64(r.Int())
	n.seq += uint64(r.Int())
	n.tail = bits&tailBit != 0
	if bits&commonBit != 0 {
		n.epoch, n.floor, n.since, n.low = r.Uint(), r.Uint(), r.Uint(), r.Uint()
	}
}

// ApplyNotes notes the messages of the notes in the store that were not applied before. The next
// change removes these: each is in the store as a note, or in what the store has of the progress.
// now is the time for Fill. After an error the progress is not used again.
func (p *Progress) ApplyNotes(now time.Time) error {
	for one, err := range p.notes(p.appliedNotes + 1) {
		if err != nil {
			return err
		}
		err := parseNotes(one.Bytes, p.note)
		if err != nil {
			return fmt.Errorf("notes %d: %w", one.Number, err)
		}
		p.appliedNotes = one.Number
		p.spent = append(p.spent, store.Part{Kind: store.Noted, Number: one.Number})
		// Invariant 7: not the rows of all of them at once.
		p.Fill(now)
	}
	return nil
}

// AppliedNotes returns the highest number of a part of notes that was applied, 0 for none.
func (p *Progress) AppliedNotes() uint64 { return p.appliedNotes }
