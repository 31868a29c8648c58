package shard

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"example.org/bridge/event"
	"example.org/bridge/internal/option"
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

// Fate is what becomes of a dead letter that is sent again.
type Fate string

// The fates of dead letters.
const (
	// SentSame: the event that was put aside is published, with its id and bytes.
	SentSame Fate = "same"
	// SentCurrent: what is true at the moment is published, as another event.
	SentCurrent Fate = "current"
	// Superseded: a newer event of the entity is on its way or out; nothing is published.
	Superseded Fate = "superseded"
	// RowGone: the row of a release stream is gone, and what the event said with it, or matches the
	// condition of the stream no more; nothing is published.
	RowGone Fate = "gone"
	// Moved: the entity lives in another table of the stream, which publishes it; nothing is
	// published.
	Moved Fate = "moved"
	// Ahead: the tail has yet to come to the row; nothing is published.
	Ahead Fate = "ahead"
	// RefusedAgain: the bus refuses what was published; it is a dead letter again.
	RefusedAgain Fate = "refused"
	// Unknown: nothing is known any more of the entity; nothing is published.
	Unknown Fate = "unknown"
	// Unproven: the entity has no row, but that does not prove that it is gone; nothing is
	// published.
	Unproven Fate = "unproven"
	// Unreadable: the row, or what the dead letter says, makes no event; nothing is published.
	Unreadable Fate = "unreadable"
)

// Done reports whether nothing is left to do for the dead letter.
func (f Fate) Done() bool {
	switch f {
	case SentSame, SentCurrent, Superseded, RowGone, Moved:
		return true
	}
	return false
}

// ResendOutcome is what became of a dead letter.
type ResendOutcome struct {
	Fate Fate `json:"fate"`
	// Event and Type are those of the event that was published, empty where none was.
	Event string `json:"event"`
	Type  string `json:"type"`
	// Why says more where the fate alone does not tell.
	Why string `json:"why"`
}

// resending is a dead letter on its way through owner and publisher.
type resending struct {
	deadLetter DeadLetter
	outcome    ResendOutcome
	// dry says that nothing is to be published.
	dry bool
}

func (r *resending) refused(reason string) {
	r.outcome.Fate, r.outcome.Why = RefusedAgain, reason
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
	n := &nomination{deadLetters: resendings(deadLetters, dry), caller: ctx}
	if err := s.nominator.nominate(ctx, n); err != nil {
		return nil, err
	}
	return outcomesOf(n.deadLetters), nil
}

// Preview is a dry Resend for a shard that does not run, from what is saved and from its table
// alone. What the bus has and the store lacks is not known.
func (s *Shard) Preview(ctx context.Context, deadLetters []DeadLetter) ([]ResendOutcome, error) {
	if err := errors.Join(s.server.refresh(ctx), s.refuseTailless()); err != nil {
		return nil, err
	}
	state, list, err := s.opts.Feed.begin(ctx, s.opts.Name, s.gaps.options(), s.opts.PublishedRows)
	if err != nil {
		return nil, s.opts.damaged(err)
	}
	defer s.opts.Feed.end(s.opts.Name)
	s.gaps.state = state
	again := resendings(deadLetters, true)
	entities := newEntities(&s.opts, s.retrier, s.gaps)
	nominations := s.newNominations(entities, newPublished(s.server, entities, list), nil)
	if err := nominations.resender.resend(ctx, again, nil); err != nil {
		return nil, err
	}
	return outcomesOf(again), nil
}

func resendings(deadLetters []DeadLetter, dry bool) []*resending {
	list := make([]*resending, len(deadLetters))
	for i, one := range deadLetters {
		list[i] = &resending{deadLetter: one, dry: dry}
	}
	return list
}

func outcomesOf(list []*resending) []ResendOutcome {
	outcomes := make([]ResendOutcome, len(list))
	for i, r := range list {
		outcomes[i] = r.outcome
	}
	return outcomes
}

// resender sends again the events that dead letters name, as far as they are still true. It belongs
// to the owner.
type resender struct {
	rereader *rereader
	server   *server
	// bind reads a page, so that the encoder knows the columns.
	bind func(context.Context) error
}

// resend reads the rows of dead letters again, one after the other, and hands on what is to be
// published.
func (o *resender) resend(ctx context.Context, deadLetters []*resending, n *nomination) error {
	// What is on its way is not published yet.
	if err := o.rereader.gaps.pipe.wait(ctx); err != nil {
		return err
	}
	if o.rereader.reader.columns == nil {
		// Without columns no entity can be read.
		if err := o.bind(ctx); err != nil {
			return err
		}
	}
	one := o.row
	if o.rereader.entities != nil {
		one = o.entity
	}
	for _, r := range deadLetters {
		if n.cancelled() {
			return nil
		}
		if err := one(ctx, r, n); err != nil && !errors.Is(err, errDry) && !errors.Is(err, errCancelled) {
			return err
		}
	}
	return nil
}

// row sends a row of a release stream again.
func (o *resender) row(ctx context.Context, r *resending, n *nomination) error {
	id := r.deadLetter.Row
	if o.rereader.gaps.toPublish(id) {
		r.outcome = ResendOutcome{Fate: Ahead}
		return nil
	}
	q := source.Query{Ranges: []source.Range{{First: id, Last: id}}, Limit: 1, MaxBytes: o.rereader.opts.Limits.pageBytes()}
	return o.publish(ctx, q, r, n, func(b *batch, page *page) error {
		if len(page.Rows) == 0 {
			r.outcome = ResendOutcome{Fate: RowGone}
			return nil
		}
		row := page.Rows[0]
		if row.Filtered {
			r.outcome = ResendOutcome{Fate: RowGone, Why: "the row does not match FILTER any more"}
			return nil
		}
		b.born(page, row)
		e, same := o.add(b, event.Row{Row: row, Read: r.deadLetter.Time}, r)
		if !same && e.FromClock && r.deadLetter.Time.IsZero() {
			// Invariant 4: the clock of this read would give each resend other bytes under one id.
			b.undo(0, 0)
			r.outcome = ResendOutcome{Fate: Unreadable, Why: "the row has no time of its own, and the letter does not tell the event's"}
		}
		return nil
	})
}

// publish reads the row of a dead letter and hands on what fill makes of it.
func (o *resender) publish(ctx context.Context, q source.Query, r *resending, n *nomination, fill func(*batch, *page) error) error {
	return o.rereader.publish(ctx, q, n, func(b *batch, page *page) error {
		b.again, r.outcome = r, ResendOutcome{}
		if err := fill(b, page); err != nil || !r.dry {
			return err
		}
		return errDry
	})
}

// add adds the event of a row to b, and tells whether it is the one that was put aside: the same id
// and the same bytes. A row that makes no event is no reason to stop the shard.
func (o *resender) add(b *batch, row event.Row, r *resending) (e event.Event, same bool) {
	e, err := o.rereader.builder.add(b, row, sink.FromReconcile)
	if err != nil {
		r.outcome = ResendOutcome{Fate: Unreadable, Why: o.rereader.opts.Text(err)}
		return e, false
	}
	return e, r.sends(&e)
}

// sends notes the event that is published for a dead letter.
func (r *resending) sends(e *event.Event) (same bool) {
	// Invariant 4: the id alone does not tell that the bytes are the same.
	same = e.ID == r.deadLetter.Event && sink.Digest(e.Body) == r.deadLetter.Digest
	r.outcome = ResendOutcome{Fate: SentCurrent, Event: e.ID, Type: e.Type}
	if same {
		r.outcome.Fate = SentSame
	}
	return same
}

// DeadLetterLimit bounds how many rows of one stream become dead letters within a minute. Once it
// is exceeded, every further row is refused until the process ends. The shards of a stream share
// it; it is safe for concurrent use.
type DeadLetterLimit struct {
	stream string
	most   int

	mu sync.Mutex
	// rows are those that were counted within the last minute, in that order; there is their set.
	rows  []countedRow
	there map[rowOfShard]struct{}
	// full says that the limit was exceeded.
	full bool
}

type rowOfShard struct {
	shard string
	row   uint64
}

type countedRow struct {
	rowOfShard
	at time.Time
}

// limitSpan is the time in which rows are counted together.
const limitSpan = time.Minute

// NewDeadLetterLimit returns a limit of most rows a minute; 0 is no limit.
func NewDeadLetterLimit(stream string, most int) *DeadLetterLimit {
	return &DeadLetterLimit{stream: stream, most: most, there: make(map[rowOfShard]struct{})}
}

// count counts the row of m at a moment, and returns an error when it is one too many. A row that
// was counted within the last minute is a retry and not counted again. A nil limit has no bound.
func (l *DeadLetterLimit) count(m *sink.Message, reason string, now time.Time) error {
	if l == nil || l.most == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget(now.Add(-limitSpan))
	row := rowOfShard{m.Shard, m.RowID}
	if _, again := l.there[row]; again {
		return nil
	}
	if l.full = l.full || len(l.rows) >= l.most; l.full {
		return &deadLetterLimitError{stream: l.stream, most: l.most, refused: sink.RejectedError{Message: *m, Reason: reason}}
	}
	// Invariant 7: at most as many rows as the limit says.
	l.rows = append(l.rows, countedRow{row, now})
	l.there[row] = struct{}{}
	return nil
}

// forget drops the rows that were counted before a moment.
func (l *DeadLetterLimit) forget(before time.Time) {
	n := 0
	for ; n < len(l.rows) && !l.rows[n].at.After(before); n++ {
		delete(l.there, l.rows[n].rowOfShard)
	}
	l.rows = l.rows[n:]
}

// deadLetterLimitError says that a stream has more dead letters than it may.
type deadLetterLimitError struct {
	stream  string
	most    int
	refused sink.RejectedError
}

func (e *deadLetterLimitError) Error() string { return e.Named(option.Short) }

// Named returns the text with the setting as naming has it.
func (e *deadLetterLimitError) Named(naming option.Naming) string {
	m := &e.refused.Message
	return fmt.Sprintf("more than %d rows of stream %s within a minute would be dead letters, which %s forbids: %s refuses row %d of %s, too (event %s, %d bytes): %s: "+
		"see with bridge deadletter list what is refused, mend the rows or the bus, then restart bridge, which goes on with this row; a higher limit, or 0, puts more aside",
		e.most, e.stream, naming(option.DeadLetterLimit), m.Destination, m.RowID, m.Shard, m.ID, len(m.Value), e.refused.Reason)
}
