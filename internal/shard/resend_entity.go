package shard

import (
	"context"

	"bridge/checkpoint"
	"bridge/event"
	"bridge/source"
)

// entity sends the state of an entity again, where the event that was put aside is still the entity's last one. Invariant 3: what is newer
// is out or on its way, nothing older may follow.
func (o *resender) entity(ctx context.Context, r *resending, n *nomination, out chan<- *batch) error {
	if len(r.letter.Entity) == 0 && r.letter.Row > 0 {
		var err error
		if r.letter.Entity, err = o.rereader.view.byRow(ctx, r.letter.Row); err != nil {
			return err
		}
	}
	entity := r.letter.Entity
	key, err := o.rereader.opts.Encoder.KeyValues(entity, nil)
	switch {
	case len(entity) == 0:
		r.outcome = LetterOutcome{Fate: Unknown}
		return nil
	case err != nil || len(entity) > checkpoint.MaxEntity:
		r.outcome = LetterOutcome{Fate: Unreadable, Why: "what the letter says of the entity does not fit KEY"}
		return nil
	}
	q := source.Query{Keys: [][][]byte{key}, Limit: o.rereader.opts.BatchRows, MaxBytes: o.rereader.opts.Limits.pageBytes()}
	return o.publish(ctx, q, r, n, out, func(b *batch, page *page) error {
		decisions, err := o.rereader.view.decide(ctx, b, page.Rows)
		if err != nil {
			return err
		}
		for i, record := range page.Rows {
			if one := &decisions[i]; string(one.entity) == string(entity) {
				return o.addState(b, page, record, one, r)
			}
		}
		return o.addGone(ctx, b, page, r)
	})
}

// overtaken reports whether the event of a letter is not the entity's last one, and notes that.
func (r *resending) overtaken(known checkpoint.Known) bool {
	switch {
	case known.Fate == checkpoint.Unknown:
		r.outcome = LetterOutcome{Fate: Unknown}
	case r.letter.Event == "" || event.FormatID(known.Event) != r.letter.Event:
		r.outcome = LetterOutcome{Fate: Superseded}
	default:
		return false
	}
	return true
}

// addState adds the state of an entity that has a row.
func (o *resender) addState(b *batch, page *page, record source.Row, one *decision, r *resending) error {
	if r.overtaken(one.known) {
		return nil
	}
	b.born(page, record)
	op, news := one.decide()
	if !news {
		if o.addSame(b, page, record, r) {
			return nil
		}
		if op = event.Modified; r.letter.Type == o.rereader.opts.Encoder.Type(event.Added) {
			op = event.Added
		}
	}
	row := event.Row{Row: record, Read: page.Now, Predecessor: r.letter.Event}
	if op != event.Deleted {
		row.Op = op
	}
	e, _ := o.add(b, row, r)
	if r.outcome.Fate != SentCurrent {
		return nil
	}
	id, err := event.ParseID(e.ID)
	if err != nil {
		return err
	}
	b.change(one.entity, one.entry(record.ID, id))
	return nil
}

// addSame adds the very event that was put aside, if the row makes it still.
func (o *resender) addSame(b *batch, page *page, record source.Row, r *resending) bool {
	row := event.Row{Row: record, Read: r.letter.Time, Predecessor: r.letter.Previous}
	if row.Read.IsZero() {
		row.Read = page.Now
	}
	for _, row.Op = range []event.Op{event.Added, event.Modified} {
		if _, same := o.add(b, row, r); same {
			return true
		}
		b.undo(0, 0)
	}
	return false
}

// addGone adds what follows from an entity having no row. Invariant 5: only what is proved absent is gone.
func (o *resender) addGone(ctx context.Context, b *batch, page *page, r *resending) error {
	decisions, elsewhere, err := o.absence.prove(ctx, b, page.Server, [][]byte{r.letter.Entity})
	if err != nil {
		return err
	}
	if len(decisions) == 0 {
		r.outcome = LetterOutcome{Fate: Unproven, Why: "absence is not judged on a server that does not take the writes, nor where the row has just come back"}
		return nil
	}
	one := &decisions[0]
	if r.overtaken(one.known) {
		return nil
	}
	if _, moved := elsewhere[string(one.entity)]; moved {
		r.outcome = LetterOutcome{Fate: Moved}
		return o.rereader.builder.addGone(b, one, moved, page.Now)
	}
	absent := event.Absent{Entity: one.entity, ID: one.known.Row, Read: r.letter.Time, Predecessor: r.letter.Previous}
	if one.known.Fate == checkpoint.Gone && !r.letter.Time.IsZero() && o.addAbsent(b, absent, r) {
		return nil
	}
	absent.Read, absent.Predecessor = page.Now, r.letter.Event
	b.undo(0, 0)
	o.addAbsent(b, absent, r)
	gone := checkpoint.Known{Row: one.known.Row, Fate: checkpoint.Gone, Since: page.Now}
	if gone.Event, err = event.ParseID(r.outcome.Event); err != nil || r.outcome.Fate != SentCurrent {
		return err
	}
	b.change(one.entity, gone)
	return nil
}

// addAbsent adds a deleted event, and tells whether it is the one that was put aside.
func (o *resender) addAbsent(b *batch, absent event.Absent, r *resending) (same bool) {
	e, err := o.rereader.builder.addAbsent(b, absent)
	if err != nil {
		r.outcome = LetterOutcome{Fate: Unreadable, Why: err.Error()}
		return false
	}
	return r.sends(&e)
}
