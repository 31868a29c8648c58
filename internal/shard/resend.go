package shard

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/event"
	"example.org/bridge/internal/option"
	"example.org/bridge/internal/stream"
	"example.org/bridge/sink"
	"example.org/bridge/source"
)

// DeadLetter names an event that was put aside, as its message says. It proves nothing: the owner
// reads the row again.
type DeadLetter struct {
	// Row is the id of the row, Entity the key of an entity of a capability stream, empty if the
	// message does not say it.
	Row    uint64 `json:"row"`
	Entity []byte `json:"entity,omitempty"`
	// Event is the meta.id of the event, Type its type, Previous the event that it follows, empty
	// if there is none.
	Event    string `json:"event"`
	Type     string `json:"type"`
	Previous string `json:"previous"`
	// Time is the event's meta.time, zero if the message does not say it; Digest is the sink.Digest
	// of its bytes.
	Time   time.Time `json:"time,omitzero"`
	Digest string    `json:"digest"`
}

// DeadLetterOf returns what the message of a dead letter says.
func DeadLetterOf(l *sink.DeadLetterDocument) DeadLetter {
	deadLetter := DeadLetter{Row: l.RowID, Entity: l.Entity, Event: l.EventID, Type: l.EventType, Previous: l.Previous, Digest: l.Digest}
	if l.EventTime > 0 {
		deadLetter.Time = time.UnixMilli(l.EventTime)
	}
	return deadLetter
}

// ResendState is what becomes of a dead letter that is sent again.
type ResendState string

// The states of dead letters.
const (
	// ResendPublished: what is true is on the bus, as the event that was put aside, with its id and
	// bytes, or as another one.
	ResendPublished ResendState = "published"
	// ResendDone: there is nothing to publish, and nothing to do.
	ResendDone ResendState = "done"
	// ResendRefused: the bus refuses what was published; it is a dead letter again.
	ResendRefused ResendState = "refused"
	// ResendLeft: nothing is published, and something is to be done. Where a resend has begun, the
	// next read that proves what is true of the entity publishes it.
	ResendLeft ResendState = "left"
)

// Done reports whether nothing is left to do for the dead letter.
func (s ResendState) Done() bool { return s == ResendPublished || s == ResendDone }

// ResendOutcome is what became of a dead letter.
type ResendOutcome struct {
	State ResendState `json:"fate"`
	// Event and Type are those of the event that was published, empty where none was.
	Event string `json:"event"`
	Type  string `json:"type"`
	// Why says more where the state alone does not tell.
	Why string `json:"why"`
}

// resending is a dead letter on its way through owner and publisher.
type resending struct {
	DeadLetter
	// nominated says that its entity is nominated, whose last event is the one put aside.
	nominated bool
	// mu guards outcome: what a reconcile publishes of the entity changes it, too, as long as the
	// caller of Resend waits.
	mu      sync.Mutex
	outcome ResendOutcome
}

func (r *resending) set(outcome ResendOutcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outcome = outcome
}

func (r *resending) get() ResendOutcome {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.outcome
}

// end notes that nothing is published for r, and why.
func (r *resending) end(state ResendState, why string) { r.set(ResendOutcome{State: state, Why: why}) }

// publish notes that the last event of b is published for the dead letter.
func (r *resending) publish(b *batch, e *event.Event) {
	r.set(ResendOutcome{State: ResendPublished, Event: e.ID, Type: e.Type})
	b.again = append(b.again, r)
}

// refuse notes that the bus refuses an event, and reports whether it is published for r.
func (r *resending) refuse(id, why string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.outcome.Event != id {
		return false
	}
	r.outcome.State, r.outcome.Why = ResendRefused, why
	return true
}

// is reports whether e is the event that was put aside.
// Invariant 4: the id alone does not tell that the bytes are the same.
func (r *resending) is(e *event.Event) bool {
	return e.ID == r.Event && sink.Digest(e.Body) == r.Digest
}

var (
	// errDry ends a read whose batch is not published.
	errDry = errors.New("nothing is published")
	// errCancelled ends a read that nobody waits for any more.
	errCancelled = errors.New("the caller waits no longer")
)

// Resend has the owner read the rows of dead letters again and publish what is true then. It blocks
// until that is committed. A second call publishes the same event again, or nothing. With dry
// nothing is published. An error says that the shard stopped or ctx ended: any part may have been
// published. Once ctx ends, what was not handed on by then is left.
func (s *Shard) Resend(ctx context.Context, deadLetters []DeadLetter, dry bool) ([]ResendOutcome, error) {
	n := newResend(deadLetters, dry)
	if err := s.nominator.nominate(ctx, n); err != nil {
		return nil, err
	}
	for _, r := range n.deadLetters {
		if !r.nominated || r.get().State != ResendLeft {
			continue
		}
		entries, err := s.opts.View.Lookup(ctx, s.opts.Name, [][]byte{r.Entity}, nil)
		if err != nil {
			return nil, err
		}
		if last := event.FormatID(entries[0].Event); last != r.Event {
			// Another table of the stream has it.
			r.set(ResendOutcome{State: ResendPublished, Event: last, Type: typeOf(s.opts.Encoder, entries[0].State)})
		}
	}
	return n.outcomes(), nil
}

// ServeDryRun makes a shard that does not run the owner of a dry reconcile: its reach is the saved
// position. The status says why not where there is none, or the source does not answer.
func (s *Shard) ServeDryRun(ctx context.Context) {
	saved, _, err := s.opts.Store.Progress(ctx, s.opts.key())
	if err == nil && !saved.Started {
		err = option.Errorf("it has no checkpoint: nothing of the table was published yet, and bridge run begins it where %s says", option.Start)
	}
	if err == nil {
		if err = s.server.readTraits(ctx); err != nil {
			err = fmt.Errorf("ask how ids are handed out: %w", err)
		}
	}
	if err != nil {
		s.status.stop(err)
		return
	}
	s.dry = true
	s.status.update(func(status *Status) { status.Position, status.LastPoll.Time = saved.Position, time.Now() })
}

// Preview is a dry Resend for a shard that does not run, from what is saved and from its table
// alone. What the bus has and the store lacks is not known.
func (s *Shard) Preview(ctx context.Context, deadLetters []DeadLetter) ([]ResendOutcome, error) {
	// A command does not wait for a source that is away.
	if err := errors.Join(s.server.readTraits(ctx), s.server.refuseTailless()); err != nil {
		return nil, err
	}
	state, list, err := s.opts.Feed.Begin(ctx, s.opts.Name, s.gaps.options(), s.opts.PublishedRows)
	if err != nil {
		return nil, s.opts.damaged(err)
	}
	defer s.opts.Feed.End(s.opts.Name)
	s.gaps.state = state
	n := newResend(deadLetters, true)
	n.ctx = ctx
	entities := newEntities(&s.opts, s.retrier, s.gaps)
	if err := s.newNominations(entities, newPublished(s.server, entities, list), nil).serve(ctx, n); err != nil {
		return nil, err
	}
	return n.outcomes(), nil
}

func newResend(deadLetters []DeadLetter, dry bool) *nomination {
	n := &nomination{deadLetters: make([]*resending, len(deadLetters)), dry: dry}
	for i, one := range deadLetters {
		n.deadLetters[i] = &resending{DeadLetter: one}
	}
	return n
}

func (n *nomination) outcomes() []ResendOutcome {
	outcomes := make([]ResendOutcome, len(n.deadLetters))
	for i, r := range n.deadLetters {
		outcomes[i] = r.get()
	}
	return outcomes
}

// resend publishes what is true of the rows and entities of the dead letters of n.
func (o *nominations) resend(ctx context.Context, n *nomination) error {
	// What is on its way is not published yet.
	if err := o.gaps.pipe.wait(ctx); err != nil {
		return err
	}
	if o.entities != nil {
		return o.resendEntities(ctx, n)
	}
	for _, r := range n.deadLetters {
		if n.cancelled() {
			return nil
		}
		if err := o.resendRow(ctx, r, n); err != nil {
			return err
		}
	}
	return nil
}

// resendRow publishes a row of a release stream again.
func (o *nominations) resendRow(ctx context.Context, r *resending, n *nomination) error {
	if o.gaps.toPublish(r.Row) {
		r.end(ResendLeft, "the tail has yet to come to the row")
		return nil
	}
	q := source.Query{Ranges: []source.Range{{First: r.Row, Last: r.Row}}, Limit: 1, MaxBytes: o.opts.Limits.pageBytes()}
	return o.publishAgain(ctx, q, n, func(b *batch, page *page) error {
		switch {
		case len(page.Rows) == 0:
			r.end(ResendDone, "the row is gone")
			return nil
		case page.Rows[0].Filtered:
			r.end(ResendDone, "the row does not match FILTER any more")
			return nil
		}
		b.born(page, page.Rows[0])
		e, err := o.builder.add(b, event.Row{Row: page.Rows[0], Read: r.Time}, sink.FromReconcile)
		switch {
		case err != nil:
			// It is no reason to stop the shard.
			r.end(ResendLeft, o.opts.Text(err))
		case e.FromClock && r.Time.IsZero():
			// Invariant 4: the clock of this read would give each resend other bytes under one id.
			b.undo(0, 0)
			r.end(ResendLeft, "the row has no time of its own, and the dead letter does not tell the event's")
		default:
			r.publish(b, &e)
			if why := b.unfit[0]; why != "" {
				r.refuse(e.ID, why)
			}
		}
		return nil
	})
}

// publishAgain is publish for dead letters: a dry one publishes nothing.
func (o *nominations) publishAgain(ctx context.Context, q source.Query, n *nomination, fill func(*batch, *page) error) error {
	err := o.publish(ctx, q, n, func(b *batch, page *page) error {
		if err := fill(b, page); err != nil || !n.dry {
			return err
		}
		return errDry
	})
	if errors.Is(err, errDry) {
		return nil
	}
	return err
}

// unproved is why an entity without a row is left.
const unproved = "it could not be proved what is true of the entity: ask the server that takes the writes, or ask again"

// resendEntities nominates the entities whose last event is the one that was put aside, as far as
// there is something to publish. Invariant 3: what is newer is out or on its way, nothing older may
// follow.
func (o *nominations) resendEntities(ctx context.Context, n *nomination) error {
	again := make(map[string]*resending)
	last := make(map[string][16]byte)
	var keys [][]byte
	for i, r := range n.deadLetters {
		if n.cancelled() {
			return nil
		}
		known, err := o.lookup(ctx, r)
		switch {
		case err != nil:
			return err
		case known == nil:
		case known.State == store.Unknown:
			r.end(ResendLeft, "nothing is known of the entity any more, reconcile publishes it if it is there")
		case event.FormatID(known.Event) != r.Event:
			r.end(ResendDone, "a newer event of the entity followed")
		case again[string(r.Entity)] != nil:
			// Another dead letter of the same event.
			n.deadLetters[i] = again[string(r.Entity)]
		default:
			again[string(r.Entity)], last[string(r.Entity)] = r, known.Event
			if err := o.tryEntity(ctx, r, known.Event, n); err != nil {
				return err
			}
			if !n.dry && r.get().State == ResendPublished {
				r.end(ResendLeft, unproved)
				r.nominated = true
				keys = append(keys, r.Entity)
			}
		}
	}
	if len(keys) == 0 {
		return nil
	}
	o.builder.resend(again, n)
	err := o.commit(ctx, func(b *batch) error {
		o.entities.begin(b)
		return o.dispute(ctx, b, keys, last)
	})
	if err == nil {
		err = o.keys(ctx, keys, n)
	}
	return err
}

// dispute has the next decision about entities publish where last still says their last event.
func (o *nominations) dispute(ctx context.Context, b *batch, keys [][]byte, last map[string][16]byte) error {
	return o.entities.retrier.readStore(ctx, func() error { return b.claims.Dispute(ctx, keys, last) })
}

// lookup returns what is known of the entity of a dead letter, nil where that names none.
func (o *nominations) lookup(ctx context.Context, r *resending) (*store.Entry, error) {
	entities := o.entities
	if len(r.Entity) == 0 && r.Row > 0 {
		var err error
		if r.Entity, err = entities.byRow(ctx, r.Row); err != nil {
			return nil, err
		}
	}
	if len(r.Entity) == 0 {
		return new(store.Entry), nil
	}
	if _, err := o.opts.Encoder.KeyValues(r.Entity, nil); err != nil || len(r.Entity) > store.MaxEntity {
		r.end(ResendLeft, "what the dead letter says of the entity does not fit KEY")
		return nil, nil
	}
	known, err := entities.lookup(ctx, [][]byte{r.Entity})
	if err != nil {
		return nil, err
	}
	return &known[0], nil
}

// tryEntity says what would be published of the entity of r, whose last event is last: it makes the
// batch and drops it.
func (o *nominations) tryEntity(ctx context.Context, r *resending, last [16]byte, n *nomination) error {
	keys, name := [][]byte{r.Entity}, string(r.Entity)
	values, err := KeyValues(o.opts.Encoder, o.opts.Stream, keys)
	if err != nil {
		return err
	}
	o.builder.resend(map[string]*resending{name: r}, n)
	q := source.Query{Keys: values, Limit: o.opts.BatchRows, MaxBytes: o.opts.Limits.pageBytes()}
	return o.publishAgain(ctx, q, n, func(b *batch, page *page) error {
		r.set(ResendOutcome{})
		if err := o.dispute(ctx, b, keys, map[string][16]byte{name: last}); err != nil {
			return err
		}
		decisions, err := o.entities.decide(ctx, b, page.Rows)
		if err != nil {
			return err
		}
		_, err = o.builder.addStates(b, page, page.Rows, decisions, fromReconcile)
		switch {
		case err != nil:
			// It is no reason to stop the shard.
			r.end(ResendLeft, o.opts.Text(err))
		case r.get().State != "":
		case len(withoutRow(keys, decisions)) == 0:
			r.set(ResendOutcome{State: ResendPublished, Why: "what its rows say, of which there are several"})
		case o.opts.Shared:
			r.set(ResendOutcome{State: ResendPublished, Why: "the table has no row of it: what the other tables of the stream say"})
		default:
			err := o.tryAbsence(ctx, b, page, r)
			if err != nil {
				return err
			}
		}
		return errDry
	})
}

// tryAbsence is tryEntity for an entity that has no row. Invariant 5: only a server that takes the
// writes proves that.
func (o *nominations) tryAbsence(ctx context.Context, b *batch, page *page, r *resending) error {
	server := o.gaps.server
	if err := server.meet(ctx, page.Server); err != nil {
		return err
	}
	r.end(ResendLeft, unproved)
	if !server.traits.Writer || !server.knows(page.Server) {
		return nil
	}
	absences, err := o.entities.absent(ctx, b, [][]byte{r.Entity})
	if err != nil {
		return err
	}
	if err := o.builder.addAbsences(b, absences, page); err != nil {
		r.end(ResendLeft, o.opts.Text(err))
	}
	return nil
}

// typeOf returns the type of the next event of an entity with this state.
func typeOf(e *event.Encoder, state store.EntryState) string {
	if state == store.Live {
		return e.Type(event.Modified)
	}
	return e.Type(event.Deleted)
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

// addAbsentAgain is addAgain for an entity that has no row.
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
