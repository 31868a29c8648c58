package verify

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"

	"bridge/sink"
)

// facts are the events of a release shard.
type facts struct {
	byRow map[uint64]fact
	// newestOf holds, by the beginning of the key, twice the row that came last, plus one where it
	// was published late.
	newestOf map[uint64]uint64
	strays
}

// fact is the event of one row.
type fact struct {
	// id begins its meta.id, body digests its bytes.
	id, body uint64
	// time is meta.time in milliseconds, and in the lowest nine bits whether bridge-state has the
	// digest that its id is made of, the number of its form, whether no row makes its members, and
	// the proof.
	time int64
	// identity tells the row from another one under its id, see shard.identityOf.
	identity uint64
}

func newFacts() *facts {
	return &facts{byRow: make(map[uint64]fact), newestOf: make(map[uint64]uint64), strays: make(strays)}
}

func (f fact) proof() proof  { return proof(f.time & 3) }
func (f fact) unusual() bool { return f.time&unusual != 0 }
func (f fact) stated() bool  { return f.time&stated != 0 }
func (f fact) millis() int64 { return f.time >> 9 }
func (f fact) form() int64   { return f.time >> 3 & manyForms }

// unusual is the bit of fact.time for members that no row makes, stated that for a digest in
// bridge-state that fits meta.id.
const unusual, stated = 1 << 2, 1 << 8

// foldFact takes in an event of a release stream that was spread last.
func (s *shard) foldFact(m *Message, e *envelope, f finding, stamp *stamp) {
	this := fact{id: short(e.uuid), body: bodyOf(m.format(), m.Value, e.time), time: e.time<<9 | s.numberOf(form{f.form, f.variant})<<3 | int64(f.proof), identity: s.identityOf()}
	if f.variant != nil && (f.variant.strange || f.variant.encoder == nil) || this.form() == manyForms {
		this.time |= unusual
	}
	if stamp.epoch != 0 {
		// Else it was refuted.
		this.time |= stated
	}
	before, known := s.byRow[e.row]
	repeat := known && before.id == this.id
	s.noteRepeat(m, e, f, stamp, repeat, stamp.state.Since != 0)
	switch {
	case !known:
		if f.proof == unproven {
			s.unproven++
		}
	case before.id != this.id:
		s.tally.fault(Extra, s.example(m, e, "it is a second event of the row"))
	case before.body != this.body && before.form() == this.form():
		if f.proof == proven || f.proof == unproven {
			s.tally.fault(Altered, s.example(m, e, "it repeats an event with other bytes"))
		}
	}
	s.byRow[e.row] = this
	s.homes.note(s.facts.strays, e.row, s, m, e.row, stamp)
	// Where the key is the id, nothing has an order.
	if key := s.columns.Key; !known && f.keyed && !(len(key) == 1 && key[0] == s.columns.ID) {
		s.order(m, e, binary.BigEndian.Uint64(f.key[:]))
	}
}

// order judges the position of a first occurrence among the events of its key.
func (s *shard) order(m *Message, e *envelope, key uint64) {
	this := e.row << 1
	if m.Header.Origin == string(sink.FromLate) || m.Header.Origin == string(sink.FromReconcile) {
		this |= 1
	}
	last, ok := s.newestOf[key]
	if ok && this>>1 < last>>1 && (this|last)&1 == 0 {
		s.tally.fault(OutOfOrder, s.example(m, e, "it came after a later row of its key"))
	}
	if !ok || this>>1 > last>>1 {
		s.newestOf[key] = this
	}
}

// byKey is the bit of an identity that comes from the key, not from CREATED.
const byKey = 1

// identityOf digests what tells the row whose event was spread last from another one under its id:
// CREATED, unless an update changes that, else the key unless that is the id; 0 where there is
// nothing.
func (s *schema) identityOf() uint64 {
	if c := s.columns.Created; c >= 0 && !s.columns.CreatedMoves && s.raws[c] != nil && string(s.raws[c]) != "null" {
		created := s.raws[c]
		if isMoment(created) && created[20] == '.' {
			// Its precision may have changed.
			created = bytes.TrimRight(bytes.TrimRight(created[:len(created)-2], "0"), ".")
		} else if isMoment(created) {
			created = created[:len(created)-2]
		}
		return max(2, maphash.Bytes(seed1, created)&^byKey)
	}
	if key := s.columns.Key; len(key) == 1 && key[0] == s.columns.ID {
		return 0
	}
	// The key has no part of the id's.
	if k, ok := s.keyOf(0); ok {
		return binary.BigEndian.Uint64(k[:8]) | byKey
	}
	return 0
}

// anotherRow reports whether an event is about another row than the one whose event was spread
// last, though their ids are the same.
func (s *schema) anotherRow(f fact) bool {
	row := s.identityOf()
	return f.identity != 0 && row != 0 && f.identity&byKey == row&byKey && f.identity != row
}
