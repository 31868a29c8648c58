package view

import (
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
		l.add(v, messages[i].Shard, messages[i].Row, messages[i].Key)
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
		if messages[i].Late {
			nominate = append(nominate, Nomination{Shard: messages[i].Shard, Entity: messages[i].Key})
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
