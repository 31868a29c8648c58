package shard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"example.org/bridge/event"
	"example.org/bridge/internal/option"
	"example.org/bridge/internal/stream"
	"example.org/bridge/sink"
	"example.org/bridge/source"
)

// republishing publishes again what a person has asked for, a page at a time beside the tail: rows
// that the tail has passed, and of these what is true when they are read. It moves neither the
// position nor a gap. It belongs to the owner.
type republishing struct {
	*nominations
	// asked has an element where the request has changed; interrupt ends the condition that runs.
	asked     <-chan struct{}
	interrupt *atomic.Pointer[context.CancelFunc]
	// next fires when the next page is due; it is stopped while there is none.
	next *time.Timer
	// matcher tells the rows that match the condition of the request with the number.
	matcher source.Shard
	number  uint64
	matched source.Page
	// only has the ids with a format of the rows that match, nil without a condition.
	only map[string]bool
	// scan is of how many rows at once it is asked, failures how often in a row the source has not
	// answered that although it was there.
	scan, failures int
	// most bounds a page of entities: the bus has to give the last message of each in time.
	most int
	// each is about how many bytes a message has.
	each uint64
	// scanned is up to which row the view was looked at for what a full list lacks, open why
	// something of that is left for the next time. resting has last messages be kept whole.
	scanned uint64
	open    error
	// dead counts the first events among these that the bus has refused.
	dead    uint64
	resting bool
}

const (
	// againRows bounds a page of entities, of each of which the last message is read.
	againRows = 500
	// againPause is the pause before a page is tried again for which the bus did not answer.
	againPause = time.Second
	// matchFailures in a row end a request, each time with a part of the rows.
	matchFailures, matchPart = 3, 10
)

// laterError ends a page that is to be read again, and says why.
type laterError struct{ error }

func later(format string, args ...any) error { return &laterError{fmt.Errorf(format, args...)} }

// unfitError ends the request, not the shard, and says why: as of a row that cannot be published
// again.
type unfitError struct{ error }

// Unwrap is for errors.As.
func (e *unfitError) Unwrap() error { return e.error }

// active reports whether the table has something to publish again, or a list to lead.
func (r *republishing) active() bool {
	list, own := r.opts.Feed.Lists().Last(), r.opts.Feed.Republish(r.opts.Name)
	return own.Running() ||
		list.Running() && (list.List == "" || own == nil || own.List != list.List || r.opts.Feed.Lists().Leads(r.opts.Name))
}

// step publishes a page if one is to be published again, and sets the timer for the next one.
func (r *republishing) step(ctx context.Context) error {
	if !r.active() {
		// The tail goes on beside what is on its way.
		r.gaps.status.update(func(status *Status) { status.RepublishWaits = "" })
		if r.opts.Feed.Lists().Last().Running() {
			// It may begin again.
			r.next.Reset(againPause)
		}
		return nil
	}
	// What is on its way is not published yet.
	if err := r.gaps.pipe.wait(ctx); err != nil {
		return err
	}
	waits := ""
	asked, pause, err := r.turn(ctx)
	if asked.Running() && err == nil {
		pause, err = r.stepPage(ctx, asked)
	}
	if why, is := errors.AsType[*laterError](err); is {
		err, waits, pause = nil, r.opts.Text(why), max(pause, againPause)
	}
	r.gaps.status.update(func(status *Status) { status.RepublishWaits = waits })
	if pause > 0 {
		r.next.Reset(pause)
	}
	return err
}

// stepPage publishes a page, and returns when the next one is due.
func (r *republishing) stepPage(ctx context.Context, asked *stream.Republish) (pause time.Duration, err error) {
	if r.number != asked.Number {
		r.number, r.matcher, r.only = asked.Number, nil, nil
		r.scanned, r.open = 0, nil
		r.scan, r.failures = r.opts.BatchRows, 0
		r.opts.RepublishRate.Set(asked.Rate)
		r.opts.Logger.Info("publishing again what a person has asked for", "from", asked.From, "to", asked.To, "keys", len(asked.Keys), "behind", asked.Cursor)
	}
	if err := r.reader.ready(ctx); err != nil {
		return 0, err
	}
	rows, pause := r.admit()
	if rows == 0 {
		return pause, nil
	}
	began := time.Now()
	publish := r.idsAgain
	if len(asked.Keys) > 0 {
		publish = r.keysAgain
	}
	used, err := publish(ctx, asked, rows)
	if bad, is := errors.AsType[*unfitError](err); is {
		err = r.finish(ctx, &stream.Republished{Number: asked.Number, Cursor: asked.Cursor, State: stream.RepublishFailed, Error: r.opts.Text(bad)})
	}
	unused := rows - min(used, rows)
	r.opts.RepublishRate.put(unused)
	r.opts.Rate.put(unused)
	if took := time.Since(began); took > againPause {
		// The tail has as much time as a slow page has.
		return took, err
	}
	return 1, err
}

// admit returns how many rows may pass now, and where there is none when to ask again. The tails of
// the stream come first.
func (r *republishing) admit() (rows int, pause time.Duration) {
	most := r.opts.BatchRows
	if r.entities != nil {
		most = min(most, r.most)
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

func (r *republishing) keysAgain(ctx context.Context, asked *stream.Republish, rows int) (used int, err error) {
	through := min(asked.Cursor, uint64(len(asked.Keys)))
	var keys [][]byte
	for _, key := range asked.Keys[through:] {
		if len(keys) == min(rows, keysAtOnce) {
			break
		}
		// It may be one of another table, whose key columns are of other kinds.
		if values, err := r.opts.Encoder.KeyValues([]byte(key), nil); err != nil && !(r.opts.Shared && len(values) > 0) {
			return 0, &unfitError{fmt.Errorf("the key %.200q: %w: write it as messages of the entity have it", key, err)}
		}
		keys = append(keys, []byte(key))
	}
	if len(keys) == 0 {
		return 0, r.finish(ctx, &stream.Republished{Number: asked.Number, Cursor: asked.Cursor, State: stream.RepublishDone})
	}
	err = source.InParts(keys, func(part [][]byte) (whole bool, err error) {
		next := through + uint64(len(part))
		whole, err = r.byKey(ctx, part, nil, func(b *batch, page *page) error {
			used += len(page.Rows)
			return r.addPage(ctx, asked, b, page, next, next == uint64(len(asked.Keys)))
		})
		if whole {
			through = next
		}
		return whole, err
	})
	return used, err
}

func (r *republishing) idsAgain(ctx context.Context, asked *stream.Republish, rows int) (used int, err error) {
	q := source.Query{Limit: rows, MaxBytes: r.opts.Limits.pageBytes()}
	q.After, q.Through = max(asked.Cursor, asked.From-min(1, asked.From)), r.end(asked)
	done := &stream.Republished{Number: asked.Number, Cursor: asked.Cursor, State: stream.RepublishDone}
	through, last := q.Through, asked.List == ""
	switch {
	case q.After >= q.Through && last:
		return 0, r.finish(ctx, done)
	case q.After >= q.Through:
		return r.rest(ctx, asked, rows)
	case asked.Where != "":
		var ranges []source.Range
		if ranges, through, err = r.match(ctx, asked, q, rows); err != nil {
			if ctx.Err() != nil || !r.refused(ctx, asked, err) {
				return 0, cmp.Or(ctx.Err(), later("the condition is not answered: %w", err))
			}
			why := option.Text(err, func(name option.Name) string { return strings.Replace(string(name), string(option.Filter), "where", 1) })
			return 0, &unfitError{fmt.Errorf("the condition %.200s: %s", asked.Where, why)}
		}
		if last = through == q.Through; len(ranges) == 0 {
			if done.Cursor = through; !last {
				done.State = ""
			}
			return 0, r.finish(ctx, done)
		}
		q = source.Query{Ranges: ranges, Limit: rows, MaxBytes: q.MaxBytes}
	}
	err = r.publish(ctx, q, nil, func(b *batch, page *page) error {
		if used = len(page.Rows); page.More && used > 0 {
			return r.addPage(ctx, asked, b, page, page.Rows[used-1].ID, false)
		}
		return r.addPage(ctx, asked, b, page, through, last)
	})
	return used, err
}

// addPage adds to b what is published again of a page. Then all is done up to through, and where
// last is set the request.
func (r *republishing) addPage(ctx context.Context, asked *stream.Republish, b *batch, page *page, through uint64, last bool) error {
	if err := r.compare(ctx, page); err != nil {
		return err
	}
	done := &stream.Republished{Number: asked.Number, Cursor: through, List: asked.List != ""}
	if last {
		done.State = stream.RepublishDone
	}
	b.republished = done
	wanted, err := r.wanted(asked, page)
	if err != nil {
		return err
	}
	if r.entities == nil {
		r.addFactsAgain(b, page, wanted, done)
		return nil
	}
	return r.addStatesAgain(ctx, b, page, wanted, done)
}

// compare has a page of another server, or of one that was started again, be published only where
// the rows published last are there as they were: it does what the tail does with its pages.
func (r *republishing) compare(ctx context.Context, page *page) error {
	ready, err := r.publishedRows.watch(ctx, page)
	if err != nil {
		return err
	}
	if !ready {
		return later("the source does not show the rows that were published last")
	}
	return r.gaps.server.meet(ctx, page.Server)
}

// end returns the last id that is published again: the tail brings those that it has yet to reach.
func (r *republishing) end(asked *stream.Republish) uint64 {
	if r.gaps.server.tailless() || asked.List != "" {
		return asked.To
	}
	return min(asked.To, r.gaps.position())
}

// finish commits what was done without a row.
func (r *republishing) finish(ctx context.Context, done *stream.Republished) error {
	return r.commit(ctx, func(b *batch) error { b.republished = done; return nil })
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
		done := asked.IsDone(unit)
		if columns := page.Columns; columns.IDFormat != "" && len(asked.Keys) == 0 {
			// The bus may have some of the rows of an id, unless it has batches whole: all are
			// repeated.
			done = done && r.opts.Whole || r.only != nil && !r.only[string(row.Values[columns.ID])]
		}
		if !r.gaps.toPublish(row.ID) && !done {
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
		if said := last[one.Known.Event]; said.dead && done.List {
			if said.first {
				continue
			}
			return &unfitError{refusedLast(one.Entity)}
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
		} else {
			done.Changed++
		}
		if again || r.gaps.toPublish(row.ID) {
			continue
		}
		r.publishedRows.note(b, page.Columns, row, one.Digest, one.Entity)
	}
	return r.nominate(ctx, nil, decisions)
}

// Republishes has the shard look at what the store says that is to be published again.
func (s *Shard) Republishes() {
	if end := s.interrupt.Load(); end != nil {
		(*end)()
	}
	signal(s.republish)
	s.wake()
}
