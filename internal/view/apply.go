package view

import (
	"context"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/internal/catchup"
)

// commits is what one commit changes.
type commits struct {
	records []*record
	changes []store.Change
	// names holds the bytes of the entities.
	names []byte
}

// Apply applies facts by rule 6: what was read of the bus, or, where c is not nil, the messages of
// a batch that the bus has acknowledged; with that its claims end. Those of one TP are in their
// order. commit is called once, under the view's lock, with what changes. If it fails nothing has
// changed, and Apply may be called again. An entry that is claimed changes in the claim, too.
func (v *View) Apply(ctx context.Context, facts []catchup.Message, c *Claims, commit func([]store.Change) error) error {
	l := lookups.Get().(*lookup)
	defer lookups.Put(l)
	l.begin(len(facts))
	for i := range facts {
		l.add(v, facts[i].Shard, facts[i].Row, facts[i].Key)
	}
	if c == nil {
		// What is claimed has its entry in memory.
		if err := l.run(ctx, v); err != nil {
			return err
		}
	}
	v.lock()
	defer v.mu.Unlock()
	if c == nil {
		if err := l.repeat(ctx, v); err != nil {
			return err
		}
	}
	v.commits.records = v.commits.records[:0]
	var made []*record
	for i := range facts {
		r := v.records[string(l.key(i))]
		if r == nil {
			r = v.newRecord(l.key(i), l.entries[i])
			made = append(made, r)
		}
		if next, applied := v.apply(v.latest(r), &facts[i]); applied {
			v.change(r, next)
		}
	}
	if c != nil {
		for i := range c.items.n {
			one := c.items.at(i)
			if next, moved := one.move(v.latest(one.record)); moved {
				v.change(one.record, next)
			}
		}
	}
	err := v.commit(commit)
	for _, r := range made {
		v.free(r)
	}
	if err == nil && c != nil {
		v.end(c, true)
	}
	return err
}

// apply is rule 6.
func (v *View) apply(e store.Entry, m *catchup.Message) (store.Entry, bool) {
	return catchup.Apply(e, m)
}

// latest returns the entry of r as the commit that is being made leaves it.
func (v *View) latest(r *record) store.Entry {
	if r.pending {
		return r.next
	}
	return v.registrations.renewed(r.base)
}

// move returns e with what a claim without a message changes, unless a message has changed e
// since the decision.
func (one *item) move(e store.Entry) (store.Entry, bool) {
	event := one.entry.Event
	if one.behind != nil {
		event = one.behind.entry.Event
	}
	if !one.quiet || e.Event != event || e.State != one.was {
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

// IsLast is the question of rule 23 about a message of an entity that a batch of the shard claims:
// whether m, which the bus holds instead of it, is, applied by rule 6, the entity's last one. Else
// the message is to be sent again under another id.
func (v *View) IsLast(shard string, entity []byte, m *catchup.Message) bool {
	v.lock()
	defer v.mu.Unlock()
	r := v.records[string(v.scope.append(nil, shard, entity))]
	if r == nil {
		return false
	}
	next, _ := v.apply(v.registrations.renewed(r.base), m)
	return next.At == m.At && !next.Disputed
}

// second returns t as entries have it.
func second(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }
