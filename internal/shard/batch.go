package shard

import (
	"bytes"
	"maps"
	"slices"
	"sync"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/event"
	"example.org/bridge/internal/option"
	"example.org/bridge/internal/published"
	"example.org/bridge/internal/stream"
	"example.org/bridge/reconcile"
	"example.org/bridge/sink"
	"example.org/bridge/source"
)

// batch is what one page became: messages in the order of their reads, and what holds once the bus
// has acknowledged them.
type batch struct {
	messages []sink.Message
	buf      []byte
	// bares are what headers say of events whose values are rows alone, or columns, and headers the
	// rows' own of these.
	bares   []sink.Bare
	headers []sink.Header
	// unfit says by index why messages are not sent: dead letters are, instead. Nil: none.
	unfit map[int]string
	// repairs are the indices of messages that need an id of their own on the bus (rule 23).
	repairs []int
	// claims are the entities of a capability shard that the batch changes, else nil.
	claims *stream.Claims
	// through is the highest row that the tail has read for the batch; passed and filled are the
	// ids of the rows that it takes care of, from the tail and from elsewhere.
	through        uint64
	passed, filled []uint64
	// skipped counts the rows of filled that are no event.
	skipped int
	// brings is what the batch brings besides its messages, once it is handed over.
	brings stream.Read
	// last is the position that holds then.
	last uint64
	// floor, since and low are what the messages say of the shard (rules 16, 27 and 28).
	floor, since, low uint64
	// server says where its rows were read.
	server string
	// rows are those that the list of rows published last is to take in.
	rows []published.Row
	// verdict counts what the batch says, by kind.
	verdict reconcile.Verdict
	// compared is the number of the demand for a reconcile that the batch grants, 0 for none.
	compared uint64
	// schema, when not nil, is what its messages look like, and those before did not.
	schema *store.Schema
	// again are the dead letters whose rows and entities it has events of.
	again []*resending
	// held is what is reserved for the batch.
	held hold

	batchTimes
}

// batchTimes are the times of a batch and of its rows.
type batchTimes struct {
	// made is when the batch was made, by the host's clock.
	made time.Time
	// read is when the page of the batch was read, zero where it has none.
	read span
	// oldest is the host's time at which the oldest row had the age zero.
	oldest time.Time
	// oldestCreated is its CREATED, in the memory of the page that is being encoded; nil when it
	// has none, and once the page is done.
	oldestCreated []byte
}

const (
	messageBytes = 384
	claimBytes   = 200
	keepBuf      = 4 << 20
	// roomDivisor is the part by which events may be larger than those before.
	roomDivisor = 16
)

var batches = sync.Pool{New: func() any { return new(batch) }}

// size is the memory that the batch needs.
func (b *batch) size() int64 {
	n := int64(len(b.buf)) + int64(len(b.messages))*messageBytes
	if b.claims != nil {
		n += int64(b.claims.Len()) * claimBytes
	}
	return n
}

// empty reports whether the batch has nothing to publish or to commit.
func (b *batch) empty() bool {
	return len(b.messages)+len(b.passed)+len(b.filled) == 0 && b.through == 0 && b.compared == 0 && (b.claims == nil || b.claims.Empty())
}

// pass notes that the tail has read a row, which is taken care of.
func (b *batch) pass(id uint64) { b.passed, b.through = append(b.passed, id), id }

// skip notes that a row of a release stream which does not match its condition is taken care of.
func (b *batch) skip(id uint64) { b.filled, b.skipped = append(b.filled, id), b.skipped+1 }

// undo takes back what was added behind the first n messages, which end at the length size of the
// buffer.
func (b *batch) undo(n, size int) {
	clear(b.messages[n:])
	b.messages, b.buf = b.messages[:n], b.buf[:size]
	maps.DeleteFunc(b.unfit, func(i int, _ string) bool { return i >= n })
}

// rotate puts the messages behind the first n before these.
func (b *batch) rotate(n int) {
	moved := slices.Clone(b.messages[n:])
	copy(b.messages[len(moved):], b.messages[:n])
	copy(b.messages, moved)
	unfit := b.unfit
	b.unfit = nil
	for i, why := range unfit {
		if i += len(moved); i >= len(b.messages) {
			i -= len(b.messages)
		}
		b.refuse(i, why)
	}
}

// refuse notes why a message is not sent.
func (b *batch) refuse(i int, why string) {
	if b.unfit == nil {
		b.unfit = make(map[int]string)
	}
	b.unfit[i] = why
}

// bare has the headers of the last message, an event, say what its value does not.
func (b *batch) bare(e *event.Event, read time.Time, previous string) {
	at := e.Time
	if e.FromClock {
		at = read
	}
	start := len(b.headers)
	for _, h := range e.Headers {
		b.headers = append(b.headers, sink.Header(h))
	}
	b.bares = append(b.bares, sink.Bare{Time: at.UnixMilli(), Previous: previous, Reason: e.Reason, Content: e.Content, Headers: b.headers[start:len(b.headers):len(b.headers)]})
	b.messages[len(b.messages)-1].Bare = &b.bares[len(b.bares)-1]
}

// count notes an event of the batch.
func (b *batch) count(op event.Op) {
	switch op {
	case event.Added:
		b.verdict.Added++
	case event.Modified:
		b.verdict.Modified++
	case event.Deleted:
		b.verdict.Deleted++
	default:
		b.verdict.Missed++
	}
}

// recycle gives the batch's memory back. Nothing may refer to its messages any more.
func (b *batch) recycle() {
	buf, messages, bares, headers, repairs := b.buf[:0], b.messages, b.bares[:0], b.headers[:0], b.repairs[:0]
	rows, passed, filled := b.rows[:0], b.passed[:0], b.filled[:0]
	// What they refer to may be large.
	clear(messages)
	clear(b.bares)
	clear(b.headers)
	if cap(buf) > keepBuf {
		buf = nil
	}
	*b = batch{buf: buf, messages: messages[:0], bares: bares, headers: headers, repairs: repairs, rows: rows, passed: passed, filled: filled}
	batches.Put(b)
}

// born notes the host's time at which a row of page had the age zero, if it is the oldest of the
// batch. CREATED in its normal form orders as the moments do, so that it is read as a time of the
// oldest alone. For the lag it is good enough that an hour which the zone's clock shows twice or
// skips has another order, and that what is no time and sorts behind the oldest is taken for
// younger.
func (b *batch) born(page *page, row source.Row) {
	i := page.Columns.Created
	if i >= 0 && b.oldestCreated != nil && bytes.Compare(row.Values[i], b.oldestCreated) >= 0 {
		return
	}
	at := page.bornAt(row)
	if !b.oldest.IsZero() && !at.Before(b.oldest) {
		return
	}
	b.oldest, b.oldestCreated = at, nil
	if created, _ := page.created(row); !created.IsZero() {
		b.oldestCreated = row.Values[i]
	}
}

// discard gives back the claims and the memory of a batch that is not published.
func (b *batch) discard(opts *Options) {
	if b.claims != nil {
		opts.View.Release(b.claims)
	}
	b.recycle()
}

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

// begin begins a batch.
func (m *builder) begin() *batch {
	b := batches.Get().(*batch)
	b.made = time.Now()
	return b
}

// readFrom has the messages of b say where p was read.
func (m *builder) readFrom(b *batch, p *page) {
	from := published.Origin{Server: p.Server, Started: source.StartedOf(m.opts.Source)}
	if from != m.from {
		m.from, m.server = from, string(sink.AppendServer(nil, from.Started, published.ServerAndDatabase(from.Server, m.opts.Encoder.Source())))
	}
	b.read, b.server = p.span, m.server
}

// makeRoom allocates at once what n more messages need if their events are about as large as those
// of the batch before: buffers that grow row by row are copied again and again.
// Invariant 7: it is no more than what the read has reserved.
func (m *builder) makeRoom(b *batch, n int) {
	b.messages = slices.Grow(b.messages, n)
	each := m.eventBytes + m.eventBytes/roomDivisor
	b.buf = slices.Grow(b.buf, min(n*each, int(m.opts.Limits.share)))
}

// originOf returns the origin of a row by its id.
type originOf func(id uint64) sink.Origin

func fromTail(uint64) sink.Origin      { return sink.FromTail }
func fromLate(uint64) sink.Origin      { return sink.FromLate }
func fromReconcile(uint64) sink.Origin { return sink.FromReconcile }

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

// addAbsence adds the event of an entity that is gone, which is news.
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
	if one.Known.Disputed {
		// Rule 23: the bus may hold an event with this id that is not the entity's last one.
		b.repairs = append(b.repairs, len(b.messages)-1)
	}
	one.Publish(e.UUID)
	b.count(one.Op)
	if again := m.resent(one); again != nil {
		again.publish(b, e)
	}
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
	m.complete(b, &e, row.Read, row.Predecessor)
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
	m.complete(b, &e, absent.Read, absent.Predecessor)
	return e, nil
}

// send makes a message of an event about the row with this id.
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
		m.opts.Logger.Warn("values that an event cannot hold are published as null, further ones are only counted (bridge_bad_values_total)",
			"id", id, "values", n, "remedy", option.Errorf("to stop the stream at such a value instead, set %s=stop", option.OnBadValue))
	}
}
