package verify

import (
	"hash/maphash"

	"bridge/sink"
)

// facts are the events of a release shard.
type facts struct {
	byRow map[uint64]fact
	// newest holds, by key, the last first occurrence.
	newestOf map[key]newest
}

// fact is the event of one row.
type fact struct {
	// id begins its meta.id, body digests its bytes.
	id, body uint64
	// time is meta.time in milliseconds, four times that and the proof.
	time int64
}

// newest is the row that came last of a key, and whether it was published late.
type newest struct {
	row  uint64
	late bool
}

func newFacts() *facts {
	return &facts{byRow: make(map[uint64]fact), newestOf: make(map[key]newest)}
}

func (f fact) proof() proof  { return proof(f.time & 3) }
func (f fact) millis() int64 { return f.time >> 2 }

// foldFact takes in an event of a release stream that was spread last.
func (s *shard) foldFact(m *Message, e *envelope, f finding) {
	this := fact{id: short(e.uuid), body: maphash.Bytes(seed1, m.Value), time: e.time<<2 | int64(f.proof)}
	before, known := s.byRow[e.row]
	switch {
	case !known:
		if f.proof == unproven {
			s.unproven++
		}
	case before.id != this.id:
		s.tally.fault(Extra, s.example(m, e, "it is a second event of the row"))
	case before.body != this.body:
		s.repeats++
		if f.proof != refuted {
			s.tally.fault(Altered, s.example(m, e, "it repeats an event with other bytes"))
		}
	default:
		s.repeats++
	}
	s.byRow[e.row] = this
	if known || !f.keyed {
		return
	}
	late := m.Header.Origin == string(sink.FromLate) || m.Header.Origin == string(sink.FromReconcile)
	last, ok := s.newestOf[f.key]
	if ok && e.row < last.row && !late && !last.late {
		s.tally.fault(OutOfOrder, s.example(m, e, "it came behind a later row of its key"))
	}
	if !ok || e.row > last.row {
		s.newestOf[f.key] = newest{e.row, late}
	}
}
