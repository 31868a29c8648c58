package shard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"example.org/bridge/event"
	"example.org/bridge/internal/null"
	"example.org/bridge/internal/stream"
	"example.org/bridge/sink"
	"example.org/bridge/source"
)

// republishing publishes again what a person has asked for, a page at a time beside the tail: rows
// that the tail has passed, and of these what is true when they are read. It moves neither the
// position nor a gap. It belongs to the owner.
type republishing struct {
	*nominations
	// asked has an element where the request has changed.
	asked <-chan struct{}
	// next fires when the next page is due; it is stopped while there is none.
	next *time.Timer
	// matcher tells the rows that match the condition of the request with the number.
	matcher source.Shard
	number  uint64
	matched source.Page
}

func newRepublishing(n *nominations, asked <-chan struct{}) *republishing {
	return &republishing{nominations: n, asked: asked, next: time.NewTimer(0)}
}

const (
	// againRows bounds a page of entities, of each of which the last message is read.
	againRows = 500
	// againPause is the pause before a page is tried again for which the bus did not answer.
	againPause = time.Second
)

// errLater ends a page that is to be read again.
var errLater = errors.New("the bus does not tell the last messages now")

// active reports whether something is left to be done.
func (r *republishing) active() bool {
	return r.gaps.state.Republishes()
}

// step publishes a page, and sets the timer for the next one.
func (r *republishing) step(ctx context.Context) error {
	if !r.active() {
		return nil
	}
	// What is on its way is not published yet.
	if err := r.gaps.pipe.wait(ctx); err != nil {
		return err
	}
	asked := r.gaps.state.Republish()
	if !asked.Running() {
		return nil
	}
	if r.number != asked.Number {
		r.number, r.matcher = asked.Number, nil
		r.opts.RepublishRate.Set(asked.Rate)
		r.opts.Logger.Info("publishing again what a person has asked for", "from", asked.From, "to", asked.To, "keys", len(asked.Keys), "behind", asked.Cursor)
	}
	if err := r.reader.ready(ctx); err != nil {
		return err
	}
	rows, pause := r.admit()
	if rows == 0 {
		r.next.Reset(pause)
		return nil
	}
	used, err := r.page(ctx, asked, rows)
	r.opts.RepublishRate.put(rows - used)
	r.opts.Rate.put(rows - used)
	switch {
	case errors.Is(err, errLater):
		pause = againPause
	case err != nil:
		return err
	}
	r.next.Reset(pause)
	return nil
}

// admit returns how many rows may pass now, and where there is none when to ask again. The tails of
// the stream come first.
func (r *republishing) admit() (rows int, pause time.Duration) {
	most := r.opts.BatchRows
	if r.entities != nil {
		most = min(most, againRows)
	}
	own := r.opts.RepublishRate.admit(most, false)
	if own == 0 {
		return 0, max(time.Millisecond, r.opts.RepublishRate.wait())
	}
	rows = r.opts.Rate.admit(own, false)
	r.opts.RepublishRate.put(own - rows)
	if rows == 0 {
		pause = max(time.Millisecond, r.opts.Rate.wait())
	}
	return rows, pause
}

// page publishes at most so many of the next rows or keys, and returns how many it has read.
func (r *republishing) page(ctx context.Context, asked *stream.Republish, rows int) (used int, err error) {
	done := &stream.Republished{Number: asked.Number}
	q := source.Query{Limit: rows, MaxBytes: r.opts.Limits.pageBytes()}
	through, last := uint64(0), false
	switch {
	case len(asked.Keys) > 0:
		keys := asked.Keys[asked.Cursor:]
		keys = keys[:min(len(keys), rows, keysAtOnce)]
		through = asked.Cursor + uint64(len(keys))
		if q.Keys, err = r.values(keys); err != nil {
			return 0, r.finish(ctx, r.failed(asked, err))
		}
		// Each of these has one row at most, but the server may compare more loosely.
		q.Limit, q.MaxBytes = 2*len(keys)+1, 0
		last = through == uint64(len(asked.Keys))
	default:
		q.After, through = max(asked.Cursor, asked.From-min(1, asked.From)), r.end(asked)
		if q.After >= through {
			done.Cursor, done.State = asked.Cursor, stream.RepublishDone
			return 0, r.finish(ctx, done)
		}
		q.Through, last = through, true
		if asked.Where != "" {
			var ranges []source.Range
			if ranges, through, err = r.match(ctx, asked.Where, q, rows); err != nil {
				if ctx.Err() != nil || !permanent(err) {
					return 0, cmp.Or(ctx.Err(), errLater)
				}
				return 0, r.finish(ctx, r.failed(asked, fmt.Errorf("the condition %.200s: %w", asked.Where, err)))
			}
			last = through == q.Through
			if len(ranges) == 0 {
				done.Cursor = through
				return 0, r.finish(ctx, endAt(done, last))
			}
			q = source.Query{Ranges: ranges, Limit: rows, MaxBytes: q.MaxBytes}
		}
	}
	err = r.publish(ctx, q, nil, func(b *batch, page *page) error {
		*done = stream.Republished{Number: asked.Number, Cursor: through}
		used = len(page.Rows)
		if page.More && used > 0 {
			done.Cursor = page.Rows[used-1].ID
		}
		b.republished = endAt(done, last && !page.More)
		wanted, err := r.wanted(asked, page)
		if err != nil {
			return err
		}
		if r.entities == nil {
			r.addFactsAgain(b, page, wanted, done)
			return nil
		}
		return r.addStatesAgain(ctx, b, page, wanted, done)
	})
	if bad, is := errors.AsType[*unfitError](err); is {
		return used, r.finish(ctx, r.failed(asked, bad))
	}
	return min(used, rows), err
}

// unfitError is the error of a row that cannot be published again: it ends the request, not the
// shard.
type unfitError struct{ error }

// Unwrap is for errors.As.
func (e *unfitError) Unwrap() error { return e.error }

// failed has the request end with an error.
func (r *republishing) failed(asked *stream.Republish, err error) *stream.Republished {
	return &stream.Republished{Number: asked.Number, Cursor: asked.Cursor, State: stream.RepublishFailed, Error: r.opts.Text(err)}
}

// endAt has done be the end of the request where last is set.
func endAt(done *stream.Republished, last bool) *stream.Republished {
	if last {
		done.State = stream.RepublishDone
	}
	return done
}

// end returns the last id that is published again: the tail brings those that it has yet to reach.
func (r *republishing) end(asked *stream.Republish) uint64 {
	if r.gaps.server.tailless() {
		return asked.To
	}
	return min(asked.To, r.gaps.position())
}

// finish commits what was done without a row.
func (r *republishing) finish(ctx context.Context, done *stream.Republished) error {
	return r.commit(ctx, func(b *batch) error { b.republished = done; return nil })
}

// values returns the values of the key columns of keys.
func (r *republishing) values(keys []string) ([][][]byte, error) {
	entities := make([][]byte, len(keys))
	for i, key := range keys {
		entities[i] = []byte(key)
	}
	return KeyValues(r.opts.Encoder, r.opts.Stream, entities)
}

// match returns the ids of at most so many rows that q names and that match a condition, and up to
// which id it has looked.
func (r *republishing) match(ctx context.Context, condition string, q source.Query, most int) (ids []source.Range, through uint64, err error) {
	if r.matcher == nil {
		r.matcher = r.opts.Matcher(condition)
	}
	p := &r.matched
	// How many match is not known.
	q.Limit = r.opts.BatchRows
	err = r.reader.query(ctx, new(span), func() error { return r.matcher.Read(ctx, q, p) })
	if err != nil {
		return nil, 0, err
	}
	defer p.Reset()
	if through = q.Through; p.More && len(p.Rows) > 0 {
		through = p.Rows[len(p.Rows)-1].ID
	}
	var found []uint64
	for _, row := range p.Rows {
		if row.Filtered {
			continue
		}
		if len(found) == most {
			return source.RangesOf(found), found[most-1], nil
		}
		found = append(found, row.ID)
	}
	return source.RangesOf(found), through, nil
}

// wanted returns those rows of a page that are to be published again: not one that the tail or the
// ledger has yet to publish, nor one that the bus has of this request.
func (r *republishing) wanted(asked *stream.Republish, page *page) (rows []source.Row, err error) {
	for _, row := range page.Rows {
		unit := row.ID
		if len(asked.Keys) > 0 {
			digest, err := r.opts.Encoder.Digest(row)
			if err != nil {
				return nil, &unfitError{err}
			}
			if unit = uint64(slices.Index(asked.Keys, string(digest.Key)) + 1); unit == 0 {
				continue
			}
		}
		if !r.gaps.toPublish(row.ID) && !asked.IsDone(unit) {
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// addFactsAgain adds the events of rows of a release shard to b. One that cannot be encoded ends
// the request, not the shard.
func (r *republishing) addFactsAgain(b *batch, page *page, rows []source.Row, done *stream.Republished) {
	for _, row := range rows {
		if row.Filtered {
			continue
		}
		messages, size := len(b.messages), len(b.buf)
		if _, err := r.builder.add(b, event.Row{Row: row, Read: page.Now}, sink.FromRepublish); err != nil {
			b.undo(messages, size)
			done.Cursor, done.State, done.Error = row.ID-1, stream.RepublishFailed, r.opts.Text(err)
			return
		}
		// The bus has a message with its id.
		b.repairs = append(b.repairs, messages)
		done.Rows++
	}
}

// addStatesAgain adds what rows say of their entities to b: the last event again where it says the
// same, else the news.
// Invariant 3: an entity is claimed, so its last event is the newest one.
func (r *republishing) addStatesAgain(ctx context.Context, b *batch, page *page, rows []source.Row, done *stream.Republished) error {
	b.claims.Again = true
	decisions, err := r.entities.decide(ctx, b, rows)
	if err != nil {
		return err
	}
	last, err := r.lastMessages(ctx, decisions)
	if err != nil {
		return err
	}
	for i, row := range rows {
		one := &decisions[i]
		if !one.News {
			continue
		}
		again, err := r.addLast(b, row, one, last)
		if err == nil && !again {
			err = r.builder.addState(b, page, row, one, sink.FromReconcile)
		}
		if err != nil {
			return &unfitError{err}
		}
		if again {
			done.Rows++
			continue
		}
		done.Changed++
		r.publishedRows.note(b, page.Columns, row, one.Digest, one.Entity)
	}
	return r.nominate(ctx, nil, decisions)
}

// addLast adds the last event of an entity to b again, with its id, and reports whether it has. It
// has not where the bus has the event no more, or where it is of another table: then the row is
// published as news.
func (r *republishing) addLast(b *batch, row source.Row, one *stream.Decision, last map[[16]byte]lastMessage) (is bool, err error) {
	said, found := last[one.Known.Event]
	if !one.Again || !found {
		return false, nil
	}
	for _, op := range []event.Op{event.Added, event.Modified} {
		fact := event.Said{Op: op, Row: said.row, Predecessor: said.previous}
		if r.opts.Encoder.IDOf(&fact, row.Values, one.Digest) != one.Known.Event || said.row != row.ID && said.format != r.opts.Format {
			continue
		}
		e, err := r.builder.add(b, event.Row{Row: row, State: one.Digest, Op: op, Read: said.time, Predecessor: said.previous}, sink.FromRepublish)
		if err != nil {
			return false, err
		}
		if said.row != row.ID {
			b.replay(&said, one.Known.Event)
			e.UUID = one.Known.Event
		}
		r.builder.publish(b, one, &e)
		return true, nil
	}
	return false, nil
}

// replay has the last message of b say what one said that is on the bus: another row has its entity
// and its state since.
func (b *batch) replay(said *lastMessage, id [16]byte) {
	m, start := &b.messages[len(b.messages)-1], len(b.buf)
	b.buf = append(b.buf, said.value...)
	m.Value, m.ID, m.RowID = b.buf[start:len(b.buf):len(b.buf)], event.FormatID(id), said.row
	if m.Bare != nil {
		m.Bare.Time = said.time.UnixMilli()
	}
}

// lastMessage is what is read of the last message of an entity: its meta.time, the event that it
// follows, and its row. Where that is not the one of the entry any more it has the value, too.
type lastMessage struct {
	time     time.Time
	previous string
	row      uint64
	format   sink.Format
	value    []byte
}

const (
	// lastWithin bounds a read of last messages, lastBetween how many others are read with them.
	lastWithin  = 10 * time.Second
	lastBetween = 256
)

// lastMessages returns the last messages of entities that are published again, by their event ids;
// those that the bus has no more are missing. The error is errLater where it does not tell.
func (r *republishing) lastMessages(ctx context.Context, decisions []stream.Decision) (map[[16]byte]lastMessage, error) {
	last, offsets := make(map[[16]byte]lastMessage), make(map[uint32][]uint64)
	for i := range decisions {
		if known := &decisions[i].Known; decisions[i].Again && known.At.TP != 0 {
			last[known.Event] = lastMessage{row: known.Row}
			offsets[known.At.TP] = append(offsets[known.At.TP], known.At.Offset)
		}
	}
	defer maps.DeleteFunc(last, func(_ [16]byte, said lastMessage) bool { return said.time.IsZero() })
	reading, end := context.WithTimeout(ctx, lastWithin)
	defer end()
	for number, list := range offsets {
		tp := r.opts.Feed.NameOfTP(number)
		if tp == "" || r.opts.Reader == nil {
			continue
		}
		slices.Sort(list)
		for _, at := range source.JoinRanges(source.RangesOf(list), lastBetween) {
			err := r.reader.retrier.wait(owning, forEver, func() error { return r.readLast(reading, tp, at, last) })
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			if err != nil {
				r.opts.Logger.Debug("last messages cannot be read now", "tp", tp, "error", err)
				return nil, errLater
			}
		}
	}
	return last, nil
}

// readLast adds what messages of a TP say to last, by their event ids.
func (r *republishing) readLast(ctx context.Context, tp string, at source.Range, last map[[16]byte]lastMessage) error {
	span := sink.Span{TP: tp, From: at.First, To: at.Last + 1}
	for !span.Done(span.From) {
		next, err := r.opts.Reader.Read(ctx, span, func(m *sink.Stored) error {
			var f sink.Fields
			f.Read(m)
			id, err := f.ParseID()
			wanted, is := last[id]
			if err != nil || !is || string(f.Type) == sink.DeadLetterType || string(f.Shard) != r.opts.Name {
				return nil
			}
			said := lastMessage{format: sink.FormatOf(&f)}
			at, previous := sink.TimeAndPreviousOf(m)
			if said.row, err = f.ParseRowID(); err != nil || at == 0 {
				return nil
			}
			if said.time, said.previous = time.UnixMilli(at), previous; said.row != wanted.row {
				said.value = slices.Clone(m.Value)
			}
			last[id] = said
			return nil
		})
		expired, is := errors.AsType[*sink.ExpiredError](err)
		switch {
		case is && expired.First > span.From:
			next = expired.First
		case err != nil:
			return err
		}
		if next <= span.From {
			return nil
		}
		span.From = next
	}
	return nil
}

// Republish returns what was asked to be published again of the shard, and how far that is; nil for
// nothing.
func (s *Shard) Republish() *RepublishStatus {
	asked := s.opts.Feed.Republish(s.opts.Name)
	if asked == nil {
		return nil
	}
	return republishedOf(asked)
}

// RepublishStatus is how far a request to publish again is. Times are by the host's clock.
type RepublishStatus struct {
	State stream.RepublishState `json:"state"`
	// From and To are the first and the last id, Keys how many keys were asked for instead; Where
	// is the condition, null for none. Rate is in rows a second, 0 for no bound.
	From  uint64    `json:"from"`
	To    uint64    `json:"to"`
	Keys  int       `json:"keys"`
	Where null.Text `json:"where"`
	Rate  int       `json:"rate"`
	// Cursor is the id, or how many of the keys, up to which all is done.
	Cursor  uint64  `json:"cursor"`
	Percent float64 `json:"percent"`
	// Rows counts events that were published again, Changed those of rows that said something new.
	Rows    uint64    `json:"rows"`
	Changed uint64    `json:"changed"`
	AskedAt null.Time `json:"askedAt"`
	EndedAt null.Time `json:"endedAt"`
	Error   null.Text `json:"error"`
}

func republishedOf(r *stream.Republish) *RepublishStatus {
	s := &RepublishStatus{
		State: r.State, From: r.From, To: r.To, Keys: len(r.Keys), Where: null.Text(r.Where), Rate: int(r.Rate), Cursor: r.Cursor,
		Rows: r.Rows, Changed: r.Changed, AskedAt: null.At(r.Asked), EndedAt: null.At(r.Ended), Error: null.Text(r.Error),
	}
	first, last := max(1, r.From), r.To
	if len(r.Keys) > 0 {
		first, last = 1, uint64(len(r.Keys))
	}
	switch {
	case r.State == stream.RepublishDone, last < first:
		s.Percent = 100
	case r.Cursor >= first:
		s.Percent = 100 * float64(min(r.Cursor, last)-first+1) / float64(last-first+1)
	}
	return s
}

// Republishes has the shard look at what the store says that is to be published again.
func (s *Shard) Republishes() {
	select {
	case s.republish <- struct{}{}:
	default:
	}
	s.wake()
}
