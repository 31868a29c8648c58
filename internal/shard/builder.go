package shard

import (
	"slices"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/event"
	"example.org/bridge/internal/option"
	"example.org/bridge/internal/published"
	"example.org/bridge/internal/stream"
	"example.org/bridge/sink"
	"example.org/bridge/source"
)

// builder makes batches of rows and of what a view has decided about them. It reads nothing. It
// serves the owner.
type builder struct {
	opts *Options
	// event is the one that a destination is asked for.
	event event.Event
	// eventBytes is how large the events of the last batch are.
	eventBytes int
	// from is where the last page was read, server the text of messages about that.
	from   published.Origin
	server string
	// warned says that the warning about bad values was written.
	warned bool
	// again are the dead letters that were resent last, by entity, until left is closed.
	again map[string]*resending
	left  <-chan struct{}
}

// begin begins a batch of the rows of p, if any. Its messages say where that was read.
func (m *builder) begin(p *page) *batch {
	b := batches.Get().(*batch)
	if b.made = time.Now(); p == nil {
		return b
	}
	from := published.Origin{Server: p.Server, Started: source.StartedOf(m.opts.Source)}
	if from != m.from {
		m.from, m.server = from, string(sink.AppendServer(nil, from.Started, published.ServerAndDatabase(from.Server, m.opts.Encoder.Source())))
	}
	b.read, b.server = p.span, m.server
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

type originOf func(id uint64) sink.Origin

func always(origin sink.Origin) originOf { return func(uint64) sink.Origin { return origin } }

// addStates adds to b the events of those rows of p that say something new of their entities. It
// returns how many rows were taken care of: with an error fewer than there are.
func (m *builder) addStates(b *batch, p *page, rows []source.Row, decisions []stream.Decision, origin originOf) (n int, err error) {
	events := 0
	for i := range decisions {
		if decisions[i].News {
			events++
		}
	}
	m.makeRoom(b, events)
	for i, row := range rows {
		if decisions[i].News {
			if err := m.addState(b, p, row, &decisions[i], origin(row.ID)); err != nil {
				return i, err
			}
		}
	}
	return len(rows), nil
}

func (m *builder) addState(b *batch, p *page, row source.Row, one *stream.Decision, origin sink.Origin) error {
	if origin == sink.FromTail || origin == sink.FromLate || one.Op == event.Added {
		b.born(p, row)
	} else {
		b.oldest = earlier(b.oldest, p.changedAt(row))
	}
	state := event.Row{Row: row, State: one.Digest, Read: p.Now, Predecessor: event.FormatID(one.Previous())}
	if one.Op == event.Modified {
		state.Op = one.Op
	}
	var e event.Event
	var err error
	if again := m.resent(one); again != nil {
		e, err = m.addAgain(b, again, state, &one.Known, origin)
	} else {
		e, err = m.add(b, state, origin)
	}
	if err == nil {
		m.publish(b, one, &e)
	}
	return err
}

// addAbsences adds the events of entities that have no row in p, where that is news.
func (m *builder) addAbsences(b *batch, absences []stream.Decision, p *page) error {
	if !slices.ContainsFunc(absences, func(one stream.Decision) bool { return one.News }) {
		return nil
	}
	stale := make(map[string]bool, len(p.Expired))
	for _, row := range p.Expired {
		digest, err := m.opts.Encoder.Digest(row)
		if err != nil {
			return err
		}
		stale[string(digest.Key)] = true
	}
	for i := range absences {
		one := &absences[i]
		if !one.News {
			continue
		}
		if err := m.addAbsence(b, one, p.Now, stale[string(one.Entity)]); err != nil {
			return err
		}
	}
	return nil
}

func (m *builder) addAbsence(b *batch, one *stream.Decision, now time.Time, stale bool) error {
	absent := event.Absent{Key: one.Entity, ID: one.ID, Read: now, Predecessor: event.FormatID(one.Previous()), Stale: stale}
	var e event.Event
	var err error
	if again := m.resent(one); again != nil {
		e, err = m.addAbsentAgain(b, again, absent)
	} else {
		e, err = m.addAbsent(b, absent)
	}
	if err == nil {
		m.publish(b, one, &e)
	}
	return err
}

// publish notes that the last event of b is about a decision.
func (m *builder) publish(b *batch, one *stream.Decision, e *event.Event) {
	if one.Known.Disputed || one.Again {
		// Rule 23: the bus may hold an event with this id that is not the entity's last one, or
		// that is published again.
		b.repairs = append(b.repairs, len(b.messages)-1)
	}
	if n := len(b.messages); b.messages[n-1].Value == nil {
		// The event and its tombstone: compaction would keep a message that lies elsewhere, since
		// partitions were added.
		tp := m.opts.Committer.TP(one.Known.At.TP)
		b.messages[n-2].TP, b.messages[n-1].TP = tp, tp
	}
	one.Publish(e.UUID)
	b.count(one.Op)
	if again := m.resent(one); again != nil {
		again.publish(b, e)
	}
}

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
	m.complete(b, &e, row.Read, row.Predecessor)
	return e, nil
}

// fill takes care of a row of a release stream that fills a gap: one that does not match its
// condition is no event.
func (m *builder) fill(b *batch, p *page, row source.Row, origin sink.Origin) error {
	if row.Filtered {
		b.skipped++
	} else {
		b.born(p, row)
		if _, err := m.add(b, event.Row{Row: row, Read: p.Now}, origin); err != nil {
			return err
		}
		b.count(event.Published)
	}
	b.filled = append(b.filled, row.ID)
	return nil
}

func (m *builder) addAbsent(b *batch, absent event.Absent) (event.Event, error) {
	buf, e, err := m.opts.Encoder.AppendAbsent(b.buf, absent)
	if err != nil {
		return e, err
	}
	b.buf = buf
	m.send(b, &e, absent.ID, sink.FromReconcile)
	m.complete(b, &e, absent.Read, absent.Predecessor)
	return e, nil
}

func (m *builder) send(b *batch, e *event.Event, row uint64, origin sink.Origin) {
	// An unknown function gets no pointer to a row's own memory: that would allocate it.
	m.event = *e
	form := uint32(0)
	if e.Digest != ([16]byte{}) {
		form = m.opts.Encoder.Form()
	}
	b.messages = append(b.messages, sink.Message{
		Destination: m.opts.Route(&m.event),
		Key:         e.Key,
		Value:       e.Body,
		Format:      m.opts.Format,
		ID:          e.ID,
		Type:        e.Type,
		Version:     e.Version,
		Schema:      e.Schema,
		Stream:      m.opts.Stream,
		Shard:       m.opts.Name,
		RowID:       row,
		Origin:      origin,
		Form:        form,
		Born:        uint32(e.Born),
		Server:      b.server,
		Time:        b.made,
		State:       stateOf(e),
	})
	if m.event.Unfit != "" {
		b.refuse(len(b.messages)-1, m.event.Unfit)
	}
}

// complete has the headers of the message that was sent last say what a value without them does
// not, and sends a tombstone behind a deleted event.
func (m *builder) complete(b *batch, e *event.Event, read time.Time, previous string) {
	if m.opts.Format == sink.FormatRow || m.opts.Format == sink.FormatPayload {
		b.bare(e, read, previous)
	}
	if e.Op == event.Deleted && m.opts.Tombstones.On() {
		tombstone := b.messages[len(b.messages)-1]
		tombstone.Value = nil
		b.messages = append(b.messages, tombstone)
	}
}

func (m *builder) countBadValues(id uint64, n int) {
	m.opts.Metrics.badValues.WithLabelValues(m.opts.Stream).Add(float64(n))
	if !m.warned {
		m.warned = true
		m.opts.Logger.Warn("values that an event cannot hold are published as null, further ones are only counted (bridge_bad_values_total)",
			"id", id, "values", n, "remedy", option.Errorf("to stop the stream at such a value instead, set %s=stop", option.OnBadValue))
	}
}

// resend has what is published of the entities of dead letters count as published for them, as long
// as the caller of n waits.
func (m *builder) resend(again map[string]*resending, n *nomination) {
	m.again, m.left = again, n.ctx.Done()
}

// resent returns the dead letter that an event about d is published for, nil for none.
func (m *builder) resent(d *stream.Decision) *resending {
	if !d.Known.Disputed {
		return nil
	}
	select {
	case <-m.left:
		m.again = nil
	default:
	}
	if r := m.again[string(d.Entity)]; r != nil && r.Event == event.FormatID(d.Known.Event) {
		return r
	}
	return nil
}

// addAgain adds the very event that was put aside, if the row makes it still, else what is true
// behind it.
func (m *builder) addAgain(b *batch, r *resending, row event.Row, known *store.Entry, origin sink.Origin) (event.Event, error) {
	same := row
	same.Predecessor = r.Previous
	if !r.Time.IsZero() {
		same.Read = r.Time
	}
	messages, size := len(b.messages), len(b.buf)
	for _, same.Op = range []event.Op{event.Added, event.Modified} {
		e, err := m.add(b, same, origin)
		if err != nil || r.is(&e) {
			return e, err
		}
		b.undo(messages, size)
	}
	if row.State == known.Digest && r.Type == m.opts.Encoder.Type(event.Added) {
		row.Op = event.Added
	}
	return m.add(b, row, origin)
}

func (m *builder) addAbsentAgain(b *batch, r *resending, absent event.Absent) (event.Event, error) {
	same := absent
	same.Read, same.Predecessor = r.Time, r.Previous
	messages, size := len(b.messages), len(b.buf)
	e, err := m.addAbsent(b, same)
	if err != nil || r.is(&e) {
		return e, err
	}
	b.undo(messages, size)
	return m.addAbsent(b, absent)
}
