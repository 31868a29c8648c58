package shard

import (
	"context"

	"bridge/event"
	"bridge/sink"
	"bridge/source"
)

// encode makes a batch of the records of the page, and behind them of the late ones, which were
// read after it.
// Invariant 3: the order of the reads is the order on the bus. Where a record cannot be encoded the
// batch ends before it and the error says why.
func (o *owner) encode(ctx context.Context, p *page, records []source.Row, late *page) (*batch, error) {
	b := o.newBatch()
	b.read = p.span
	if err := o.encodeTail(ctx, b, p, records); err != nil {
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

func (o *owner) encodeTail(ctx context.Context, b *batch, p *page, records []source.Row) error {
	if o.entities != nil {
		return o.encodeStates(ctx, b, p, records)
	}
	o.builder.makeRoom(b, len(records))
	for i, record := range records {
		if o.gaps.published(record.ID) {
			b.pass(record.ID)
			continue
		}
		newest := len(records)-i <= o.published.log.Limit()
		if record.Filtered {
			if err := o.passUnmatched(b, p, record, newest); err != nil {
				return err
			}
			continue
		}
		b.born(p, record)
		e, err := o.builder.add(b, event.Row{Row: record, Read: p.Now}, sink.FromTail)
		if err != nil {
			return err
		}
		b.pass(record.ID)
		if newest {
			o.published.note(b, p.Columns, record, e.Digest, nil)
		}
	}
	return nil
}

// passUnmatched takes care of a row of a release stream that does not match its condition. It is no
// event, but that its id is used again has to be noticed like that of another row.
func (o *owner) passUnmatched(b *batch, p *page, record source.Row, newest bool) error {
	b.pass(record.ID)
	if !newest {
		return nil
	}
	digest, err := o.opts.Encoder.Digest(record)
	if err == nil {
		o.published.note(b, p.Columns, record, digest.Sum, nil)
	}
	return err
}

// encodeStates adds to b what records of the tail say of their entities. Those that are nominated
// are missing from then on (rule 26).
func (o *owner) encodeStates(ctx context.Context, b *batch, p *page, records []source.Row) error {
	o.changes.noteTail(p, records)
	decisions, err := o.entities.decide(ctx, b, records)
	if err != nil {
		return err
	}
	n, err := o.builder.addStates(b, p, records, decisions, fromTail)
	o.entities.nominate(decisions[:n])
	b.passed = handled(b.passed, records[:n], decisions)
	if n > 0 {
		b.through = records[n-1].ID
	}
	first := max(0, n-o.published.log.Limit())
	for i, record := range records[first:n] {
		one := &decisions[first+i]
		o.published.note(b, p.Columns, record, one.Digest, one.Entity)
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
	for _, record := range late.Rows {
		if record.Filtered {
			b.skip(record.ID)
			continue
		}
		b.born(late, record)
		if _, err := o.builder.add(b, event.Row{Row: record, Read: late.Now}, sink.FromLate); err != nil {
			return err
		}
		b.filled = append(b.filled, record.ID)
	}
	return nil
}
