package shard

import (
	"context"
	"slices"

	"bridge/internal/view"
	"bridge/sink"
	"bridge/source"
	"bridge/source/ledger"
)

// nominations publishes what is true of nominated rows and entities. It belongs to the owner.
type nominations struct {
	opts     *Options
	status   *tracker
	rereader *rereader
	resender *resender
}

// handle reads what n names, publishes what differs and ends n once that is committed. After an
// error n does not end: its caller learns that the shard stopped.
func (o *nominations) handle(ctx context.Context, n *nomination, out chan<- *batch) error {
	if err := o.publish(ctx, n, out); err != nil {
		return err
	}
	o.status.unname(n)
	n.done()
	return nil
}

func (o *nominations) publish(ctx context.Context, n *nomination, out chan<- *batch) error {
	if err := o.rereader.reader.ready(ctx); err != nil {
		return err
	}
	switch {
	case n.deadLetters != nil:
		return o.resender.resend(ctx, n.deadLetters, n, out)
	case n.moves != nil:
		return o.move(ctx, n.moves, n, out)
	case n.compared > 0:
		return o.compared(ctx, n, out)
	case n.Published:
		return o.rereader.publishedRows.confirm(ctx)
	}
	if err := o.rereader.rows(ctx, n.Rows, sink.FromReconcile, n, out); err != nil {
		return err
	}
	if o.rereader.entities == nil {
		return nil
	}
	for part := range slices.Chunk(n.Entities, keysAtOnce) {
		if err := o.keys(ctx, part, n, out); err != nil {
			return err
		}
	}
	return nil
}

// compared hands on that a reconcile has compared the whole table.
func (o *nominations) compared(ctx context.Context, n *nomination, out chan<- *batch) error {
	b := o.rereader.builder.begin()
	b.compared = n.compared
	if err := o.rereader.gaps.advance(b, ledger.Age{Steady: o.rereader.gaps.at}); err != nil {
		b.discard(o.opts)
		return err
	}
	n.open.Add(1)
	b.saved = n.done
	return o.rereader.handOver(ctx, b, out)
}

// keysAtOnce bounds the entities of one read by key.
const keysAtOnce = 200

// keys reads entities by key, byte for byte, and publishes what is true of them. Those without a
// row go to Movers.
// Invariant 5: only what no table of the stream has is gone.
func (o *nominations) keys(ctx context.Context, keys [][]byte, n *nomination, out chan<- *batch) error {
	values, err := KeyValues(o.opts.Encoder, o.opts.Stream, keys)
	if err != nil {
		return err
	}
	cut := false
	q := source.Query{Keys: values, Limit: o.opts.BatchRows, MaxBytes: o.opts.Limits.pageBytes()}
	err = o.rereader.publish(ctx, q, n, out, func(b *batch, page *page) error {
		if cut = page.More && len(keys) > 1; cut {
			// Which of them were not read is not known.
			return nil
		}
		decisions, err := o.rereader.addStates(ctx, b, page, fromReconcile)
		if err != nil {
			return err
		}
		missing := withoutRow(keys, decisions)
		return n.move(ctx, o.rereader.entities, append(missing, nominatedOf(decisions)...))
	})
	if err != nil || !cut {
		return err
	}
	half := len(keys) / 2
	if err := o.keys(ctx, keys[:half], n, out); err != nil {
		return err
	}
	return o.keys(ctx, keys[half:], n, out)
}

// move publishes entities with the permission of the stream (rule 29). It reads them again, so the
// order of its reads is the order on the bus (invariant 3).
func (o *nominations) move(ctx context.Context, moves []view.Move, n *nomination, out chan<- *batch) error {
	keys := make([][]byte, len(moves))
	for i := range moves {
		keys[i] = moves[i].Entity
	}
	values, err := KeyValues(o.opts.Encoder, o.opts.Stream, keys)
	if err != nil {
		o.opts.Movers.Return(moves)
		return err
	}
	q := source.Query{Keys: values, Limit: max(o.opts.BatchRows, len(moves)), MaxBytes: o.opts.Limits.pageBytes()}
	if len(moves) == 1 {
		// Which of its rows has the entity is known by all of them alone.
		q.MaxBytes = 0
	}
	cut := false
	err = o.rereader.publish(ctx, q, n, out, func(b *batch, page *page) error {
		if cut = page.More && len(moves) > 1; cut {
			// Which of them were not read is not known.
			return nil
		}
		given := b.claims.Permit(moves)
		decisions, err := o.rereader.addStates(ctx, b, page, o.moved)
		if err != nil {
			return err
		}
		o.rereader.entities.nominate(decisions)
		if err := o.rereader.entities.nominateFormers(ctx); err != nil {
			return err
		}
		// Of a move that has ended nothing is proved any more: Movers reads its key again.
		return o.addAbsences(ctx, b, page, given, decisions)
	})
	if err != nil || !cut {
		return err
	}
	half := len(moves) / 2
	if err := o.move(ctx, moves[:half], n, out); err != nil {
		return err
	}
	return o.move(ctx, moves[half:], n, out)
}

// moved returns the origin of a row that has a nominated entity. Only one that fills a gap is late:
// when the key is read, the entity may have a row that the tail has yet to reach. The position must
// not rise to either.
func (o *nominations) moved(id uint64) sink.Origin {
	if o.rereader.gaps.missing(id) {
		return sink.FromLate
	}
	return sink.FromReconcile
}

// addAbsences adds to b the absence of those of moves that no table had, and that have no row in
// page either.
func (o *nominations) addAbsences(ctx context.Context, b *batch, page *page, moves []view.Move, decisions []view.Decision) error {
	var gone [][]byte
	for i := range moves {
		if moves[i].Absent {
			gone = append(gone, moves[i].Entity)
		}
	}
	if gone = withoutRow(gone, decisions); len(gone) == 0 {
		return nil
	}
	absences, err := o.rereader.entities.absent(ctx, b, gone)
	if err != nil {
		return err
	}
	for i := range absences {
		if err := o.rereader.builder.addAbsence(b, &absences[i], page.Now); err != nil {
			return err
		}
	}
	return nil
}
