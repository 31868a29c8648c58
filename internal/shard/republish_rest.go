package shard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/internal/stream"
	"example.org/bridge/source"
)

const (
	// restAtOnce entries of the view are looked at together.
	restAtOnce = 1000
	// restBytes is about how many bytes of messages are kept whole.
	restBytes = 4 << 20
)

// rest publishes again what no page of a full list has brought of the entities that live by the
// view, and whose last messages lie before the list: their rows are gone, or count as gone, and
// their Deleted events are held back or yet to come; or other rows have them. So what the list
// lacks has its Deleted event on the bus.
func (r *republishing) rest(ctx context.Context, asked *stream.Republish, rows int) (used int, err error) {
	if r.scanned == 0 {
		r.dead = 0
	}
	var list, left []store.Change
	err = r.reader.retrier.readStore(ctx, func() (err error) {
		list, err = r.opts.View.ByRow(ctx, r.opts.Name, r.scanned, restAtOnce, list[:0])
		return err
	})
	if err != nil {
		return 0, err
	}
	through, most := r.scanned, min(rows, max(1, restBytes/max(1, int(r.each))))
	for _, one := range list {
		known := &one.Entry
		if n := len(left); n >= most && known.Row > left[n-1].Entry.Row {
			// All of a row go at once.
			break
		}
		switch {
		case known.State != store.Live || known.Epoch > asked.Epoch || known.Epoch == asked.Epoch && known.Seq > asked.Seq:
		case known.Disputed:
			r.open = later("a reconcile is to tell what is true of the entity %.100q, whose row was not met", one.Entity)
		default:
			left = append(left, one)
		}
		through = known.Row
	}
	if len(left) > 0 {
		err = r.restAgain(ctx, asked, left)
	}
	switch {
	case err != nil:
		return 0, err
	case len(list) > 0:
		r.scanned = through
		return len(left), nil
	case r.open != nil:
		err, r.scanned, r.open = r.open, 0, nil
		return 0, err
	}
	r.scanned = 0
	return 0, r.finish(ctx, &stream.Republished{Number: asked.Number, Cursor: asked.Cursor, Refused: r.dead, State: stream.RepublishDone})
}

// restAgain publishes the last messages of entities again, as they are: rows say no more of them
// than the view.
func (r *republishing) restAgain(ctx context.Context, asked *stream.Republish, left []store.Change) error {
	rows, dead := make([]stream.Row, len(left)), uint64(0)
	for i := range left {
		known := &left[i].Entry
		rows[i] = stream.Row{ID: known.Row, Entity: left[i].Entity, Digest: known.Digest}
	}
	err := r.publish(ctx, source.Query{}, nil, func(b *batch, _ *page) error {
		b.republished = &stream.Republished{Number: asked.Number, Cursor: asked.Cursor, List: true}
		b.claims.Again, dead = true, 0
		var decisions []stream.Decision
		err := r.reader.retrier.readStore(ctx, func() (err error) {
			decisions, err = r.opts.View.Decide(ctx, b.claims, rows, nil, decisions[:0])
			return err
		})
		if err != nil {
			return err
		}
		r.resting = true
		last, err := r.lastMessages(ctx, decisions)
		if r.resting = false; err != nil {
			return err
		}
		for i := range decisions {
			one := &decisions[i]
			said, found := last[one.Known.Event]
			switch {
			case one.Nominate:
				r.open = later("the entity %.100q is being moved", one.Entity)
				continue
			case !one.News || !one.Again:
				return later("the entity %.100q has changed meanwhile", one.Entity)
			case !found:
				return &unfitError{fmt.Errorf("the bus has the last event of the entity %.100q no more, and its row was not met: once a reconcile has published that it is deleted, ask again", one.Entity)}
			case said.first:
				dead++
				continue
			case said.dead:
				return &unfitError{refusedLast(one.Entity)}
			}
			if err := r.builder.addSaid(b, one, &said); err != nil {
				return &unfitError{err}
			}
			b.republished.Rows++
		}
		return nil
	})
	if err == nil {
		r.dead += dead
	}
	return err
}

// refusedLast is why a full list fails at an entity: the bus may have an older event of it.
func refusedLast(entity []byte) error {
	return fmt.Errorf("the last event of the entity %.100q is a dead letter: once bridge deadletter resend has published it, ask again", entity)
}

// matchWithin bounds the time that a condition takes of the tail.
const matchWithin = 5 * time.Second

var errSlowCondition = fmt.Errorf("the condition took more than %s", matchWithin)

// match returns the ids of at most so many rows that q names and that match the condition, and up
// to which id it has looked. It tries once: what the condition does is no outage of the table.
func (r *republishing) match(ctx context.Context, asked *stream.Republish, q source.Query, most int) (ids []source.Range, through uint64, err error) {
	if r.matcher == nil {
		r.matcher = r.opts.Matcher(asked.Where)
	}
	p := &r.matched
	// How many match is not known.
	q.Limit = r.scan
	running, end := context.WithTimeoutCause(ctx, matchWithin, errSlowCondition)
	defer end()
	r.interrupt.Store(&end)
	defer r.interrupt.Store(nil)
	err = r.reader.query(running, new(span), func() error { return r.matcher.Read(running, q, p) })
	if err != nil {
		return nil, 0, err
	}
	r.failures = 0
	defer p.Reset()
	if through = q.Through; p.More && len(p.Rows) > 0 {
		through = p.Rows[len(p.Rows)-1].ID
	}
	var found []uint64
	if r.only = nil; p.Columns.IDFormat != "" {
		r.only = make(map[string]bool)
	}
	for _, row := range p.Rows {
		if row.Filtered {
			continue
		}
		if n := len(found); n >= most && row.ID != found[n-1] {
			return source.RangesOf(found), found[n-1], nil
		}
		if found = append(found, row.ID); r.only != nil {
			r.only[string(row.Values[p.Columns.ID])] = true
		}
	}
	return source.RangesOf(found), through, nil
}

// refused reports whether an error of the condition is to end the request: it is none that passes,
// or the source has failed to answer it several times although it is there, each time about fewer
// rows.
func (r *republishing) refused(ctx context.Context, asked *stream.Republish, err error) bool {
	if permanent(err) {
		return true
	}
	own := r.opts.Feed.Republish(r.opts.Name)
	if !own.Running() || own.Number != asked.Number || errors.Is(err, source.ErrAltered) || r.reader.retrier.unreadable(ctx) != r.reader.retrier.table {
		return false
	}
	r.failures++
	r.scan = max(1, r.scan/matchPart)
	return r.failures >= matchFailures
}
