package shard

import (
	"context"
	"errors"
	"slices"

	"example.org/bridge/event"
	"example.org/bridge/internal/stream"
	"example.org/bridge/sink"
	"example.org/bridge/source"
	"example.org/bridge/source/ledger"
)

// nominations publishes rows and entities that another than the tail has found: it reads them
// again and hands on what says something new. It belongs to the owner.
type nominations struct {
	opts    *Options
	reader  *reader
	builder *builder
	// entities is nil for a release shard.
	entities      *entities
	publishedRows *publishedRows
	gaps          *gaps
	handOver      func(*batch, *hold)
}

// handle reads what n names, publishes what differs and ends n once that is committed. After an
// error n does not end: its caller learns that the shard stopped.
func (o *nominations) handle(ctx context.Context, n *nomination) error {
	pipe := o.gaps.pipe
	before := pipe.sent
	if err := o.serve(ctx, n); err != nil && !errors.Is(err, errCancelled) {
		return err
	}
	// Nobody waits for moves.
	if n.moves == nil && pipe.sent != before {
		if err := pipe.wait(ctx); err != nil {
			return err
		}
	}
	n.done()
	return nil
}

func (o *nominations) serve(ctx context.Context, n *nomination) error {
	if err := o.reader.ready(ctx); err != nil {
		return err
	}
	switch {
	case n.deadLetters != nil:
		return o.resend(ctx, n)
	case n.moves != nil:
		return o.move(ctx, n.moves, n)
	case n.compared > 0:
		// A reconcile has compared the whole table.
		return o.commit(ctx, func(b *batch) error { b.compared = n.compared; return nil })
	case n.Published:
		return o.publishedRows.confirm(ctx)
	}
	if err := o.rows(ctx, n.Rows, sink.FromReconcile, n); err != nil {
		return err
	}
	if o.entities == nil {
		return nil
	}
	for part := range slices.Chunk(n.Entities, keysAtOnce) {
		if err := o.keys(ctx, part, n); err != nil {
			return err
		}
	}
	return nil
}

// keysAtOnce bounds the entities of one read by key.
const keysAtOnce = 200

// keys reads entities by key, byte for byte, and publishes what is true of them. Those without a
// row go to Movers.
// Invariant 5: only what no table of the stream has is gone.
func (o *nominations) keys(ctx context.Context, keys [][]byte, n *nomination) error {
	return source.InParts(keys, func(keys [][]byte) (bool, error) {
		return o.byKey(ctx, keys, n, func(b *batch, page *page) error {
			decisions, err := o.addStates(ctx, b, page, always(sink.FromReconcile))
			if err != nil {
				return err
			}
			missing := withoutRow(keys, decisions)
			return n.move(ctx, o.entities, append(missing, nominatedOf(decisions)...))
		})
	})
}

// byKey reads the rows of keys and hands on the batch that fill makes of them, unless a page does
// not hold all of them: then whole is false.
func (o *nominations) byKey(ctx context.Context, keys [][]byte, n *nomination, fill func(*batch, *page) error) (whole bool, err error) {
	q := source.Query{Limit: max(o.opts.BatchRows, len(keys)), MaxBytes: o.opts.Limits.pageBytes()}
	if q.Keys, err = event.KeysOf(o.opts.Encoder, keys); err != nil {
		return false, err
	}
	if len(keys) == 1 {
		// Which of its rows has the entity is known by all of them alone.
		q.MaxBytes = 0
	}
	err = o.publish(ctx, q, n, func(b *batch, page *page) error {
		if whole = !page.More || len(keys) == 1; !whole {
			return nil
		}
		return fill(b, page)
	})
	return whole, err
}

// move publishes entities with the permission of the stream (rule 29). It reads them again, so the
// order of its reads is the order on the bus (invariant 3).
func (o *nominations) move(ctx context.Context, moves []stream.Move, n *nomination) error {
	return source.InParts(moves, func(moves []stream.Move) (bool, error) {
		keys := make([][]byte, len(moves))
		for i := range moves {
			keys[i] = moves[i].Entity
		}
		return o.byKey(ctx, keys, n, func(b *batch, page *page) error {
			given := b.claims.Permit(moves)
			decisions, err := o.addStates(ctx, b, page, o.moved)
			if err != nil {
				return err
			}
			o.entities.nominate(decisions)
			if err := o.entities.nominateFormers(ctx, true); err != nil {
				return err
			}
			// Of a move that has ended nothing is proved any more: Movers reads its key again.
			return o.addAbsences(ctx, b, page, given, decisions)
		})
	})
}

// moved returns the origin of a row that has a nominated entity. Only one that fills a gap is late:
// when the key is read, the entity may have a row that the tail has yet to reach. The position must
// not rise to either.
func (o *nominations) moved(id uint64) sink.Origin {
	if o.gaps.missing(id) {
		return sink.FromLate
	}
	return sink.FromReconcile
}

// addAbsences adds to b the absence of those of moves that no table had, and that have no row in
// page either.
func (o *nominations) addAbsences(ctx context.Context, b *batch, page *page, moves []stream.Move, decisions []stream.Decision) error {
	var gone [][]byte
	for i := range moves {
		if moves[i].Absent {
			gone = append(gone, moves[i].Entity)
		}
	}
	if gone = withoutRow(gone, decisions); len(gone) == 0 {
		return nil
	}
	absences, err := o.entities.absent(ctx, b, gone)
	if err != nil {
		return err
	}
	return o.builder.addAbsences(b, absences, page)
}

// rows reads the rows in ranges and publishes those that say something new.
func (o *nominations) rows(ctx context.Context, ranges []source.Range, origin sink.Origin, n *nomination) error {
	for len(ranges) > 0 {
		q := source.Query{Ranges: ranges, Limit: o.opts.BatchRows, MaxBytes: o.opts.Limits.pageBytes()}
		err := o.publish(ctx, q, n, func(b *batch, page *page) error {
			ranges = nil
			if count := len(page.Rows); page.More && count > 0 {
				ranges = source.RangesAbove(q.Ranges, page.Rows[count-1].ID)
			}
			if o.entities == nil {
				return o.addFacts(b, page, origin)
			}
			b.claims.Afresh = n != nil
			decisions, err := o.addStates(ctx, b, page, always(origin))
			if err != nil {
				return err
			}
			return o.nominate(ctx, n, decisions)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// nominate gives those entities to the stream that were not decided about. n waits for them.
func (o *nominations) nominate(ctx context.Context, n *nomination, decisions []stream.Decision) error {
	if n == nil {
		o.entities.nominate(decisions)
		return o.entities.nominateFormers(ctx, false)
	}
	// A reconcile has former entities among those without a row.
	return n.move(ctx, o.entities, nominatedOf(decisions))
}

// nominatedOf returns the entities of those decisions that nothing was decided in.
func nominatedOf(decisions []stream.Decision) (keys [][]byte) {
	for i := range decisions {
		if decisions[i].Nominate {
			keys = append(keys, decisions[i].Entity)
		}
	}
	return keys
}

// addFacts adds to b those rows of a release shard that were not published.
func (o *nominations) addFacts(b *batch, page *page, origin sink.Origin) error {
	for _, row := range page.Rows {
		if !o.gaps.missing(row.ID) {
			// The tail has published it since it was nominated.
			continue
		}
		if err := o.builder.fill(b, page, row, origin); err != nil {
			return err
		}
	}
	return nil
}

func (o *nominations) addStates(ctx context.Context, b *batch, page *page, origin originOf) ([]stream.Decision, error) {
	decisions, err := o.entities.decide(ctx, b, page.Rows)
	if err != nil {
		return nil, err
	}
	n, err := o.builder.addStates(b, page, page.Rows, decisions, origin)
	if err != nil {
		return nil, err
	}
	for i, row := range page.Rows[:n] {
		if o.gaps.missing(row.ID) && !decisions[i].Nominate {
			b.filled = append(b.filled, row.ID)
		}
		if !o.gaps.toPublish(row.ID) {
			// A row that the tail has yet to reach would shut out those before it.
			o.publishedRows.note(b, page.Columns, row, decisions[i].Digest, decisions[i].Entity)
		}
	}
	return decisions, nil
}

// publish reads a page, none where q has no limit, and hands on the batch that fill makes of it. A
// page that does not fit is read again.
func (o *nominations) publish(ctx context.Context, q source.Query, n *nomination, fill func(*batch, *page) error) error {
	for {
		again, err := o.publishOnce(ctx, q, n, fill)
		if err != nil || !again {
			return err
		}
	}
}

func (o *nominations) publishOnce(ctx context.Context, q source.Query, n *nomination, fill func(*batch, *page) error) (again bool, err error) {
	// Before the read: what it brings is decided about at once, and nothing is on its way.
	if err := o.gaps.pipe.wait(ctx); err != nil {
		return false, err
	}
	held, err := o.reader.reserve(ctx)
	if err != nil {
		return false, err
	}
	defer func() { o.opts.Limits.release(&held) }()
	var page *page
	at := ledger.Age{Steady: o.gaps.at}
	defer func() { page.free() }()
	if q.Limit > 0 {
		o.reader.share = &held
		page, err = o.read(ctx, q, n)
		if o.reader.share = nil; err != nil {
			return false, err
		}
		if err := o.reader.bind(page.Columns); err != nil {
			return false, err
		}
		at = o.reader.age(page)
	}
	b := o.builder.begin(page)
	if o.entities != nil {
		o.entities.begin(b)
	}
	if err := fill(b, page); err != nil || n != nil && n.dry {
		b.discard(o.opts)
		return false, err
	}
	if !o.opts.Limits.resize(&held, b.size()) {
		b.discard(o.opts)
		// Invariant 7: what is read again does not wait beside others.
		page.free()
		page = nil
		return true, o.reader.reserveBig(ctx, &held)
	}
	if b.empty() {
		b.discard(o.opts)
		return false, nil
	}
	if err := o.gaps.advance(ctx, b, at); err != nil {
		b.discard(o.opts)
		return false, err
	}
	if n != nil {
		n.count(b.verdict)
	}
	o.handOver(b, &held)
	return false, nil
}

// commit hands on a batch without messages.
func (o *nominations) commit(ctx context.Context, fill func(*batch) error) error {
	b := o.builder.begin(nil)
	err := fill(b)
	if err == nil {
		err = o.gaps.advance(ctx, b, ledger.Age{Steady: o.gaps.at})
	}
	if err != nil {
		b.discard(o.opts)
		return err
	}
	o.handOver(b, new(hold))
	return nil
}

// read reads the rows that q names. A row that cannot be read holds up the tail no longer than the
// caller of n waits for it.
func (o *nominations) read(ctx context.Context, q source.Query, n *nomination) (*page, error) {
	reading, end := context.WithCancel(ctx)
	defer end()
	if n != nil && n.ctx != nil {
		defer context.AfterFunc(n.ctx, end)()
	}
	page, err := o.reader.rows(reading, q)
	if err != nil && n.cancelled() && ctx.Err() == nil && !permanent(err) {
		return nil, errCancelled
	}
	return page, err
}
