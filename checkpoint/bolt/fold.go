package bolt

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"

	"go.etcd.io/bbolt"

	"bridge/checkpoint"
)

// bounds say when recent values are folded into the trees.
type bounds struct {
	// entries and bytes bound the overlay of all shards: beyond them folding begins, at twice as much saves wait for it.
	entries, bytes int
	// step is how many operations on the trees one transaction of a fold makes, unless it touches this many pages before: they
	// are in memory until it ends.
	step, pages int
}

// defaultBounds keep the overlay, with what a fold needs, within some 15 MiB of memory and the recent values within 32 MiB
// of the file. The more entries are folded at once, the fewer pages are written for each.
var defaultBounds = bounds{entries: 96 << 10, bytes: 16 << 20, step: 12 << 10, pages: 750}

// foldPace is how many operations on the trees are made for each change that is saved, while there is something to fold. A change
// needs up to three.
const foldPace = 5

// fold brings the recent values of one shard into its trees, in transactions of their own, each of which may be the last one
// before a kill. The recent values and the overlay stand until all is done and hide the trees till then; a fold that is begun
// again does the same operations again.
//
// The order of rows comes first: which row an entity leaves is known as long as the order of entities says it.
type fold struct {
	key checkpoint.Key
	// through is the number of the last recent value that is folded.
	through uint64
	// rows are the changes of the order of rows, in that order, entities those of the order of entities.
	rows     []rowOp
	entities []place
	done     int
}

// rowOp puts the entity of the change at a place in a row, or deletes it from there.
type rowOp struct {
	row uint64
	at  place // with leaves, when it is deleted
}

// leaves marks the place of a rowOp that deletes. No place is as high.
const leaves place = 1 << 63

// settle makes as many steps of folds as changes that were saved call for. The caller has the turn.
// Invariant 7: what is recent is bounded over all shards; beyond twice the bound, saves wait.
func (s *Store) settle(changes int) error {
	s.credit += foldPace * changes
	for s.fold != nil || s.overlay.beyond(s.bounds, 1) {
		if s.credit <= 0 && !s.overlay.beyond(s.bounds, 2) {
			return nil
		}
		done, err := s.foldStep()
		if err != nil {
			return err
		}
		s.credit -= done
	}
	s.credit = 0
	return nil
}

// beyond reports whether o has more than a number of times the bounds.
func (o *overlay) beyond(b bounds, times int) bool {
	return o.entries > times*b.entries || o.bytes > times*b.bytes
}

// foldStep begins a fold, goes on with the one that is under way, or ends it, and returns how many operations on the trees it
// made. The caller has the turn.
func (s *Store) foldStep() (done int, err error) {
	f := s.fold
	switch {
	case f == nil:
		return 0, s.beginFold(s.overlay.largest())
	case f.done < f.size():
		err = s.update(func(tx *bbolt.Tx) (err error) {
			done, err = f.step(tx, s.bounds)
			return err
		})
		if err != nil {
			return 0, err
		}
		f.done += done
		return done, nil
	}
	// Readers stay out, because what the overlay names goes with this transaction.
	s.overlay.mu.Lock()
	defer s.overlay.mu.Unlock()
	if err := s.update(f.end); err != nil {
		return 0, err
	}
	s.overlay.drop(f.key, f.through)
	s.fold = nil
	return 0, nil
}

// foldAll folds all that is recent of a shard. The caller has the turn.
func (s *Store) foldAll(key checkpoint.Key) error {
	for s.fold != nil || s.overlay.shards[key] != nil {
		var err error
		if s.fold == nil {
			err = s.beginFold(key)
		} else {
			_, err = s.foldStep()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// largest returns the shard with the most recent bytes.
func (o *overlay) largest() (key checkpoint.Key) {
	most := -1
	for k, l := range o.shards {
		if l.bytes > most {
			key, most = k, l.bytes
		}
	}
	return key
}

// beginFold prepares the fold of a shard. The caller has the turn: nobody changes the overlay.
func (s *Store) beginFold(key checkpoint.Key) error {
	l := s.overlay.shards[key]
	f := &fold{key: key, through: l.runs[len(l.runs)-1].number}
	err := s.view(func(tx *bbolt.Tx) error {
		shard := bucketOf(tx, key.Stream, key.Shard)
		r := recentsOf(shard, key)
		sorted, err := l.byEntity(r)
		if err != nil {
			return err
		}
		f.entities = make([]place, len(sorted))
		for i, e := range sorted {
			f.entities[i] = e.at
		}
		if f.rows, err = rowOps(shard, r, l, sorted); err != nil {
			return err
		}
		slices.SortFunc(f.rows, func(a, b rowOp) int { return cmp.Compare(a.row, b.row) })
		return nil
	})
	if err == nil {
		s.fold = f
	}
	return err
}

// entityAt is an entity with the place of its newest change.
type entityAt struct {
	entity []byte
	at     place
}

// byEntity returns the entities of l in their order. They are good as long as the transaction.
func (l *layer) byEntity(r *recents) ([]entityAt, error) {
	sorted := make([]entityAt, 0, l.size())
	err := l.each(func(p place) error {
		c, err := r.at(p)
		sorted = append(sorted, entityAt{c.Entity, p})
		return err
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(sorted, func(a, b entityAt) int { return bytes.Compare(a.entity, b.entity) })
	return sorted, nil
}

// rowOps returns the changes of the order of rows that the newest changes of l mean, in any order.
func rowOps(shard *bbolt.Bucket, r *recents, l *layer, sorted []entityAt) ([]rowOp, error) {
	ops := make([]rowOp, 0, 2*len(sorted)+len(l.outdated))
	t, there := treesOf(shard, r.key)
	for _, e := range sorted {
		c, err := r.at(e.at)
		if err != nil {
			return nil, err
		}
		if hasRow(c.Known) {
			ops = append(ops, rowOp{row: c.Known.Row, at: e.at})
		}
		if !there {
			continue
		}
		former, err := t.get(e.entity)
		if err != nil {
			return nil, err
		}
		if hasRow(former) && !inRow(c.Known, former.Row) {
			ops = append(ops, rowOp{row: former.Row, at: e.at | leaves})
		}
	}
	for _, p := range l.outdated {
		old, err := r.at(p)
		if err != nil {
			return nil, err
		}
		newest, _, ok, err := l.find(r, old.Entity)
		if err != nil {
			return nil, err
		}
		if ok && hasRow(old.Known) && !inRow(newest.Known, old.Known.Row) {
			ops = append(ops, rowOp{row: old.Known.Row, at: p | leaves})
		}
	}
	return ops, nil
}

// inRow reports whether k is in the order of rows with this row.
func inRow(k checkpoint.Known, row uint64) bool { return hasRow(k) && k.Row == row }

// size is the number of operations that f is.
func (f *fold) size() int { return len(f.rows) + len(f.entities) }

// step makes the next operations, as many as b allows, and returns how many that is.
func (f *fold) step(tx *bbolt.Tx, b bounds) (done int, err error) {
	shard := bucketOf(tx, f.key.Stream, f.key.Shard)
	if shard == nil {
		return 0, damaged("shard %s is gone", f.key.Shard)
	}
	t, err := makeTrees(shard, f.key)
	if err != nil {
		return 0, err
	}
	r := recentsOf(shard, f.key)
	for end := min(b.step, f.size()-f.done); done < end && (done == 0 || pagesIn(tx) < b.pages); done++ {
		if err := f.apply(t, r, f.done+done); err != nil {
			return 0, err
		}
	}
	return done, nil
}

// pagesIn returns how many pages tx has in memory.
func pagesIn(tx *bbolt.Tx) int {
	stats := tx.Stats()
	return int(stats.GetNodeCount())
}

// apply makes the n-th operation.
func (f *fold) apply(t trees, r *recents, n int) error {
	if n < len(f.rows) {
		return f.rows[n].apply(t, r)
	}
	c, err := r.at(f.entities[n-len(f.rows)])
	if err != nil {
		return err
	}
	return t.putView(c)
}

func (op rowOp) apply(t trees, r *recents) error {
	c, err := r.at(op.at &^ leaves)
	switch {
	case err != nil:
		return err
	case op.at&leaves != 0:
		return t.deleteRow(op.row, c.Entity)
	}
	return t.putRow(c)
}

// end removes the recent values that are in the trees now.
func (f *fold) end(tx *bbolt.Tx) error {
	b := recentsOf(bucketOf(tx, f.key.Stream, f.key.Shard), f.key).b
	if b == nil {
		return nil
	}
	for c := b.Cursor(); ; {
		name, _ := c.First()
		if len(name) != 8 || binary.BigEndian.Uint64(name) > f.through {
			return nil
		}
		if err := b.Delete(name); err != nil {
			return err
		}
	}
}
