package shard

import (
	"context"

	"bridge/event"
	"bridge/sink"
	"bridge/source"
)

// encode makes a batch of the rows of the page, and behind them of the late ones, which were read
// after it.
// Invariant 3: the order of the reads is the order on the bus. Where a row cannot be encoded the
// batch ends before it and the error says why.
func (o *owner) encode(ctx context.Context, p *page, rows []source.Row, late *page) (*batch, error) {
	b := o.newBatch()
	o.builder.readFrom(b, p)
	if err := o.encodeTail(ctx, b, p, rows); err != nil {
		return b, err
	}
	if late == nil || late.Columns != p.Columns {
		// Altered between the two reads: the gaps stay, the next poll reads them again.
		o.tail.delayLate(late, 0)
		return b, nil
	}
	return b, o.encodeLate(ctx, b, late)
}

// newBatch begins a batch.
func (o *owner) newBatch() *batch {
	b := o.builder.begin()
	if o.entities != nil {
		o.entities.begin(b)
	}
	return b
}

func (o *owner) encodeTail(ctx context.Context, b *batch, p *page, rows []source.Row) error {
	if o.entities != nil {
		return o.encodeStates(ctx, b, p, rows)
	}
	o.builder.makeRoom(b, len(rows))
	for i, row := range rows {
		if o.gaps.ahead(row.ID) {
			b.pass(row.ID)
			continue
		}
		newest := len(rows)-i <= o.publishedRows.log.Limit()
		if row.Filtered {
			if err := o.passUnmatched(b, p, row, newest); err != nil {
				return err
			}
			continue
		}
		b.born(p, row)
		e, err := o.builder.add(b, event.Row{Row: row, Read: p.Now}, sink.FromTail)
		if err != nil {
			return err
		}
		b.pass(row.ID)
		if newest {
			o.publishedRows.note(b, p.Columns, row, e.Digest, nil)
		}
	}
	return nil
}

// passUnmatched takes care of a row of a release stream that does not match its condition. It is no
// event, but that its id is used again has to be noticed like that of another row.
func (o *owner) passUnmatched(b *batch, p *page, row source.Row, newest bool) error {
	b.pass(row.ID)
	if !newest {
		return nil
	}
	digest, err := o.opts.Encoder.Digest(row)
	if err == nil {
		o.publishedRows.note(b, p.Columns, row, digest.Sum, nil)
	}
	return err
}

// encodeStates adds to b what rows of the tail say of their entities. Those that are nominated are
// missing from then on (rule 26).
func (o *owner) encodeStates(ctx context.Context, b *batch, p *page, rows []source.Row) error {
	o.changes.noteTail(p, rows)
	decisions, err := o.entities.decide(ctx, b, rows)
	if err != nil {
		return err
	}
	n, err := o.builder.addStates(b, p, rows, decisions, fromTail)
	o.entities.nominate(decisions[:n])
	b.passed = handled(b.passed, rows[:n], decisions)
	if n > 0 {
		b.through = rows[n-1].ID
	}
	first := max(0, n-o.publishedRows.log.Limit())
	for i, row := range rows[first:n] {
		one := &decisions[first+i]
		o.publishedRows.note(b, p.Columns, row, one.Digest, one.Entity)
	}
	return err
}

func (o *owner) encodeLate(ctx context.Context, b *batch, late *page) error {
	// The late page may have been read long after the other, when the source was away in between:
	// its ages are others.
	b.oldestCreated = nil
	if o.entities != nil {
		decisions, err := o.entities.decide(ctx, b, late.Rows)
		if err != nil {
			return err
		}
		n, err := o.builder.addStates(b, late, late.Rows, decisions, fromLate)
		o.entities.nominate(decisions[:n])
		b.filled = handled(b.filled, late.Rows[:n], decisions)
		return err
	}
	for _, row := range late.Rows {
		if row.Filtered {
			b.skip(row.ID)
			continue
		}
		b.born(late, row)
		if _, err := o.builder.add(b, event.Row{Row: row, Read: late.Now}, sink.FromLate); err != nil {
			return err
		}
		b.filled = append(b.filled, row.ID)
	}
	return nil
}
