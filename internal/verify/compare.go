package verify

import (
	"encoding/binary"
	"time"

	"bridge/event"
	"bridge/source"
)

// verdict is what was found about one row.
type verdict struct {
	// fault is empty when all is well; reason, when set, is why it was not judged.
	fault  Fault
	reason Unjudged
	what   string
	// double says that a row of another table has the same key, silent that the row has no event
	// and needs none.
	double, silent bool
	// entity is an index into entities.chunks, none where the bus has no event.
	entity uint32
	// sum digests the row and the event as they were compared.
	sum uint64
	// time is the row's own, zero where it has none.
	time time.Time
	// key is the entity's for people, entityKey its digest.
	key       string
	entityKey key
}

const none = ^uint32(0)

// compareRow compares a row, read when the database's clock stood at now, with what the bus says.
func (s *shard) compareRow(row source.Row, now time.Time) verdict {
	input := event.Row{Row: row, Read: now}
	fact, known := fact{}, false
	if s.facts != nil {
		if fact, known = s.byRow[row.ID]; known {
			input.Read = time.UnixMilli(fact.millis())
		}
	}
	buf, ev, err := s.Encoder.Append(s.buf[:0], input)
	if err == nil {
		s.buf = buf
		err = s.row.parse(ev.Body)
	}
	if err != nil {
		return verdict{reason: Unreadable, what: s.text(err), entity: none}
	}
	names := s.live
	if ev.Op == event.Deleted {
		names = s.dead
	}
	s.spread(&s.row, names)
	s.learn(row.Values)
	v := verdict{entity: none, time: ev.Time, key: string(ev.Key), sum: binary.BigEndian.Uint64(ev.Digest[:]) ^ uint64(ev.Time.UnixNano())}
	switch {
	case s.facts == nil:
		s.compareEntity(input, &ev, &v)
	case known:
		v.sum ^= fact.id
		if s.compareFact(fact, input, &ev, &v) {
			s.byRow[row.ID] = s.confirmFact(fact, &ev)
		}
	case row.Filtered:
		v.silent = true
	default:
		v.fault, v.what = Missing, "it has no event"
	}
	return v
}

// compareFact compares the event that a row of a release makes with the one on the bus, and reports
// whether they are the same.
func (s *shard) compareFact(f fact, row event.Row, ev *event.Event, v *verdict) bool {
	later := !ev.FromClock && ev.Time.UnixMilli() > f.millis()
	id, body := s.asFact(f, row, ev)
	switch same := id == f.id; {
	case f.proof() == refuted:
		// That was reported already.
	case same && (body == f.body || f.unusual()):
		return true
	case f.proof() == doubted:
		// That is reported in the end.
	case same && later:
		// Only its times have changed.
	case same:
		v.fault, v.what = Altered, "its meta.id is that of the row, but its bytes are not"
	case s.anotherRow(f):
		v.fault, v.what = Altered, "its id belongs to another row now: ids are used again, and this row has no event"
	case f.proof() == proven || later || f.stated() && !f.unusual():
		v.reason, v.what = Changed, "the row was changed after its event"
	case f.unusual():
		// A column has come, gone or been renamed, which changed the row. It counts as unproven.
	default:
		v.fault, v.what = Altered, "its meta.id is not that of the row"
	}
	return false
}

// asFact returns the beginning of meta.id and the digest of the event that a row makes, in the form
// of the one on the bus.
func (s *schema) asFact(f fact, row event.Row, ev *event.Event) (id, body uint64) {
	format := event.FormatEiffel
	if f.form() != manyForms {
		if form := s.forms[f.form()]; form.Form != s.plain || form.variant != nil {
			if again, ok := s.encodeAs(form, row); ok {
				ev, format = &again, form.Format
			}
		}
	}
	if uuid, err := event.ParseID(ev.ID); err == nil {
		id = short(uuid)
	}
	return id, bodyOf(format, ev.Body, momentOf(ev, row.Read).UnixMilli())
}

// momentOf returns meta.time of the event of a row that was read at a time.
func momentOf(ev *event.Event, read time.Time) time.Time {
	if ev.FromClock {
		return read
	}
	return ev.Time
}

// confirmFact notes that the row proves its event.
func (s *shard) confirmFact(f fact, ev *event.Event) fact {
	switch f.proof() {
	case unproven:
		s.unproven--
	case doubted:
		s.acquit(ev.ID)
	}
	f.time = f.time&^3 | int64(proven)
	return f
}

// compareEntity compares the row whose event was spread last with the last event of its entity.
func (s *shard) compareEntity(row event.Row, ev *event.Event, v *verdict) {
	k, _ := s.keyOf(row.ID)
	at, known := s.index[k]
	switch {
	case known:
	case deletedSilently(s.Encoder, row.Row):
		v.silent = true
		return
	default:
		v.fault, v.what = Missing, "it has no event"
		return
	}
	n := s.at(at)
	if n.flags&seen == 0 {
		n.flags |= seen
		n.seenBy = s.number
	} else if n.seenBy != s.number {
		n.flags |= double
	}
	v.double = n.flags&double != 0
	v.entity, v.entityKey, v.sum = at, k, v.sum^n.last
	s.compareLast(row, ev.Op == event.Deleted, n, v)
	switch {
	case v.fault != Stale:
	case n.flags&split != 0:
		v.fault, v.reason = "", Split
	case n.flags&overtaken != 0:
		v.what += "; it came behind one with a higher stamp"
	}
}

// deletedSilently reports whether nothing has to be published of a row whose entity the bus does
// not have: it is deleted.
func deletedSilently(e *event.Encoder, row source.Row) bool {
	digest, err := e.Digest(row)
	return err == nil && digest.Deleted
}

// compareLast compares a row with the last event of its entity, which may be of another table.
func (s *shard) compareLast(input event.Row, deleted bool, n *entity, v *verdict) {
	of, row := s, input.Row
	if n.shard != s.number {
		of = s.scope.of(n).shard
		var ok bool
		if row, ok = of.adopt(&s.schema, row, input.Read); !ok {
			v.fault, v.what = Stale, "the row has a column that the table of the last event lacks, "+of.Name
			return
		}
	}
	gone := n.flags&dead != 0
	switch {
	case n.flags&isRefuted != 0 && deleted == gone:
		// That was reported already.
	case deleted && gone:
		if n.flags&isProven == 0 {
			if id, fits := of.makes(row, n); fits {
				of.confirm(n, id)
			}
		}
	case deleted && input.Filtered:
		v.fault, v.what = Stale, "the row does not match the condition of the stream, the last event says that it lives"
	case deleted:
		v.fault, v.what = Stale, "the row is marked as deleted, the last event says that it lives"
	case gone:
		v.fault, v.what = Stale, "the row is there, the last event says that it is gone"
	default:
		of.compareState(row, n, v)
	}
	if of != s && v.fault != "" {
		v.what += ", and is of the table " + of.Name
	}
}

// compareState compares the states of a row and of an event that both live.
func (s *shard) compareState(row source.Row, n *entity, v *verdict) {
	same := s.stateOf(&s.row) == n.state
	if same && n.flags&isProven != 0 {
		return
	}
	switch id, fits := s.makes(row, n); {
	case same && fits:
		s.confirm(n, id)
	case n.flags&isDoubted != 0 && (same || fits):
		// That is reported in the end.
	case fits && n.flags&(isProven|isStrange) != 0:
		// A column has changed its type or its member, which is no news: the digest is the same.
	case same:
		v.fault, v.what = Altered, "its meta.id is not that of the state it has"
	case fits:
		v.fault, v.what = Altered, "its meta.id is that of the row's state, but it says another"
	default:
		v.fault, v.what = Stale, "the last event says another state"
	}
}

// confirm notes that the row, whose event was spread last, proves the last event.
func (s *shard) confirm(n *entity, id string) {
	if n.flags&isDoubted != 0 {
		s.acquit(id)
	} else {
		s.unproven--
	}
	n.flags = n.flags&^isDoubted | isProven
}

// makes reports whether the row's state, with the last event's predecessor, has that event's
// meta.id, and returns that.
func (s *shard) makes(row source.Row, n *entity) (id string, fits bool) {
	row.ID = n.row
	input := event.Row{Row: row, Read: epoch, Predecessor: event.FormatID(n.link)}
	for _, op := range []event.Op{event.Added, event.Modified} {
		input.Op = op
		buf, ev, err := s.Encoder.Append(s.spare[:0], input)
		if err != nil {
			return "", false
		}
		s.spare = buf
		// A type that several operations share does not tell which one it was.
		told := len(s.operation[ev.Type]) < 2
		if told && (op == event.Modified) != (n.flags&changed != 0) {
			continue
		}
		if id, err := event.ParseID(ev.ID); err == nil && short(id) == n.last {
			return ev.ID, true
		}
	}
	return "", false
}
