package view

import (
	"bytes"
	"context"

	"bridge/checkpoint/store"
	"bridge/internal/catchup"
)

// Nomination names an entity whose owner is to publish what is true of it.
type Nomination struct {
	// Shard has the entity where entities belong to their table.
	Shard  string
	Entity []byte
}

// Read applies messages that were read from the bus, by rule 6. Those of one TP are in their
// order. commit is called once, under the view's lock, with what changes. An entry that is
// claimed changes in the claim, too. It returns the entities of late messages (rule 7), in the
// memory of messages.
func (v *View) Read(ctx context.Context, messages []catchup.Message, commit func([]store.Change) error) (nominate []Nomination, err error) {
	l := lookups.Get().(*lookup)
	defer lookups.Put(l)
	l.begin(len(messages))
	for i := range messages {
		l.add(v, messages[i].Shard, messages[i].Key)
	}
	if err := l.run(ctx, v); err != nil {
		return nil, err
	}
	v.lock()
	defer v.mu.Unlock()
	if err := l.repeat(ctx, v); err != nil {
		return nil, err
	}
	v.commits.records = v.commits.records[:0]
	var made []*record
	for n := 0; n < len(l.order); {
		first := int(l.order[n])
		r := v.records[string(l.keys[first])]
		if r == nil {
			r = v.newRecord(l.keys[first], l.entries[first])
			made = append(made, r)
		}
		e, changed, late := v.registrations.renewed(r.base), false, false
		for ; n < len(l.order) && bytes.Equal(l.keys[l.order[n]], l.keys[first]); n++ {
			m := &messages[l.order[n]]
			next, applied := v.apply(e, m)
			if applied {
				e, changed = next, true
			}
			late = late || m.Late
		}
		if changed {
			v.change(r, e)
		}
		if late {
			nominate = append(nominate, Nomination{Shard: messages[first].Shard, Entity: messages[first].Key})
		}
	}
	err = v.commit(commit)
	for _, r := range made {
		v.free(r)
	}
	if err != nil {
		return nil, err
	}
	return nominate, nil
}
