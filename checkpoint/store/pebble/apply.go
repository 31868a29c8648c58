package pebble

import (
	"context"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"bridge/checkpoint/store"
)

// Apply makes all changes of a batch, or none.
func (s *Store) Apply(ctx context.Context, batch *store.Batch) error {
	if err := batch.Check(); err != nil {
		return err
	}
	if err := s.writable(ctx); err != nil {
		return err
	}
	s.applying.Lock()
	defer s.applying.Unlock()
	return s.failed(s.apply(batch))
}

// apply applies a batch. Its caller holds applying.
func (s *Store) apply(batch *store.Batch) error {
	w := writer{store: s, names: &s.names, batch: s.db.NewBatch(), fresh: s.fresh.Load(), changes: &s.changes}
	defer s.changes.reset()
	w.all(batch)
	err := w.err
	if err == nil {
		err = w.batch.Commit(pebble.NoSync)
	}
	if err == nil {
		s.names.unsaved = nil
	}
	return errors.Join(err, w.batch.Close())
}

// writer makes one of Pebble's batches of one of ours. After the first error it does nothing.
type writer struct {
	store *Store
	names *names
	batch *pebble.Batch
	fresh *filter
	// forgotten are the streams that the batch forgets, by their numbers.
	forgotten map[uint32]bool
	err       error
	// The rest is used again and again.
	changes    *changes
	key, value []byte
	locations  []location
}

func (w *writer) set(key, value []byte) {
	if w.err == nil {
		w.err = w.batch.Set(key, value, nil)
	}
}

func (w *writer) delete(key []byte) {
	if w.err == nil {
		w.err = w.batch.Delete(key, nil)
	}
}

// deleteAll deletes what begins with prefix.
func (w *writer) deleteAll(prefix []byte) {
	if w.err == nil {
		w.err = w.batch.DeleteRange(prefix, after(prefix), nil)
	}
}

func (w *writer) all(b *store.Batch) {
	for _, stream := range b.Forget {
		w.forget(stream)
	}
	if b.Epoch > 0 {
		w.set([]byte{epochTag}, appendEpoch(nil, b.Epoch))
	}
	for i := range b.Registrations {
		r := &b.Registrations[i]
		w.set(numbered(registrationTag, r.Number), appendRegistration(nil, r))
	}
	for i := range b.Shards {
		w.shard(&b.Shards[i])
	}
	w.views(b)
	for _, n := range w.names.unsaved {
		w.set(nameKey(n.kind, n.number), appendName(nil, n.name))
	}
}

func (w *writer) forget(stream string) {
	for _, shard := range w.names.shardsOf(stream) {
		w.delete(numbered(progressTag, shard))
		w.deleteAll(numbered(partTag, shard))
		w.deleteAll(numbered(entryTag, shard))
	}
	if number, ok := w.names.find(name{streamName, stream, ""}); ok {
		w.deleteAll(numbered(hashTag, number))
		w.deleteAll(numbered(absentTag, number))
		if w.forgotten == nil {
			w.forgotten = map[uint32]bool{}
		}
		w.forgotten[number] = true
	}
	if w.err == nil {
		w.err = w.store.eachRegistration(w.store.db, func(r store.Registration) {
			if r.Stream == stream {
				w.delete(numbered(registrationTag, r.Number))
			}
		})
	}
}

func (w *writer) shard(c *store.ShardChange) {
	number := w.names.number(shardOf(c.Key))
	if c.Progress != nil {
		w.set(numbered(progressTag, number), appendProgress(nil, c.Progress))
	}
	for _, kind := range c.Clear {
		w.deleteAll(append(numbered(partTag, number), byte(kind)))
	}
	for _, part := range c.Parts {
		if key := partKey(number, part.Kind, part.Number); part.Bytes == nil {
			w.delete(key)
		} else {
			w.set(key, part.Bytes)
		}
	}
}
