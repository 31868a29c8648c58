package view

import (
	"context"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/internal/catchup"
	"example.org/bridge/sink"
)

// Stamp is that of a message (rule 1).
type Stamp struct{ Epoch, Seq uint64 }

// commits is what one commit changes.
type commits struct {
	records []*record
	changes []store.Change
	// names holds the bytes of the entities.
	names   []byte
	message catchup.Message
}

// Acknowledge applies the messages of c, which the bus has acknowledged, by rule 6, and ends its
// claims. at tells where message i lies and its stamp. commit is called once, under the view's
// lock, with what changes; if it fails nothing has changed, and Acknowledge is to be called
// again.
func (v *View) Acknowledge(c *Claims, at func(i int) (store.At, Stamp), commit func([]store.Change) error) error {
	v.lock()
	defer v.mu.Unlock()
	v.commits.records = v.commits.records[:0]
	for i := range c.items.n {
		one := c.items.at(i)
		r := one.record
		e := v.registrations.renewed(r.base)
		if r.pending {
			e = r.next
		}
		next, changed := e, false
		switch {
		case one.message > 0:
			v.message(c, one, at)
			next, changed = v.apply(e, &v.commits.message)
		case one.quiet:
			next, changed = one.move(e)
		}
		if changed {
			v.change(r, next)
		}
	}
	if err := v.commit(commit); err != nil {
		return err
	}
	v.end(c, true)
	return nil
}

// message makes the message of a claim.
func (v *View) message(c *Claims, one *item, at func(i int) (store.At, Stamp)) {
	m := &v.commits.message
	where, stamp := at(one.message - 1)
	*m = catchup.Message{Stream: v.stream, Shard: one.entry.Shard, Row: one.entry.Row, Event: one.entry.Event, At: where, Time: c.Time}
	m.State = sink.State{Epoch: stamp.Epoch, Seq: stamp.Seq, Digest: one.entry.Digest}
	switch one.entry.State {
	case store.Tombstone:
		m.State.Kind, m.State.Digest = sink.StateTombstone, [16]byte{}
	case store.Absent:
		m.State.Kind, m.State.Digest = sink.StateAbsent, [16]byte{}
	}
}

// apply is rule 6.
func (v *View) apply(e store.Entry, m *catchup.Message) (store.Entry, bool) {
	return catchup.Apply(e, m)
}

// after returns what follows on e when the claims up to one have taken effect.
func (one *item) after(e store.Entry) store.Entry {
	if one == nil {
		return e
	}
	if !one.quiet {
		return one.entry
	}
	e, _ = one.move(one.below.after(e))
	return e
}

// move returns e with what a claim without a message changes, unless a message has changed e
// since the decision.
func (one *item) move(e store.Entry) (store.Entry, bool) {
	event := one.entry.Event
	if one.behind != nil {
		event = one.behind.entry.Event
	}
	if e.Event != event || e.State != one.was {
		return e, false
	}
	e.Shard, e.Row, e.Digest, e.State, e.Since = one.entry.Shard, one.entry.Row, one.entry.Digest, one.entry.State, one.entry.Since
	return e, true
}

// change notes what is to be committed of a record.
func (v *View) change(r *record, next store.Entry) {
	if r.next = next; !r.pending {
		r.pending = true
		v.commits.records = append(v.commits.records, r)
	}
}

// commit calls commit with the records that change, and counts them.
func (v *View) commit(commit func([]store.Change) error) error {
	k := &v.commits
	k.changes, k.names = k.changes[:0], k.names[:0]
	for _, r := range k.records {
		from := len(k.names)
		k.names = append(k.names, r.name...)
		k.changes = append(k.changes, store.Change{Entity: k.names[from:len(k.names):len(k.names)], Entry: r.next})
	}
	err := commit(k.changes)
	for i, r := range k.records {
		if r.pending = false; err == nil {
			r.base = r.next
			v.count(v.hash(k.changes[i].Entity)).Add(1)
		}
	}
	if cap(k.names) > keepArena {
		k.names = nil
	}
	return err
}

// IsLast is the question of rule 23, of message i of c that the bus took for a duplicate:
// whether m, the message that lies there, has its event and is, applied by rule 6, the entity's
// last one. Else the message is to be sent again under another id.
func (v *View) IsLast(c *Claims, i int, m *catchup.Message) bool {
	v.lock()
	defer v.mu.Unlock()
	one := c.published[i]
	if m.Event != one.entry.Event {
		return false
	}
	next, _ := v.apply(v.registrations.renewed(one.record.base), m)
	return next.At == m.At && !next.Disputed
}

// second returns t as entries have it.
func second(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }

// Read applies messages that were read from the bus, by rule 6. Those of one TP are in their
// order. commit is called once, under the view's lock, with what changes. An entry that is
// claimed changes in the claim, too.
func (v *View) Read(ctx context.Context, messages []catchup.Message, commit func([]store.Change) error) error {
	l := lookups.Get().(*lookup)
	defer lookups.Put(l)
	l.begin(len(messages))
	for i := range messages {
		l.add(v, messages[i].Shard, messages[i].Row, messages[i].Key)
	}
	if err := l.run(ctx, v); err != nil {
		return err
	}
	v.lock()
	defer v.mu.Unlock()
	if err := l.repeat(ctx, v); err != nil {
		return err
	}
	v.commits.records = v.commits.records[:0]
	var made []*record
	for i := range messages {
		r := v.records[string(l.key(i))]
		if r == nil {
			r = v.newRecord(l.key(i), l.entries[i])
			made = append(made, r)
		}
		e := r.next
		if !r.pending {
			e = v.registrations.renewed(r.base)
		}
		if next, applied := v.apply(e, &messages[i]); applied {
			v.change(r, next)
		}
	}
	err := v.commit(commit)
	for _, r := range made {
		v.free(r)
	}
	return err
}
