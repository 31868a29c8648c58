package stream

import (
	"context"

	"example.org/bridge/checkpoint/store"
)

// commits is what one commit changes. Who applies facts has it: there is one at a time.
type commits struct {
	records []*record
	changes []store.Change
	// names holds the bytes of the entities.
	names []byte
}

// prepareFacts looks up what Apply needs of facts. Others may be applied meanwhile: Apply looks up
// again what they change.
func (v *View) prepareFacts(ctx context.Context, facts []Message) (*Prepared, error) {
	p := prepared.Get().(*Prepared)
	p.name(v, facts)
	if err := p.run(ctx, v); err != nil {
		prepared.Put(p)
		return nil, err
	}
	return p, nil
}

func (l *Prepared) name(v *View, facts []Message) {
	l.begin(len(facts))
	for i := range facts {
		l.add(v, facts[i].Shard, facts[i].Row, facts[i].Key)
	}
}

// Apply applies facts by rule 6, those of one TP in their order: what was read of the bus, for
// which p was prepared, or, where c is not nil, the messages of a batch that the bus has
// acknowledged. With that its claims end. One call is made at a time. commit is called once with
// what changes, while others may decide as before; then that is installed. If it fails nothing has
// changed, and Apply may be called again. An entry that is claimed changes in the claim, too.
func (v *View) Apply(ctx context.Context, facts []Message, p *Prepared, c *Claims, commit func([]store.Change) error) error {
	if p == nil {
		p = prepared.Get().(*Prepared)
		// What is claimed has its entry in memory.
		p.name(v, facts)
	}
	defer prepared.Put(p)
	if c == nil {
		if _, err := p.repeat(ctx, v); err != nil {
			return err
		}
	}
	stored := false
	// Also where compute or commit panics: the stream stops, and its facts are read again.
	defer func() { v.install(c, stored) }()
	err := commit(v.compute(facts, p, c))
	stored = err == nil
	return err
}

// compute returns what facts, and a batch, change.
func (v *View) compute(facts []Message, p *Prepared, c *Claims) []store.Change {
	v.mu.Lock()
	defer v.mu.Unlock()
	k := &v.commits
	k.records, k.changes, k.names = k.records[:0], k.changes[:0], k.names[:0]
	for i := range facts {
		r := v.records[string(p.key(i))]
		if r == nil {
			r = v.newRecord(p.key(i), p.entries[i])
		}
		if next, applied := Apply(v.latest(r), &facts[i]); applied {
			v.change(r, next)
		}
		v.free(r)
	}
	if c != nil {
		for _, one := range c.items {
			if next, moved := one.move(v.latest(one.record)); moved {
				v.change(one.record, next)
			}
		}
	}
	for _, r := range k.records {
		from := len(k.names)
		k.names = append(k.names, r.name...)
		k.changes = append(k.changes, store.Change{Entity: k.names[from:len(k.names):len(k.names)], Entry: r.next})
	}
	return k.changes
}

// install puts the computed change into force, if the store has it.
func (v *View) install(c *Claims, stored bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	k := &v.commits
	for i, r := range k.records {
		if r.pending = false; stored {
			r.base = r.next
			v.count(v.hash(k.changes[i].Entity)).Add(1)
		}
		v.free(r)
	}
	if stored && c != nil {
		v.end(c, true)
	}
	if k.records = k.records[:0]; cap(k.names) > keepArena {
		k.names = nil
	}
}

// latest returns the entry of r as the commit that is being made leaves it.
func (v *View) latest(r *record) store.Entry {
	if r.pending {
		return r.next
	}
	return v.renewed(r.base)
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
	e.Disputed = e.Disputed || one.entry.Disputed
	return e, true
}

// change adds the change of a record to the commit.
func (v *View) change(r *record, next store.Entry) {
	if r.next = next; !r.pending {
		r.pending = true
		v.commits.records = append(v.commits.records, r)
	}
}

// IsLast is the question of rule 23 about a message of an entity that a batch of the shard claims:
// whether m, which the bus holds instead of it, is, applied by rule 6, the entity's last one. Else
// the message is to be sent again under another id.
func (v *View) IsLast(shard string, entity []byte, m *Message) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	r := v.records[string(v.scope.append(nil, shard, entity))]
	if r == nil {
		return false
	}
	next, _ := Apply(v.renewed(r.base), m)
	return next.At == m.At && !next.Disputed
}
