package shard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/event"
	"example.org/bridge/internal/stream"
	"example.org/bridge/sink"
	"example.org/bridge/source"
)

const (
	// restAtOnce entries of the view are looked at together, restReads times in a row.
	restAtOnce, restReads = 1000, 20
	// restBytes is about how many bytes of messages are kept whole.
	restBytes = 4 << 20
)

// rest publishes again what no page of a full list has brought of the entities that live by the
// view: their rows are gone, or count as gone, and their Deleted events are held back or yet to
// come; or other rows have them. So what the list lacks has its Deleted event on the bus.
func (r *republishing) rest(ctx context.Context, asked *stream.Republish, rows int) (used int, err error) {
	if r.scanned == 0 {
		r.dead = 0
	}
	left, through, end, err := r.unlisted(ctx, asked, min(rows, max(1, restBytes/max(1, int(r.each)))))
	switch {
	case err != nil:
		return 0, err
	case len(left) > 0:
		if err := r.restAgain(ctx, asked, left); err != nil {
			return 0, err
		}
		r.scanned = through
		return min(len(left), rows), nil
	case !end:
		r.scanned = through
		return 0, nil
	case r.open != "":
		r.waits, r.scanned, r.open = r.open, 0, ""
		return 0, nil
	}
	r.scanned = 0
	return 0, r.finish(ctx, &stream.Republished{Number: asked.Number, Cursor: asked.Cursor, Refused: r.dead, State: stream.RepublishDone})
}

// unlisted returns about most of the next entities that live and whose last messages lie before the
// list, all of a row at once, and up to which row the view was looked at; end says that it has no
// more.
func (r *republishing) unlisted(ctx context.Context, asked *stream.Republish, most int) (left []store.Change, through uint64, end bool, err error) {
	through = r.scanned
	var list []store.Change
	for range restReads {
		err = r.reader.retrier.readStore(ctx, func() (err error) {
			list, err = r.opts.View.ByRow(ctx, r.opts.Name, through, restAtOnce, list[:0])
			return err
		})
		if err != nil || len(list) == 0 {
			return nil, through, err == nil, err
		}
		for _, one := range list {
			known := &one.Entry
			if n := len(left); n >= most && known.Row > left[n-1].Entry.Row {
				return left, through, false, nil
			}
			switch {
			case known.State != store.Live || known.Epoch > asked.Epoch || known.Epoch == asked.Epoch && known.Seq > asked.Seq:
			case known.Disputed:
				r.open = fmt.Sprintf("a reconcile is to tell what is true of the entity %.100q, whose row was not met", one.Entity)
			default:
				left = append(left, one)
			}
			through = max(through, known.Row)
		}
		if len(left) > 0 {
			return left, through, false, nil
		}
	}
	return nil, through, false, nil
}

// restAgain publishes the last messages of entities again, as they are.
func (r *republishing) restAgain(ctx context.Context, asked *stream.Republish, left []store.Change) error {
	rows, before := make([]stream.Row, len(left)), make([]stream.Decision, len(left))
	for i := range left {
		known := &left[i].Entry
		rows[i] = stream.Row{ID: known.Row, Entity: left[i].Entity, Digest: known.Digest}
		before[i] = stream.Decision{Row: rows[i], Known: *known, Again: true}
	}
	r.resting = true
	last, err := r.lastMessages(ctx, before)
	if r.resting = false; err != nil {
		return err
	}
	was := r.dead
	err = r.publish(ctx, source.Query{}, nil, func(b *batch, _ *page) error {
		b.republished = &stream.Republished{Number: asked.Number, Cursor: asked.Cursor, List: true}
		r.dead = was
		return r.addRest(ctx, b, rows, last)
	})
	if _, is := err.(*unfitError); is {
		return r.finish(ctx, r.failed(asked, err))
	}
	return err
}

// addRest adds the last messages of entities, which rows say no more of than the view.
func (r *republishing) addRest(ctx context.Context, b *batch, rows []stream.Row, last map[[16]byte]lastMessage) error {
	b.claims.Again = true
	var decisions []stream.Decision
	err := r.reader.retrier.readStore(ctx, func() (err error) {
		decisions, err = r.opts.View.Decide(ctx, b.claims, rows, nil, decisions[:0])
		return err
	})
	if err != nil {
		return err
	}
	for i := range decisions {
		one := &decisions[i]
		said, found := last[one.Known.Event]
		switch {
		case one.Nominate:
			r.open = fmt.Sprintf("the entity %.100q is being moved", one.Entity)
			continue
		case !one.News || !one.Again:
			return later("the entity %.100q has changed meanwhile", one.Entity)
		case !found:
			return &unfitError{fmt.Errorf("the bus has the last event of the entity %.100q no more, and its row was not met: once a reconcile has published that it is deleted, ask again", one.Entity)}
		case said.first:
			r.dead++
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
}

// refusedLast is why a full list fails at an entity: the bus may have an older event of it.
func refusedLast(entity []byte) error {
	return fmt.Errorf("the last event of the entity %.100q is a dead letter: once bridge deadletter resend has published it, ask again", entity)
}

// addSaid adds the last message of an entity to b again, as the bus has it.
func (m *builder) addSaid(b *batch, one *stream.Decision, said *lastMessage) error {
	start := len(b.buf)
	// That gives what all events of the table have.
	buf, e, err := m.opts.Encoder.AppendAbsent(b.buf, event.Absent{Key: one.Entity, ID: said.row, Read: said.time})
	if err != nil {
		return err
	}
	b.buf = append(buf[:start], said.stored.Value...)
	e.Op, e.Type, e.Reason, e.Unfit, e.Key = event.Modified, m.opts.Encoder.Type(event.Modified), "", "", bytes.Clone(one.Entity)
	e.UUID, e.ID, e.Digest, e.Body = one.Known.Event, event.FormatID(one.Known.Event), one.Known.Digest, b.buf[start:len(b.buf):len(b.buf)]
	m.send(b, &e, said.row, sink.FromRepublish)
	to := &b.messages[len(b.messages)-1]
	var f sink.Fields
	f.Read(&said.stored)
	if to.Format = said.format; f.Type != nil {
		to.Type = string(f.Type)
	}
	if f.Version != nil {
		to.Version, to.Schema = string(f.Version), string(f.Schema)
	}
	to.Form, to.Born = sink.ParseForm(f.Form)
	if said.format == sink.FormatRow || said.format == sink.FormatPayload {
		to.Bare = &sink.Bare{Time: said.time.UnixMilli(), Previous: said.previous, Content: string(f.ContentType)}
	}
	if said.format == sink.FormatPayload {
		to.Destination = said.stored.Destination
		to.Bare.Headers = slices.DeleteFunc(said.stored.Headers, func(h sink.Header) bool { return sink.IsReserved(h.Name) })
	}
	m.publish(b, one, &e)
	return nil
}

func cloneOf(m *sink.Stored) sink.Stored {
	headers := slices.Clone(m.Headers)
	for i := range headers {
		headers[i].Value = bytes.Clone(headers[i].Value)
	}
	return sink.Stored{Destination: m.Destination, Value: bytes.Clone(m.Value), Headers: headers}
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
	running, end := r.whileAsked(ctx, asked.Number)
	defer end()
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

// whileAsked returns a context that ends with the request of a number, too, and with the time that
// a condition has.
func (r *republishing) whileAsked(ctx context.Context, number uint64) (running context.Context, end func()) {
	running, cancel := context.WithTimeoutCause(ctx, matchWithin, errSlowCondition)
	var watch sync.WaitGroup
	watch.Go(func() {
		for {
			select {
			case <-running.Done():
				return
			case <-r.asked:
			}
			if !r.runs(number) {
				cancel()
			}
		}
	})
	return running, func() { cancel(); watch.Wait() }
}

func (r *republishing) runs(number uint64) bool {
	asked := r.gaps.state.Republish()
	return asked.Running() && asked.Number == number
}

// refused reports whether an error of the condition is to end the request: it is none that passes,
// or the source has failed to answer it several times although it is there, each time about fewer
// rows.
func (r *republishing) refused(ctx context.Context, asked *stream.Republish, err error) bool {
	if permanent(err) {
		return true
	}
	if !r.runs(asked.Number) || errors.Is(err, source.ErrAltered) || r.reader.retrier.unreadable(ctx) != r.reader.retrier.table {
		return false
	}
	r.failures++
	r.scan = max(1, r.scan/matchPart)
	return r.failures >= matchFailures
}
