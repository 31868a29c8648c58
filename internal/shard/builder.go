package shard

import (
	"slices"
	"time"

	"bridge/checkpoint"
	"bridge/event"
	"bridge/internal/failpoint"
	"bridge/sink"
	"bridge/source"
)

// builder makes batches of rows and of what a view has decided about them. It reads nothing and
// knows of no view. It serves the owner.
type builder struct {
	opts *Options
	// event is the one that a destination is asked for.
	event event.Event
	// eventBytes is how large the events of the last batch are.
	eventBytes int
	// warned says that the warning about bad values was written.
	warned bool
}

// begin begins a batch. journal says that it is saved before it is published.
func (m *builder) begin(journal bool) *batch {
	b := batches.Get().(*batch)
	b.made, b.journal = time.Now(), journal
	return b
}

// makeRoom allocates at once what n more messages need if their events are about as large as those
// of the batch before: buffers that grow row by row are copied again and again.
// Invariant 7: it is no more than what the read has reserved.
func (m *builder) makeRoom(b *batch, n int) {
	b.messages = slices.Grow(b.messages, n)
	each := m.eventBytes + m.eventBytes/roomDivisor
	b.buf = slices.Grow(b.buf, min(n*each, int(m.opts.Limits.share)))
}

// makeRoomFor makes room in b for what the decisions are news of.
func (m *builder) makeRoomFor(b *batch, decisions []decision) {
	events, bytes := 0, 0
	for i := range decisions {
		if decisions[i].news {
			events++
			bytes += len(decisions[i].entity)
		}
	}
	m.makeRoom(b, events)
	b.changes = slices.Grow(b.changes, events)
	if cap(b.keys)-len(b.keys) < bytes {
		b.keys = make([]byte, 0, bytes)
	}
}

// addStates adds to b the events of those rows of p that say something new of their entities, and
// what the view is to hold. It returns how many rows were taken care of: with an error fewer than
// there are.
func (m *builder) addStates(b *batch, p *page, rows []source.Row, decisions []decision, origin sink.Origin) (n int, err error) {
	m.makeRoomFor(b, decisions)
	for i, row := range rows {
		one := &decisions[i]
		if one.news {
			if err := m.addState(b, p, row, one, origin); err != nil {
				return i, err
			}
			continue
		}
		if one.known.Row != row.ID || one.known.State != one.digest {
			// A REPLACE with the same state: the row has another id.
			b.change(one.entity, one.entry(row.ID, one.known.Event))
		}
	}
	return len(rows), nil
}

func (m *builder) addState(b *batch, p *page, row source.Row, one *decision, origin sink.Origin) error {
	if origin == sink.FromTail || origin == sink.FromLate || one.op == event.Added {
		b.born(p, row)
	} else {
		b.oldest = earlier(b.oldest, p.changedAt(row))
	}
	state := event.Row{Row: row, State: one.digest, Read: p.Now, Predecessor: event.FormatID(one.known.Event)}
	if one.op == event.Modified {
		state.Op = one.op
	}
	e, err := m.add(b, state, origin)
	if err != nil {
		return err
	}
	b.change(one.entity, one.entry(row.ID, e.UUID))
	b.count(one.op)
	return nil
}

// addGone adds what follows from an entity not being there at a moment: an event, unless it was
// soft-deleted before or lives in another shard.
func (m *builder) addGone(b *batch, one *decision, moved bool, now time.Time) error {
	known := one.known
	if known.Fate != checkpoint.Live && known.Fate != checkpoint.Tombstone {
		return nil
	}
	gone := checkpoint.Known{Row: known.Row, Event: known.Event, Fate: checkpoint.Gone, Since: now}
	if known.Fate == checkpoint.Live && !moved {
		absent := event.Absent{Entity: one.entity, ID: known.Row, Read: now, Predecessor: event.FormatID(known.Event)}
		e, err := m.addAbsent(b, absent)
		if err != nil {
			return err
		}
		b.count(event.Deleted)
		if gone.Event, err = event.ParseID(e.ID); err != nil {
			return err
		}
	}
	b.change(one.entity, gone)
	return nil
}

// add encodes row as the next message of b and returns its event.
func (m *builder) add(b *batch, row event.Row, origin sink.Origin) (event.Event, error) {
	buf, e, err := m.opts.Encoder.Append(b.buf, row)
	if err != nil {
		return e, err
	}
	b.buf = buf
	if e.BadValues > 0 {
		m.countBadValues(row.ID, e.BadValues)
	}
	m.send(b, &e, row.ID, origin)
	return e, nil
}

// addAbsent encodes the deleted event of an entity without a row as the next message of b.
func (m *builder) addAbsent(b *batch, absent event.Absent) (event.Event, error) {
	buf, e, err := m.opts.Encoder.AppendAbsent(b.buf, absent)
	if err != nil {
		return e, err
	}
	b.buf = buf
	m.send(b, &e, absent.ID, sink.FromReconcile)
	return e, nil
}

// send makes a message of an event about the row with this id.
func (m *builder) send(b *batch, e *event.Event, row uint64, origin sink.Origin) {
	if failpoint.Mutant(failpoint.DropOne) {
		return
	}
	if failpoint.Mutant(failpoint.AlterOne) {
		mutantAlter(e.Body)
	}
	// A function that is not known here gets no pointer to a row's own memory: that would allocate it.
	m.event = *e
	b.messages = append(b.messages, sink.Message{
		Destination: m.opts.Route(&m.event),
		Key:         e.Key,
		Value:       e.Body,
		ID:          e.ID,
		Type:        e.Type,
		Version:     e.Version,
		Stream:      m.opts.Stream,
		Shard:       m.opts.Name,
		RowID:       row,
		Origin:      origin,
		Time:        b.made,
	})
}

// finish notes how large the events of b, which is complete, are.
func (m *builder) finish(b *batch) {
	b.oldestCreated = nil
	if n := len(b.messages); n > 0 {
		m.eventBytes = len(b.buf) / n
	}
}

// countBadValues counts the values of a row that were published as null, and warns about the first
// of a shard.
func (m *builder) countBadValues(id uint64, n int) {
	m.opts.Metrics.badValues.WithLabelValues(m.opts.Stream).Add(float64(n))
	if !m.warned {
		m.warned = true
		m.opts.Logger.Warn("values that an event cannot hold are published as null, further ones are only counted (bridge_bad_values_total); "+
			"ON_BAD_VALUE=stop would stop the stream instead", "id", id, "values", n)
	}
}
