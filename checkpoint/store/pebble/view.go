package pebble

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"bridge/checkpoint/store"
)

// target is a change of an entry with its stream, and its index in the batch.
type target struct {
	*store.Change
	stream uint32
	name   string
	index  int
}

// ordered returns the changes of views in the order of streams and entities, the last one of each
// entity: the store writes, and finds former entries, faster in that order.
func (w *writer) ordered(views []store.ViewChange) []target {
	count := 0
	for i := range views {
		count += len(views[i].Changes)
	}
	all := make([]target, 0, count)
	for i := range views {
		stream := w.names.number(name{streamName, views[i].Stream, ""})
		for j := range views[i].Changes {
			all = append(all, target{&views[i].Changes[j], stream, views[i].Stream, len(all)})
		}
	}
	compare := func(a, b target) int {
		if a.stream != b.stream {
			return cmp.Compare(a.stream, b.stream)
		}
		return bytes.Compare(a.Entity, b.Entity)
	}
	slices.SortFunc(all, func(a, b target) int {
		if c := compare(a, b); c != 0 {
			return c
		}
		return a.index - b.index
	})
	last := all[:0]
	for i := range all {
		if i+1 == len(all) || compare(all[i], all[i+1]) != 0 {
			last = append(last, all[i])
		}
	}
	return last
}

// views changes entries, and what the index by row and that by time have of them.
func (w *writer) views(b *store.Batch) {
	all := w.ordered(b.Views)
	if len(all) == 0 || w.err != nil {
		return
	}
	former, err := w.store.db.NewIter(&pebble.IterOptions{UseL6Filters: true})
	if err != nil {
		w.err = err
		return
	}
	var key, was, is, value, indexed []byte
	fresh := w.store.fresh.Load()
	for _, t := range all {
		key = append(binary.BigEndian.AppendUint32(append(key[:0], entryTag), t.stream), t.Entity...)
		was, is, indexed = was[:0], is[:0], indexed[:0]
		if !fresh.lacks(key) && !slices.Contains(b.Forget, t.name) && former.SeekPrefixGE(key) && bytes.Equal(former.Key(), key) {
			old, err := decodeEntry(former.Value())
			w.err = errors.Join(w.err, err)
			was = appendIndexKey(was, t.stream, &old, t.Entity)
		}
		// The next seek forgets it.
		w.err = errors.Join(w.err, former.Error())
		p := packed{Entry: t.Entry}
		if p.State == store.Unknown {
			w.delete(key)
		} else {
			p.shard = w.names.number(name{shardName, p.Shard, t.name})
			is = appendIndexKey(is, t.stream, &p, t.Entity)
			if p.State != store.Absent {
				indexed = appendByRow(indexed, &p.Entry)
			}
			value = appendEntry(value[:0], &p)
			w.set(key, value)
			if fresh.add(key) {
				fresh = nil
				w.store.fresh.Store(nil)
			}
		}
		if !bytes.Equal(was, is) && len(was) > 0 {
			w.delete(was)
		}
		if len(is) > 0 {
			w.set(is, indexed)
		}
	}
	w.err = errors.Join(w.err, former.Close())
}

// unpack returns an entry with its names.
func (s *Store) unpack(value []byte) (store.Entry, error) {
	p, err := decodeEntry(value)
	if err != nil {
		return store.Entry{}, err
	}
	var ok bool
	if p.Shard, ok = s.names.text(shardName, p.shard); !ok {
		return store.Entry{}, fmt.Errorf("shard %d has no name: %w", p.shard, errForm)
	}
	return p.Entry, nil
}

// Lookup appends the entries of entities to dst.
func (s *Store) Lookup(ctx context.Context, stream string, entities [][]byte, dst []store.Entry) (_ []store.Entry, err error) {
	number, ok := s.names.find(name{streamName, stream, ""})
	if err := s.usable(ctx); err != nil || !ok {
		return append(dst, make([]store.Entry, len(entities))...), err
	}
	prefix := numbered(entryTag, number)
	it, err := s.db.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: prefix, UpperBound: after(prefix), UseL6Filters: true})
	if err != nil {
		return dst, s.failed(err)
	}
	key := append([]byte(nil), prefix...)
	// Behind the iterator: what is applied from now on is not in its image.
	fresh := s.fresh.Load()
	for _, entity := range entities {
		key = append(key[:len(prefix)], entity...)
		var e store.Entry
		if !fresh.lacks(key) && it.SeekPrefixGE(key) && bytes.Equal(it.Key(), key) {
			if e, err = s.unpack(it.Value()); err != nil {
				break
			}
		}
		if err = it.Error(); err != nil {
			break
		}
		dst = append(dst, e)
	}
	return dst, s.failed(errors.Join(err, it.Close()))
}

// ByRow appends the entries of a shard with a row above after to dst.
func (s *Store) ByRow(ctx context.Context, key store.Key, above uint64, limit int, dst []store.Change) (_ []store.Change, err error) {
	shard, ok := s.names.find(shardOf(key))
	if err := s.usable(ctx); err != nil || !ok || above == 1<<64-1 {
		return dst, err
	}
	rows := numbered(rowTag, shard)
	it, err := s.db.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: binary.BigEndian.AppendUint64(rows, above+1), UpperBound: after(rows)})
	if err != nil {
		return dst, s.failed(err)
	}
	first := len(dst)
	for ok := it.First(); ok; ok = it.Next() {
		at := it.Key()[len(rows):]
		if len(at) < 9 {
			err = errForm
			break
		}
		row := binary.BigEndian.Uint64(at)
		if n := len(dst); n-first >= max(limit, 1) && row != dst[n-1].Entry.Row {
			break
		}
		var e store.Entry
		if e, err = decodeByRow(it.Value()); err != nil {
			break
		}
		e.Shard, e.Row = key.Shard, row
		dst = append(dst, store.Change{Entity: bytes.Clone(at[8:]), Entry: e})
	}
	return dst, s.failed(errors.Join(err, it.Close()))
}

// Scan returns the entries of a stream's view in the order of the entities' bytes.
func (s *Store) Scan(ctx context.Context, stream string, from []byte) iter.Seq2[store.Change, error] {
	return func(yield func(store.Change, error) bool) {
		number, ok := s.names.find(name{streamName, stream, ""})
		if err := s.usable(ctx); err != nil || !ok {
			if err != nil {
				yield(store.Change{}, err)
			}
			return
		}
		prefix := numbered(entryTag, number)
		it, err := s.db.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: append(prefix[:5:5], from...), UpperBound: after(prefix)})
		if err != nil {
			yield(store.Change{}, s.failed(err))
			return
		}
		for ok := it.First(); ok; ok = it.Next() {
			var e store.Entry
			if e, err = s.unpack(it.Value()); err != nil {
				break
			}
			if err = context.Cause(ctx); err != nil {
				break
			}
			if !yield(store.Change{Entity: it.Key()[len(prefix):], Entry: e}, nil) {
				_ = it.Close() // nothing was written, and the caller wants no more
				return
			}
		}
		if err := errors.Join(err, it.Close()); err != nil {
			yield(store.Change{}, s.failed(err))
		}
	}
}

// ForgetAbsent removes entities that were found absent before the given time.
func (s *Store) ForgetAbsent(ctx context.Context, stream string, before time.Time, limit int) (int, error) {
	number, ok := s.names.find(name{streamName, stream, ""})
	if err := s.writable(ctx); err != nil || !ok {
		return 0, err
	}
	s.applying.Lock()
	defer s.applying.Unlock()
	prefix := numbered(absentTag, number)
	it, err := s.db.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: prefix, UpperBound: binary.BigEndian.AppendUint64(prefix[:5:5], second(before))})
	if err != nil {
		return 0, s.failed(err)
	}
	w, n := writer{batch: s.db.NewBatch()}, 0
	for ok := it.First(); ok && n < limit; ok, n = it.Next(), n+1 {
		w.delete(it.Key())
		w.delete(append(numbered(entryTag, number), it.Key()[len(prefix)+8:]...))
	}
	if err = errors.Join(w.err, it.Close()); err == nil {
		err = w.batch.Commit(pebble.NoSync)
	}
	return n, s.failed(errors.Join(err, w.batch.Close()))
}
