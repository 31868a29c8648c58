package shard

import (
	"context"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/event"
	"example.org/bridge/internal/view"
	"example.org/bridge/source"
)

// entity sends the state of an entity again, where the event that was put aside is still the
// entity's last one. Invariant 3: what is newer is out or on its way, nothing older may follow.
func (o *resender) entity(ctx context.Context, r *resending, n *nomination) error {
	if len(r.deadLetter.Entity) == 0 && r.deadLetter.Row > 0 {
		var err error
		if r.deadLetter.Entity, err = o.rereader.entities.byRow(ctx, r.deadLetter.Row); err != nil {
			return err
		}
	}
	key := r.deadLetter.Entity
	if len(key) == 0 {
		r.outcome = ResendOutcome{Fate: Unknown}
		return nil
	}
	values, err := o.rereader.opts.Encoder.KeyValues(key, nil)
	if err != nil || len(key) > store.MaxEntity {
		r.outcome = ResendOutcome{Fate: Unreadable, Why: "what the letter says of the entity does not fit KEY"}
		return nil
	}
	q := source.Query{Keys: [][][]byte{values}, Limit: o.rereader.opts.BatchRows, MaxBytes: o.rereader.opts.Limits.pageBytes()}
	return o.publish(ctx, q, r, n, func(b *batch, page *page) error {
		decisions, err := o.rereader.entities.decide(ctx, b, page.Rows)
		if err != nil {
			return err
		}
		for i, row := range page.Rows {
			if one := &decisions[i]; string(one.Entity) == string(key) {
				return o.addState(ctx, b, page, row, one, r)
			}
		}
		return o.addGone(ctx, b, page, r)
	})
}

// overtaken reports whether the event of a dead letter is not the entity's last one, and notes
// that.
func (r *resending) overtaken(known *store.Entry) bool {
	switch {
	case known.State == store.Unknown:
		r.outcome = ResendOutcome{Fate: Unknown}
	case r.deadLetter.Event == "" || event.FormatID(known.Event) != r.deadLetter.Event:
		r.outcome = ResendOutcome{Fate: Superseded}
	default:
		return false
	}
	return true
}

// leave gives an entity to the stream, which another table may have.
func (o *resender) leave(r *resending) {
	if !r.dry {
		o.rereader.opts.Movers.Nominate(o.rereader.opts.Name, r.deadLetter.Entity)
	}
	r.outcome = ResendOutcome{Fate: Moved}
}

// addState adds the state of an entity that has a row.
func (o *resender) addState(ctx context.Context, b *batch, page *page, row source.Row, one *view.Decision, r *resending) error {
	if one.Nominate {
		o.leave(r)
		return nil
	}
	if r.overtaken(&one.Known) {
		return nil
	}
	b.born(page, row)
	if !one.News {
		return o.addLast(ctx, b, page, row, one, r)
	}
	input := event.Row{Row: row, Read: page.Now, Predecessor: r.deadLetter.Event}
	if one.Op != event.Deleted {
		input.Op = one.Op
	}
	e, _ := o.add(b, input, r)
	if r.outcome.Fate == SentCurrent || r.outcome.Fate == SentSame {
		o.rereader.builder.publish(b, one, e.UUID)
	}
	return nil
}

// addLast adds the last event of an entity once more.
func (o *resender) addLast(ctx context.Context, b *batch, page *page, row source.Row, one *view.Decision, r *resending) error {
	if claimed, err := o.claim(ctx, b, one, r); err != nil || !claimed {
		return err
	}
	e, same := o.addSame(b, page, row, r)
	if !same {
		// The row makes it no more: what is true is told behind it.
		op := event.Modified
		if r.deadLetter.Type == o.rereader.opts.Encoder.Type(event.Added) {
			op = event.Added
		}
		input := event.Row{Row: row, Read: page.Now, Predecessor: r.deadLetter.Event}
		if !one.Deleted {
			input.Op = op
		}
		if e, _ = o.add(b, input, r); r.outcome.Fate == Unreadable {
			return nil
		}
	}
	o.repair(b, one, e.UUID)
	return nil
}

// claim claims the entity of a decision that is no news, and reports whether it may be published.
func (o *resender) claim(ctx context.Context, b *batch, one *view.Decision, r *resending) (claimed bool, err error) {
	err = o.rereader.entities.retrier.readStore(ctx, func() (err error) {
		claimed, err = b.claims.Claim(ctx, one)
		return err
	})
	if err == nil && !claimed {
		r.outcome = ResendOutcome{Fate: Superseded}
	}
	return claimed, err
}

// repair notes that the last message of b is an entity's last event once more: the bus must not
// take it for a repeat.
func (o *resender) repair(b *batch, one *view.Decision, id [16]byte) {
	one.Publish(id)
	b.repairs = append(b.repairs, len(b.messages)-1)
	b.count(one.Op)
}

// addSame adds the very event that was put aside, if the row makes it still.
func (o *resender) addSame(b *batch, page *page, row source.Row, r *resending) (e event.Event, same bool) {
	input := event.Row{Row: row, Read: r.deadLetter.Time, Predecessor: r.deadLetter.Previous}
	if input.Read.IsZero() {
		input.Read = page.Now
	}
	for _, input.Op = range []event.Op{event.Added, event.Modified} {
		if e, same = o.add(b, input, r); same {
			return e, true
		}
		b.undo(0, 0)
	}
	return e, false
}

// addGone adds what follows from an entity having no row. Invariant 5: only what is proved absent
// is gone, and what another table may have is for the stream to prove.
func (o *resender) addGone(ctx context.Context, b *batch, page *page, r *resending) error {
	if o.rereader.opts.Shared {
		return o.goneElsewhere(ctx, r)
	}
	if err := o.server.meet(ctx, page.Server); err != nil {
		return err
	}
	if !o.server.traits.Writer || !o.server.knows(page.Server) {
		r.outcome = ResendOutcome{Fate: Unproven, Why: "absence is not judged on a server that does not take the writes"}
		return nil
	}
	decisions, err := o.rereader.entities.absent(ctx, b, [][]byte{r.deadLetter.Entity})
	if err != nil {
		return err
	}
	one := &decisions[0]
	if one.Nominate {
		o.leave(r)
		return nil
	}
	if r.overtaken(&one.Known) {
		return nil
	}
	absent := event.Absent{Key: one.Entity, ID: one.Known.Row, Read: r.deadLetter.Time, Predecessor: r.deadLetter.Previous}
	if !one.News {
		if claimed, err := o.claim(ctx, b, one, r); err != nil || !claimed {
			return err
		}
		if e, same := o.addAbsent(b, absent, r); same {
			o.repair(b, one, e.UUID)
			return nil
		}
		b.undo(0, 0)
	}
	absent.Read, absent.Predecessor = page.Now, r.deadLetter.Event
	e, _ := o.addAbsent(b, absent, r)
	if r.outcome.Fate == Unreadable {
		return nil
	}
	o.repair(b, one, e.UUID)
	return nil
}

// goneElsewhere is addGone where other tables may have the entity: the stream publishes what is
// true, unless that is the event that was put aside, which nobody proves again.
func (o *resender) goneElsewhere(ctx context.Context, r *resending) error {
	entries, err := o.rereader.entities.lookup(ctx, [][]byte{r.deadLetter.Entity})
	if err != nil || r.overtaken(&entries[0]) {
		return err
	}
	o.leave(r)
	return nil
}

// addAbsent adds a deleted event, and tells whether it is the one that was put aside.
func (o *resender) addAbsent(b *batch, absent event.Absent, r *resending) (e event.Event, same bool) {
	e, err := o.rereader.builder.addAbsent(b, absent)
	if err != nil {
		r.outcome = ResendOutcome{Fate: Unreadable, Why: o.rereader.opts.Text(err)}
		return e, false
	}
	return e, r.sends(&e)
}
