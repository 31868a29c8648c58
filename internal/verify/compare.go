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

type facts struct {
	byRow map[uint64]fact
	// newestOf holds, by the beginning of the key and the partition, twice the row that came last,
	// plus one where it was published late. Partitions are read one after the other.
	newestOf map[uint64]uint64
}

type fact struct {
	// id begins its meta.id, body digests its members, millis is meta.time.
	id, body uint64
	millis   int64
	// identity tells the row from another one under its id, see schema.identityOf.
	identity uint64
	proof    proof
	// usual: it has the members that the table makes now. hasRow: a row with its id was read.
	usual, hasRow bool
}

// byKey is the bit of an identity that comes from the key, not from CREATED.
const byKey = 1

func (s *table) foldFact(m *Message, e *envelope, v *verdict, stamp *stamp) {
	this := fact{
		id: short(e.uuid), body: s.bodyOf(e.members), millis: e.time, identity: s.identityOf(&v.body, v.key), proof: v.proof, usual: v.usual,
	}
	before, known := s.byRow[e.row]
	repeat := known && before.id == this.id
	s.noteRepeat(m, e, v, stamp, repeat, stamp.Since != 0)
	switch {
	case !known:
		if v.proof == unproven {
			s.unproven++
		}
	case !repeat:
		s.add(extra, 1, s.example(m, e, v, "it is a second event of the row"))
	case before.body != this.body && before.usual && v.usual && (v.proof == proven || v.proof == unproven):
		s.add(altered, 1, s.example(m, e, v, "it repeats an event with other bytes"))
	}
	s.byRow[e.row] = this
	// Where the key is the id, nothing has an order.
	if known || v.key == nil || s.keyIsID() {
		return
	}
	newest := e.row << 1
	switch sink.Origin(m.header[sink.HeaderOrigin]) {
	case sink.FromLate, sink.FromReconcile, sink.FromRepublish:
		newest |= 1
	}
	whole := keyOf(v.key)
	k := binary.BigEndian.Uint64(whole[:8]) ^ uint64(m.partition)*0x9e3779b97f4a7c15
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
	if i := slices.Index(b.at, s.columns.Created); i >= 0 && !s.columns.CreatedMoves && string(b.members[i].Value) != "null" {
		created := b.members[i].Value
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
		case !f.hasRow:
			gone++
		}
	}
	s.add(purged, gone)
}

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
	// entity is nil where the bus has no event.
	entity *entity
	// sum digests the row and the event as they were compared.
	sum uint64
	key string
}

func (s *table) compare(row source.Row, now time.Time) comparison {
	l := comparison{row: row.ID, now: now, since: now}
	if row.Stale || s.Kind == event.Capability && s.columns.Keyless(row.Values) >= 0 {
		// It counts as a row that is not there, and that with NULL in its key is none of an entity.
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
			f.hasRow = true
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
		s.compareFact(&f, &ev, &l)
		f.hasRow = true
		s.byRow[row.ID] = f
	case !row.Filtered:
		l.fault, l.what = missing, "it has no event"
		for shard, events := range s.run.formers {
			id, known := events[row.ID]
			if !known || shard.stream != s.Stream {
				continue
			}
			// Another table, which is gone, may have had the id of the row: only the digest tells.
			said := event.Said{Row: row.ID, Op: event.Published, Shard: shard.name}
			if short(s.Encoder.IDOf(&said, row.Values, ev.Digest)) == id {
				l.fault, l.reason, l.what = "", renamed, "its event is of the table's former name "+shard.name
				break
			}
		}
	}
	return l
}

func (s *table) compareFact(f *fact, ev *event.Event, l *comparison) {
	later := !ev.FromClock && ev.Time.UnixMilli() > f.millis
	switch same := short(ev.UUID) == f.id; {
	case f.proof == refuted:
		// That was reported already.
	case same && !f.usual:
		// Its members are not those of the row: it is judged by itself.
	case same && f.body == s.bodyOf(s.row.members):
		s.confirm(&f.proof, func(e Example) bool { return e.Event == ev.ID })
	case f.proof == doubted:
		// That is reported in the end.
	case same && later:
		// Only its times have changed.
	case same:
		l.fault, l.what = altered, "its meta.id is that of the row, but its bytes are not"
	case isAnother(f.identity, s.identityOf(&s.row, ev.Key)):
		l.fault, l.what = altered, "its id belongs to another row now: ids are used again, and this row has no event"
	case f.usual || later:
		l.reason, l.what = changed, "the row was changed after its event"
	case f.proof == proven:
		l.reason, l.what = changed, "its event has other columns or types than the table now"
	}
}

func isAnother(a, b uint64) bool { return a != 0 && b != 0 && a&byKey == b&byKey && a != b }

// compareEntity compares the row that was encoded last with the last event of its entity.
func (s *table) compareEntity(row event.Row, ev *event.Event, l *comparison) {
	n := s.index[keyOf(ev.Key)]
	if n == nil {
		// Nothing has to be published of a row that is deleted.
		if digest, err := s.Encoder.Digest(row.Row); err != nil || !digest.Deleted {
			l.fault, l.what = missing, "it has no event"
		}
		return
	}
	if !n.seen {
		n.seen, n.fits, n.seenBy, n.seenRow = true, false, s, row.ID
	}
	if n.seenBy != s {
		n.double, n.shared = true, true
	}
	l.double, l.entity, l.sum = n.double, n, l.sum^n.last
	s.compareLast(row, ev, n, l)
	if l.fault == stale && n.overtaken {
		l.what += "; it came behind one with a higher stamp"
	}
	n.fits = n.fits || l.fault == ""
}

// compareLast compares a row with the last event of its entity, which may be of another table, by
// their digests, as bridge does. Where the members of the event do not make its digest, they are
// compared with those that its table makes of the row.
func (s *table) compareLast(row event.Row, ev *event.Event, n *entity, l *comparison) {
	of, deleted, err := n.shard, ev.Op == event.Deleted, error(nil)
	if of != s && !of.isFormer() {
		row, err = of.adopt(&s.schema, row)
	}
	differs := func(what string) { l.fault, l.what = stale, what }
	switch {
	case n.proof == refuted && deleted == n.dead:
		// That was reported already.
	case deleted && n.dead:
		if of.makes(row.Values, ev, n, event.Said{Op: event.Deleted, Reason: tombstone}, event.Said{Op: event.Deleted, Reason: filtered}) {
			of.confirm(&n.proof, n.isExample)
		}
	case deleted && row.Filtered:
		differs("the row does not match the condition of the stream, the last event says that it lives")
	case deleted:
		differs("the row is marked as deleted, the last event says that it lives")
	case n.dead:
		differs("the row is there, the last event says that it is gone")
	case ev.Digest != n.digest && !of.makes(row.Values, ev, n, event.Said{Op: event.Added}, event.Said{Op: event.Modified}):
		differs("the last event says another state")
	case n.proof == proven || !n.comparable || err != nil:
		// Its members are not those that the row makes now.
	case of.stateOf(&of.row) == n.state:
		of.confirm(&n.proof, n.isExample)
	case n.proof == unproven:
		l.fault, l.what = altered, "its meta.id is that of the row's state, but it says another"
	}
	if of != s && l.fault != "" {
		l.what += ", and is of the table " + of.Name
	}
}

// confirm notes that the row that was encoded last proves an event, which is in these examples.
func (s *table) confirm(p *proof, is func(Example) bool) {
	switch *p {
	case unproven:
		s.unproven--
	case doubted:
		if found := s.doubts[doubt{s.present(&s.row), nil}]; found != nil && found.Count > 0 {
			found.Count--
			found.Examples = slices.DeleteFunc(found.Examples, is)
		}
	}
	*p = proven
}

// makes reports whether the digest of a row makes the meta.id of the last event, as one that says
// one of these things of it. Nothing else tells that of a tombstone, or of an event whose
// bridge-state cannot be read.
func (s *schema) makes(values [][]byte, ev *event.Event, n *entity, as ...event.Said) bool {
	return !s.isFormer() && slices.ContainsFunc(as, func(said event.Said) bool {
		said.Row, said.Predecessor = n.row, event.FormatID(n.link)
		return short(s.Encoder.IDOf(&said, values, ev.Digest)) == n.last
	})
}
