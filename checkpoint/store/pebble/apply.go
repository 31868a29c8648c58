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
	w := writer{names: &s.names, batch: s.db.NewBatch()}
	w.all(batch)
	err := w.err
	if err == nil {
		err = w.batch.Commit(pebble.NoSync)
	}
	if err == nil {
		s.names.unsaved = nil
	}
	return s.failed(errors.Join(err, w.batch.Close()))
}

// writer makes one of Pebble's batches of one of ours. After the first error it does nothing.
type writer struct {
	names *names
	batch *pebble.Batch
	buf   []byte
	err   error
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
	if b.Fence != nil {
		w.set([]byte{fenceTag}, appendFence(nil, *b.Fence))
	}
	for tp, offset := range b.TPs {
		w.set(numbered(offsetTag, w.names.number(name{tpName, tp, ""})), appendOffset(nil, offset))
	}
	for i := range b.Shards {
		w.shard(&b.Shards[i])
	}
	for i := range b.Views {
		w.view(&b.Views[i])
	}
	for _, n := range w.names.unsaved {
		w.set(nameKey(n.kind, n.number), appendName(nil, n.name))
	}
}

func (w *writer) forget(stream string) {
	for _, shard := range w.names.shardsOf(stream) {
		w.delete(numbered(progressTag, shard))
		w.deleteAll(numbered(partTag, shard))
	}
	if number, ok := w.names.find(name{streamName, stream, ""}); ok {
		w.deleteAll(numbered(entryTag, number))
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

func (w *writer) view(v *store.ViewChange) {
	key := numbered(entryTag, w.names.number(name{streamName, v.Stream, ""}))
	prefix := len(key)
	for i := range v.Changes {
		c := &v.Changes[i]
		key = append(key[:prefix], c.Entity...)
		if c.Entry.Fate == store.None {
			w.delete(key)
			continue
		}
		p := packed{entry: c.Entry, shard: w.names.number(name{shardName, c.Entry.Shard, v.Stream})}
		if c.Entry.TP != "" {
			p.tp = 1 + w.names.number(name{tpName, c.Entry.TP, ""})
		}
		w.buf = appendEntry(w.buf[:0], &p)
		w.set(key, w.buf)
	}
}
