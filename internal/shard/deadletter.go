package shard

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/event"
	"example.org/bridge/internal/option"
	"example.org/bridge/sink"
	"example.org/bridge/source"
)

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

func (o *nominations) resendRow(ctx context.Context, r *resending, n *nomination) error {
	if o.gaps.toPublish(r.Row) {
		r.end(ResendLeft, "the tail has yet to come to the row")
		return nil
	}
	q := source.Query{Ranges: []source.Range{{First: r.Row, Last: r.Row}}, Limit: 1, MaxBytes: o.opts.Limits.pageBytes()}
	return o.publish(ctx, q, n, func(b *batch, page *page) error {
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
	o.builder.resend(map[string]*resending{name: r}, n)
	_, err := o.byKey(ctx, keys, &nomination{ctx: n.ctx, dry: true}, func(b *batch, page *page) error {
		r.set(ResendOutcome{})
		if err := o.dispute(ctx, b, keys, map[string][16]byte{name: last}); err != nil {
			return err
		}
		decisions, err := o.entities.decide(ctx, b, page.Rows)
		if err != nil {
			return err
		}
		_, err = o.builder.addStates(b, page, page.Rows, decisions, always(sink.FromReconcile))
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
			return o.tryAbsence(ctx, b, page, r)
		}
		return nil
	})
	return err
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

// DeadLetterLimit bounds how many rows of one stream become dead letters within a minute. Once it
// is exceeded, every further row is refused until the process ends. The shards of a stream share
// it; it is safe for concurrent use.
type DeadLetterLimit struct {
	stream string
	most   int

	mu sync.Mutex
	// counted says when rows were counted last, of the last minute and perhaps before.
	counted map[rowOfShard]time.Time
	// full says that the limit was exceeded.
	full bool
}

// rowOfShard has the key, too: several rows may have one id.
type rowOfShard struct {
	shard string
	row   uint64
	key   string
}

// limitSpan is the time in which rows are counted together.
const limitSpan = time.Minute

// NewDeadLetterLimit returns a limit of most rows a minute, 0 for any number of them.
func NewDeadLetterLimit(stream string, most int) *DeadLetterLimit {
	return &DeadLetterLimit{stream: stream, most: most, counted: make(map[rowOfShard]time.Time)}
}

// count returns an error when the row of m is one too many. A row that was counted within the last
// minute is a retry and not counted again. A nil limit has no bound.
func (l *DeadLetterLimit) count(m *sink.Message, reason string, now time.Time) error {
	if l == nil || l.most == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	row, old := rowOfShard{m.Shard, m.RowID, string(m.Key)}, func(at time.Time) bool { return now.Sub(at) >= limitSpan }
	if at, again := l.counted[row]; again && !old(at) {
		return nil
	}
	// Invariant 7: at most as many rows as the limit says.
	if len(l.counted) >= l.most {
		maps.DeleteFunc(l.counted, func(_ rowOfShard, at time.Time) bool { return old(at) })
	}
	if l.full = l.full || len(l.counted) >= l.most; l.full {
		return &deadLetterLimitError{stream: l.stream, most: l.most, refused: sink.RejectedError{Message: *m, Reason: reason}}
	}
	l.counted[row] = now
	return nil
}

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
		"see with bridge deadletter list what is refused, fix the rows or the bus, then restart bridge, which goes on with this row; a higher limit, or 0, puts more aside",
		e.most, e.stream, naming(option.DeadLetterLimit), m.Destination, m.RowID, m.Shard, m.ID, len(m.Value), e.refused.Reason)
}
