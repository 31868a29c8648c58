package bolt

import (
	"bytes"
	"cmp"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"

	"bridge/checkpoint"
)

var errCancelled = errors.New("the preparation of a fold was cancelled")

// preparation finds out what a fold has to do, beside the saves. It works on the places that the overlay had when it began, whose
// changes stand until the fold ends, and on the trees, which only folds, Rewind and Delete change: Rewind waits for it, Delete
// and Close cancel it. It needs neither the turn nor the overlay, so that who has them can wait for it.
type preparation struct {
	// done is closed when there is nothing more to do. Then err says why the fold cannot be made.
	done      chan struct{}
	err       error
	cancelled atomic.Bool
	// onPiece, where it is not nil, is called before each transaction.
	onPiece func() error
}

// beginFold begins to prepare the fold of a shard. The caller has the turn: nobody changes the overlay.
func (s *Store) beginFold(key checkpoint.Key) {
	l := s.overlay.shards[key]
	f := &fold{key: key, through: l.runs[len(l.runs)-1].number}
	f.done, f.onPiece = make(chan struct{}), s.onPreparation
	places := l.places()
	s.fold, s.nextStep = f, time.Now().Add(s.bounds.pace)
	go func() {
		defer close(f.done)
		f.err = s.prepare(f, places)
	}()
}

// places returns where the changes are that a fold of l has to look at: the newest of all entities, and the outdated ones.
func (l *layer) places() []place {
	places := slices.AppendSeq(make([]place, 0, l.size()+len(l.outdated)), l.newest())
	return append(places, l.outdated...)
}

// preparing reports whether the preparation of f is under way.
func (f *fold) preparing() bool {
	select {
	case <-f.done:
		return false
	default:
		return true
	}
}

// prepared waits for the preparation of the fold that is under way and returns the fold. A preparation that failed changed
// nothing: it is made again, so that who can be told of an error is told what holds now. The caller has the turn.
func (s *Store) prepared() (*fold, error) {
	if err := s.awaitPreparation(); err == nil {
		return s.fold, nil
	}
	if err := s.failure(); err != nil {
		return nil, err
	}
	s.beginFold(s.fold.key)
	return s.fold, s.awaitPreparation()
}

// awaitPreparation waits for the preparation of the fold that is under way, unless the store fails: then the database may keep
// it for ever.
func (s *Store) awaitPreparation() error {
	select {
	case <-s.fold.done:
		return s.fold.err
	case <-s.broken:
		return s.failure()
	}
}

// cancelFold ends the preparation of the fold that is under way. The caller has the turn.
func (s *Store) cancelFold() {
	s.fold.cancelled.Store(true)
	// What it says does not matter any more.
	_ = s.awaitPreparation()
}

// prepare fills f with what there is to do for the changes at places, which it uses as memory.
func (s *Store) prepare(f *fold, places []place) error {
	m, err := s.sortPieces(f, places)
	if err != nil {
		return err
	}
	f.entities = make([]place, 0, len(places))
	d := deeds{fold: f}
	for left := len(places); left > 0; left -= s.bounds.piece {
		err := s.readRecent(f, func(shard *bbolt.Bucket, r *recents) error {
			d.trees, d.planted = treesOf(shard, f.key)
			return m.next(r, min(left, s.bounds.piece), d.add)
		})
		if err != nil {
			return err
		}
	}
	inRow := func(a, b rowOp) int { return cmp.Compare(a.row, b.row) }
	slices.SortFunc(f.leaves, inRow)
	slices.SortFunc(d.puts, inRow)
	f.puts = places[:0]
	for _, op := range d.puts {
		f.puts = append(f.puts, op.at)
	}
	return nil
}

// deeds collects what a fold has to do.
type deeds struct {
	fold    *fold
	trees   trees // in this transaction
	planted bool
	puts    []rowOp
	// entity is the last of the fold's entities, and known what its newest change says of it.
	entity []byte
	known  checkpoint.Known
}

// add adds the next change in the order of entities.
func (d *deeds) add(p place, c checkpoint.Change) error {
	f := d.fold
	// Of an entity the newest one comes first.
	if len(f.entities) > 0 && bytes.Equal(c.Entity, d.entity) {
		d.leave(p, c.Known)
		return nil
	}
	f.entities = append(f.entities, p)
	d.entity, d.known = append(d.entity[:0], c.Entity...), c.Known
	if hasRow(c.Known) {
		d.puts = append(d.puts, rowOp{c.Known.Row, p})
	}
	if !d.planted {
		return nil
	}
	former, err := d.trees.get(c.Entity)
	d.leave(p, former)
	return err
}

// leave notes that the last entity, whose change is at p, leaves the row of what was known of it, if it does.
func (d *deeds) leave(p place, old checkpoint.Known) {
	if hasRow(old) && !(hasRow(d.known) && d.known.Row == old.Row) {
		d.fold.leaves = append(d.fold.leaves, rowOp{old.Row, p})
	}
}

// readRecent runs one transaction of a preparation.
func (s *Store) readRecent(f *fold, read func(shard *bbolt.Bucket, r *recents) error) error {
	if f.cancelled.Load() {
		return errCancelled
	}
	if f.onPiece != nil {
		if err := f.onPiece(); err != nil {
			return err
		}
	}
	return s.view(func(tx *bbolt.Tx) error {
		shard := bucketOf(tx, f.key.Stream, f.key.Shard)
		return read(shard, recentsOf(shard, f.key))
	})
}

// item is a change that is sorted. Its entity is good as long as the transaction.
type item struct {
	at     place
	entity []byte
}

// byEntity orders changes by their entities, and those of one entity from the newest on.
func byEntity(a, b item) int {
	if c := bytes.Compare(a.entity, b.entity); c != 0 {
		return c
	}
	return cmp.Compare(b.at, a.at)
}

// sortPieces sorts places by pieces, each in the order of entities.
func (s *Store) sortPieces(f *fold, places []place) (m merge, err error) {
	// In the order of places, neighbours in a piece are neighbours in the file.
	slices.Sort(places)
	items := make([]item, 0, min(s.bounds.piece, len(places)))
	for piece := range slices.Chunk(places, s.bounds.piece) {
		m.pieces = append(m.pieces, piece)
		err := s.readRecent(f, func(_ *bbolt.Bucket, r *recents) error { return sortPiece(r, piece, items) })
		if err != nil {
			return m, err
		}
	}
	return m, nil
}

// sortPiece sorts the places of a piece, with items as memory.
func sortPiece(r *recents, piece []place, items []item) error {
	for _, p := range piece {
		c, err := r.at(p)
		if err != nil {
			return err
		}
		items = append(items, item{p, c.Entity})
	}
	slices.SortFunc(items, byEntity)
	for i, e := range items {
		piece[i] = e.at
	}
	return nil
}

// merge goes through pieces, each in the order of entities, in that order.
type merge struct {
	pieces [][]place // what is left of them
}

// head is the first change that is left of a piece.
type head struct {
	item
	known checkpoint.Known
	piece *[]place
}

// next calls f for the next count changes.
func (m *merge) next(r *recents, count int, f func(place, checkpoint.Change) error) error {
	// The first one is at the end: it goes, and what comes in its stead is mostly near it.
	heads := make([]*head, 0, len(m.pieces))
	add := func(h *head) error {
		if len(*h.piece) == 0 {
			return nil
		}
		p := (*h.piece)[0]
		c, err := r.at(p)
		if err != nil {
			return err
		}
		h.item, h.known = item{p, c.Entity}, c.Known
		i, _ := slices.BinarySearchFunc(heads, h, func(a, b *head) int { return byEntity(b.item, a.item) })
		heads = slices.Insert(heads, i, h)
		return nil
	}
	for i := range m.pieces {
		if err := add(&head{piece: &m.pieces[i]}); err != nil {
			return err
		}
	}
	for ; count > 0; count-- {
		h := heads[len(heads)-1]
		heads = heads[:len(heads)-1]
		if err := f(h.at, checkpoint.Change{Entity: h.entity, Known: h.known}); err != nil {
			return err
		}
		*h.piece = (*h.piece)[1:]
		if err := add(h); err != nil {
			return err
		}
	}
	return nil
}
