package view

import (
	"context"

	"bridge/checkpoint/store"
	"bridge/internal/catchup"
)

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
