package verify

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"time"

	"example.org/bridge/event"
	"example.org/bridge/sink"
	"example.org/bridge/source"
)

// facts are the events of a release shard.
type facts struct {
	byRow map[uint64]fact
	// newestOf holds, by the beginning of the key, twice the row that came last, plus one where it
	// was published late.
	newestOf map[uint64]uint64
	strays   strays
	// made are readings of facts that are not as the table makes them now, by number from 1.
	made []*reading
}

// fact is the event of one row.
type fact struct {
	// id begins its meta.id, body digests its members.
	id, body uint64
	// time is meta.time in milliseconds, shifted by timeBits, above its proof, the number of its
	// shape and the bits below.
	time int64
	// identity tells the row from another one under its id, see shard.identityOf.
	identity uint64
}

const (
	// isUnusual: no row makes its members. isStated: the digest in bridge-state fits its meta.id.
	// hasRow: a row with its id was read.
	isUnusual, shapeShift, isStated, hasRow, timeBits = 1 << 2, 3, 1 << 8, 1 << 9, 10
	// manyShapes is the number of a fact whose columns have no number of their own.
	manyShapes = 1<<5 - 1
	// byKey is the bit of an identity that comes from the key, not from CREATED.
	byKey = 1
)

func newFacts() *facts {
	return &facts{byRow: make(map[uint64]fact), newestOf: make(map[uint64]uint64), strays: make(strays)}
}

func (f fact) proof() proof  { return proof(f.time & 3) }
func (f fact) unusual() bool { return f.time&isUnusual != 0 }
func (f fact) millis() int64 { return f.time >> timeBits }
func (f fact) shape() int    { return int(f.time >> shapeShift & manyShapes) }

// numberOf returns the number of those readings that have the same members of the same columns: 0
// for what the table makes now, manyShapes where there are too many.
func (s *table) numberOf(r *reading) int {
	if r.usual {
		return 0
	}
	sameName := func(a, b event.RawMember) bool { return bytes.Equal(a.Name, b.Name) }
	n := 1 + slices.IndexFunc(s.made, func(o *reading) bool {
		return slices.Equal(o.at, r.at) && slices.Equal(o.columns, r.columns) && slices.EqualFunc(o.members, r.members, sameName)
	})
	if n == 0 {
		if n = len(s.made) + 1; n >= manyShapes {
			return manyShapes
		}
		kept := *r
		kept.members = make([]event.RawMember, len(r.members))
		for i, m := range r.members {
			kept.members[i].Name = bytes.Clone(m.Name)
		}
		s.made = append(s.made, &kept)
	}
	return n
}

// makeAs returns the beginning of the meta.id and the digest of the members that a row would have
// had with the columns of a reading.
func (s *table) makeAs(r *reading, row source.Row) (id, body uint64) {
	values, members := make([][]byte, len(row.Values)), slices.Clone(r.members)
	for i, c := range r.at {
		members[i].Value = []byte("null")
		if c < len(values) {
			members[i].Value = s.Encoder.AppendValue(nil, &r.columns[i], row.Values[c])
			// A time may have had fewer digits.
			exact := false
			if values[c], exact, _ = invert(r.columns[i], s.Zone, members[i].Value); !exact {
				values[c] = row.Values[c]
			}
		}
	}
	for _, c := range s.columns.Key {
		values[c] = row.Values[c]
	}
	said := event.Said{Row: row.ID, Op: event.Published}
	return short(s.Encoder.IDOf(&said, values, s.digest(r.at, values, nil))), s.bodyOf(members)
}

// foldFact takes in an event of a release stream.
func (s *table) foldFact(m *Message, e *envelope, v *verdict, stamp *stamp) {
	number := s.numberOf(v.reading)
	this := fact{id: short(e.uuid), body: s.bodyOf(e.members), time: e.time<<timeBits | int64(number)<<shapeShift | int64(v.proof), identity: s.identityOf(&v.body, v.key)}
	if v.strange || number == manyShapes {
		this.time |= isUnusual
	}
	if stamp.epoch != 0 {
		// Else it was refuted.
		this.time |= isStated
	}
	before, known := s.byRow[e.row]
	repeat := known && before.id == this.id
	s.noteRepeat(m, e, v, stamp, repeat, stamp.state.Since != 0)
	switch {
	case !known:
		if v.proof == unproven {
			s.unproven++
		}
	case !repeat:
		s.add(extra, 1, s.example(m, e, v, "it is a second event of the row"))
	case before.body != this.body && before.shape() == number && (v.proof == proven || v.proof == unproven):
		s.add(altered, 1, s.example(m, e, v, "it repeats an event with other bytes"))
	}
	s.byRow[e.row] = this
	// Where the key is the id, nothing has an order.
	if known || v.key == nil || s.keyIsID() {
		return
	}
	newest, late := e.row<<1, m.Header[sink.HeaderOrigin] == string(sink.FromLate) || m.Header[sink.HeaderOrigin] == string(sink.FromReconcile)
	if late {
		newest |= 1
	}
	whole := keyOf(v.key)
	k := binary.BigEndian.Uint64(whole[:8])
	last, ok := s.newestOf[k]
	if ok && newest>>1 < last>>1 && (newest|last)&1 == 0 {
		s.add(outOfOrder, 1, s.example(m, e, v, "it came after a later row of its key"))
	}
	if !ok || newest>>1 > last>>1 {
		s.newestOf[k] = newest
	}
}

func (s *schema) keyIsID() bool { return len(s.columns.Key) == 1 && s.columns.Key[0] == s.columns.ID }

// identityOf digests what tells the row of an event from another one under its id: CREATED, unless
// an update changes that, else the key unless that is the id; 0 where there is nothing.
func (s *schema) identityOf(b *body, key []byte) uint64 {
	if created := b.member(s.columns.Created); created != nil && !s.columns.CreatedMoves && string(created) != "null" {
		if isTimestamp(created) {
			created = created[:len(created)-2]
			if len(created) > 20 {
				// Its precision may have changed.
				created = bytes.TrimRight(bytes.TrimRight(created, "0"), ".")
			}
		}
		return max(2, maphash.Bytes(seed, created)&^byKey)
	}
	if key == nil || s.keyIsID() {
		return 0
	}
	return maphash.Bytes(seed, key) | byKey
}

// isWhole reports whether no row of a release can be gone for which an event was lost: each row has
// its event, and there is a row for each id and each event.
func (s *table) isWhole() bool {
	return s.facts == nil || s.rows == uint64(len(s.byRow)) && s.rows == s.lastRow-s.firstRow+1
}

// finishFacts tells events of rows that are gone from events of rows that never were: their ids,
// from next on, have not been given out.
func (s *table) finishFacts(next uint64) {
	if next == 0 {
		next = math.MaxUint64
	}
	gone := uint64(0)
	for row, f := range s.byRow {
		switch {
		case row >= next:
			s.add(extra, 1, Example{Shard: s.Name, Row: row, What: fmt.Sprintf("the table has not given out its id yet, the next one is %d", next), partition: -1})
		case f.time&hasRow == 0:
			gone++
		}
	}
	s.add(purged, gone)
}

// comparison is the finding about one row.
type comparison struct {
	row uint64
	// now is the database's clock when it was read, since when what it says was seen first, time
	// the row's own, zero where it has none.
	now, since, time time.Time
	// fault is empty when all is well; reason, when set, is why it was not judged.
	fault, reason Code
	what          string
	// moved says that it is another state than at the look before, double that a row of another
	// table has the same key.
	moved, double bool
	// entity is an index into entities.chunks, none where the bus has no event.
	entity uint32
	// sum digests the row and the event as they were compared.
	sum uint64
	// key is the entity's as text.
	key string
}

const none = ^uint32(0)

// compare compares a row, read when the database's clock stood at now, with what the bus says.
func (s *table) compare(row source.Row, now time.Time) comparison {
	l := comparison{row: row.ID, now: now, since: now, entity: none}
	if row.Stale {
		// It counts as a row that is not there.
		return l
	}
	input := event.Row{Row: row, Read: now}
	ev, err := s.encode(input)
	if err != nil {
		if l.reason, l.what = unreadable, err.Error(); s.Text != nil {
			l.what = s.Text(err)
		}
		if s.facts != nil && s.byRow[row.ID].id != 0 {
			f := s.byRow[row.ID]
			f.time |= hasRow
			s.byRow[row.ID] = f
		}
		return l
	}
	l.time, l.key, l.sum = ev.Time, string(ev.Key), binary.BigEndian.Uint64(ev.Digest[:])^uint64(ev.Time.UnixNano())
	if s.entities != nil {
		s.compareEntity(input, &ev, &l)
		return l
	}
	f, known := s.byRow[row.ID]
	switch {
	case known:
		l.sum ^= f.id
		s.compareFact(&f, row, &ev, &l)
		f.time |= hasRow
		s.byRow[row.ID] = f
	case !row.Filtered:
		l.fault, l.what = missing, "it has no event"
		s.run.compareFormer(s, row, ev.Digest, &l)
	}
	return l
}

// compareFact compares a row of a release with its event, by the columns that the event has.
func (s *table) compareFact(f *fact, row source.Row, ev *event.Event, l *comparison) {
	later := !ev.FromClock && ev.Time.UnixMilli() > f.millis()
	id, body := short(ev.UUID), s.bodyOf(s.row.members)
	if n := f.shape(); n > 0 && n < manyShapes {
		id, body = s.makeAs(s.made[n-1], row)
	}
	switch same := id == f.id; {
	case f.proof() == refuted:
		// That was reported already.
	case same && (body == f.body || f.unusual()):
		if f.proof() == unproven {
			s.unproven--
		} else if f.proof() == doubted {
			s.clearDoubt(ev.ID)
		}
		f.time = f.time&^3 | int64(proven)
	case f.proof() == doubted:
		// That is reported in the end.
	case same && later:
		// Only its times have changed.
	case same:
		l.fault, l.what = altered, "its meta.id is that of the row, but its bytes are not"
	case isAnother(f.identity, s.identityOf(&s.row, ev.Key)):
		l.fault, l.what = altered, "its id belongs to another row now: ids are used again, and this row has no event"
	case f.proof() == proven || later || f.time&isStated != 0 && !f.unusual():
		l.reason, l.what = changed, "the row was changed after its event"
	case f.unusual():
		// A column has come, gone or been renamed, which changed the row. It counts as unproven.
	default:
		l.fault, l.what = altered, "its meta.id is not that of the row"
	}
}

// isAnother reports whether two identities belong to different rows.
func isAnother(a, b uint64) bool { return a != 0 && b != 0 && a&byKey == b&byKey && a != b }

// compareEntity compares the row that was encoded last with the last event of its entity.
func (s *table) compareEntity(row event.Row, ev *event.Event, l *comparison) {
	at, known := s.index[keyOf(ev.Key)]
	if !known {
		// Nothing has to be published of a row that is deleted.
		if digest, err := s.Encoder.Digest(row.Row); err != nil || !digest.Deleted {
			l.fault, l.what = missing, "it has no event"
		}
		return
	}
	n := s.get(at)
	if n.flags&seen == 0 {
		n.flags |= seen
		n.seenBy = s.number
	} else if n.seenBy != s.number {
		n.flags |= double
	}
	l.double, l.entity, l.sum = n.flags&double != 0, at, l.sum^n.last
	s.compareLast(row, ev.Op == event.Deleted, n, l)
	if l.fault == stale && n.flags&overtaken != 0 {
		l.what += "; it came behind one with a higher stamp"
	}
}

// compareLast compares a row with the last event of its entity, which may be of another table.
func (s *table) compareLast(row event.Row, deleted bool, n *entity, l *comparison) {
	of := s
	if n.shard != s.number {
		of = s.tables[n.shard]
		var ok bool
		if row, ok = of.convert(&s.schema, row); !ok {
			l.fault, l.what = stale, "the row has a column that the table of the last event lacks, "+of.Name
			return
		}
	}
	gone := n.flags&dead != 0
	switch {
	case n.flags.proof() == refuted && deleted == gone:
		// That was reported already.
	case deleted && gone:
		if n.flags.proof() != proven {
			if id, fits := of.makes(row.Row, n); fits {
				of.confirm(n, id)
			}
		}
	case deleted && row.Filtered:
		l.fault, l.what = stale, "the row does not match the condition of the stream, the last event says that it lives"
	case deleted:
		l.fault, l.what = stale, "the row is marked as deleted, the last event says that it lives"
	case gone:
		l.fault, l.what = stale, "the row is there, the last event says that it is gone"
	default:
		of.compareState(row.Row, n, l)
	}
	if of != s && l.fault != "" {
		l.what += ", and is of the table " + of.Name
	}
}

// compareState compares the states of a row and of an event that both live.
func (s *table) compareState(row source.Row, n *entity, l *comparison) {
	same := s.stateOf(&s.row) == n.state
	if same && n.flags.proof() == proven {
		return
	}
	switch id, fits := s.makes(row, n); {
	case same && fits:
		s.confirm(n, id)
	case n.flags.proof() == doubted && (same || fits):
		// That is reported in the end.
	case fits && (n.flags.proof() == proven || n.flags&isStrange != 0):
		// A column has changed its type or its member, which is no news: the digest is the same.
	case same:
		l.fault, l.what = altered, "its meta.id is not that of the state it has"
	case fits:
		l.fault, l.what = altered, "its meta.id is that of the row's state, but it says another"
	default:
		l.fault, l.what = stale, "the last event says another state"
	}
}

// confirm notes that the row that was encoded last proves the last event.
func (s *table) confirm(n *entity, id string) {
	if n.flags.proof() == doubted {
		s.clearDoubt(id)
	} else {
		s.unproven--
	}
	n.flags = n.flags&^proofBits | flags(proven)
}

// makes reports whether the row's state, with the last event's predecessor, has that event's
// meta.id, and returns that.
func (s *schema) makes(row source.Row, n *entity) (id string, fits bool) {
	digest, err := s.Encoder.Digest(row)
	if err != nil {
		return "", false
	}
	said := event.Said{Row: n.row, Predecessor: event.FormatID(n.link)}
	for i, op := range [...]event.Op{event.Added, event.Modified, event.Deleted, event.Deleted} {
		said.Op, said.Reason = op, [...]string{"", "", tombstone, filtered}[i]
		// A type that several operations share does not tell which one it was.
		certain := len(s.operations[s.Encoder.Type(said.Op)]) < 2
		if (said.Op == event.Deleted) != (n.flags&dead != 0) || certain && (said.Op == event.Modified) != (n.flags&modified != 0) {
			continue
		}
		if uuid := s.Encoder.IDOf(&said, row.Values, digest.Sum); short(uuid) == n.last {
			return event.FormatID(uuid), true
		}
	}
	return "", false
}
