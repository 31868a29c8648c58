package stream

import (
	"context"
	"slices"

	"example.org/bridge/checkpoint/store"
)

// maxLate is how many entities of late messages the store names. Beyond it a reconcile is due
// (rule 7).
const maxLate = 1000

// lateEntities are the entities of late messages whose owners have not decided yet, as the store
// names them: an offset that has passed a late message is in one batch with the name.
type lateEntities struct {
	// named is nil before the store was read.
	named map[lateEntity]*lateName
	last  uint64
	// over says that the last messages had too many.
	over bool
	// ready says that the stream has caught up: they are nominated from then on.
	ready bool
}

// lateEntity is an entity by the shard and the key of its message.
type lateEntity struct{ shard, entity string }

// lateName is the number of its part in the store. decided is closed once its owner has decided;
// nil while it is not nominated.
type lateName struct {
	number  uint64
	decided <-chan struct{}
}

// name returns the entities of late messages that the store does not name yet, and how many
// messages are late. It reports false where there are too many to be named.
func (l *lateEntities) name(messages []Message) (names map[lateEntity]*lateName, late int, fits bool) {
	fits = true
	for i := range messages {
		m := &messages[i]
		if !m.Late {
			continue
		}
		late++
		e := lateEntity{m.Shard, string(m.Key)}
		if l.named[e] != nil || names[e] != nil {
			continue
		}
		if fits = fits && len(l.named)+len(names) < maxLate; !fits {
			continue
		}
		if names == nil {
			names = make(map[lateEntity]*lateName)
		}
		names[e] = &lateName{number: l.last + uint64(len(names)) + 1}
	}
	if !fits {
		names = nil
	}
	return names, late, fits
}

// load begins with what the store names of shards of a stream.
func (l *lateEntities) load(ctx context.Context, s store.Store, stream string, shards []string) error {
	named := make(map[lateEntity]*lateName)
	for _, shard := range shards {
		for part, err := range s.Parts(ctx, store.Key{Stream: stream, Shard: shard}, store.LateEntities, 0) {
			if err != nil {
				return err
			}
			named[lateEntity{shard, string(part.Bytes)}] = &lateName{number: part.Number}
			l.last = max(l.last, part.Number)
		}
	}
	l.named = named
	return nil
}

// change adds to b what has the store name entities, or name those no more that are named.
func (l *lateEntities) change(b *store.Batch, stream string, entities map[lateEntity]*lateName) {
	for e, name := range entities {
		part := store.Part{Kind: store.LateEntities, Number: name.number}
		if l.named[e] == nil {
			// An empty key has a form, too.
			part.Bytes = append([]byte{}, e.entity...)
		}
		key := store.Key{Stream: stream, Shard: e.shard}
		i := slices.IndexFunc(b.Shards, func(c store.ShardChange) bool { return c.Key == key })
		if i < 0 {
			i = len(b.Shards)
			b.Shards = append(b.Shards, store.ShardChange{Key: key})
		}
		b.Shards[i].Parts = append(b.Shards[i].Parts, part)
	}
}

// decided returns the entities whose owners have decided.
func (l *lateEntities) decided() (decided map[lateEntity]*lateName) {
	for e, name := range l.named {
		select {
		case <-name.decided:
			if decided == nil {
				decided = make(map[lateEntity]*lateName)
			}
			decided[e] = name
		default:
		}
	}
	return decided
}
