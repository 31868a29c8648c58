package bolt

import (
	"encoding/binary"
	"time"

	"go.etcd.io/bbolt"

	"bridge/checkpoint"
)

// bounds say when recent values are folded into the trees.
type bounds struct {
	// entries and bytes bound the overlay of all shards: beyond them folding begins, at twice as much saves wait for it.
	entries, bytes int
	// step is how many operations on the trees one transaction of a fold makes, unless it touches this many pages or meets entities of this
	// many bytes before: they are in memory until it ends.
	step, pages, entityBytes int
	// A shard of which at least this many bytes are recent, a page of the file for each save among them, is folded at this age of theirs, too:
	// what changes a little all the time would else grow to the bounds over hours, in memory, in the file, and in what the next start has to read.
	agedBytes int
	age       time.Duration
	// pace is how long a fold under way waits for its next step at most, once somebody saves: a few rows at a time would else pay for one
	// of many for days.
	pace time.Duration
	// piece is how many changes one transaction of a preparation reads. While one is open, no page that it may read is used again,
	// and the file cannot grow in memory: it takes some ms.
	piece int
}

// defaultBounds keep the overlay, with what a fold needs, within some 50 MiB of memory, and twice as much where saves wait for a fold, and the
// recent values within 192 MiB of the file. The more entries are folded at once, the fewer pages are written for each.
var defaultBounds = bounds{entries: 512 << 10, bytes: 96 << 20, step: 12 << 10, pages: 750, entityBytes: 4 << 20,
	agedBytes: 1 << 20, age: 5 * time.Minute, pace: 2 * time.Second, piece: 8 << 10}

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
	// preparation is over before what follows is read.
	preparation
	// leaves and puts are the changes of the order of rows, each in that order: first which entities leave a row, then those that
	// have one. entities are the changes of the order of entities, in that order.
	leaves   []rowOp
	puts     []place
	entities []place
	made     int
}

// rowOp is a row and the place of a change of an entity that it gets or loses.
type rowOp struct {
	row uint64
	at  place
}

// settle makes as many steps of folds as changes that were saved, and the time, call for. The caller has the turn.
// Invariant 7: what is recent is bounded over all shards; beyond twice the bound, saves wait.
func (s *Store) settle(changes int) error {
	s.credit += foldPace * changes
	for s.fold != nil || s.due() {
		full := s.overlay.beyond(s.bounds, 2)
		if s.credit <= 0 && !full && !s.stepDue() {
			return nil
		}
		if s.fold == nil {
			s.beginFold(s.dueShard)
		}
		if s.fold.preparing() && !full {
			// What is saved meanwhile is not made up for: that would be a stall.
			s.credit = 0
			return nil
		}
		made, err := s.foldStep()
		if err != nil {
			return err
		}
		s.credit -= made
		s.nextStep = time.Now().Add(s.bounds.pace)
	}
	s.credit = 0
	return nil
}

// stepDue reports whether what is to be folded has waited long enough for the next step. Of such steps only the last one is made up for.
func (s *Store) stepDue() bool {
	if time.Now().Before(s.nextStep) {
		return false
	}
	s.credit = 0
	return true
}

// due reports whether a shard is to be folded, and notes which. The caller has the turn.
func (s *Store) due() (due bool) {
	if s.overlay.beyond(s.bounds, 1) {
		s.dueShard = s.overlay.largest()
		return true
	}
	now := time.Now()
	if now.Before(s.nextLook) {
		return false
	}
	if s.dueShard, due = s.overlay.aged(s.bounds, now); !due {
		s.nextLook = now.Add(s.bounds.age / 16)
	}
	return due
}

// aged returns a shard of which enough is recent, and has been for long enough.
func (o *overlay) aged(b bounds, now time.Time) (key checkpoint.Key, ok bool) {
	for key, l := range o.shards {
		if l.bytes >= b.agedBytes && now.Sub(l.since) >= b.age {
			return key, true
		}
	}
	return key, false
}

// beyond reports whether o has more than a number of times the bounds.
func (o *overlay) beyond(b bounds, times int) bool {
	return o.entries > times*b.entries || o.bytes > times*b.bytes
}

// foldStep goes on with the fold that is under way, once it is prepared, or ends it, and returns how many operations on the trees it
// made. The caller has the turn.
func (s *Store) foldStep() (made int, err error) {
	f, err := s.prepared()
	if err != nil {
		return 0, err
	}
	if f.made < f.size() {
		err = s.update(func(tx *bbolt.Tx) (err error) {
			made, err = f.step(tx, s.bounds)
			return err
		})
		if err != nil {
			return 0, err
		}
		f.made += made
		return made, nil
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
		if s.fold == nil {
			s.beginFold(key)
		}
		if _, err := s.foldStep(); err != nil {
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

// size is the number of operations that f is.
func (f *fold) size() int { return len(f.leaves) + len(f.puts) + len(f.entities) }

// step makes the next operations, as many as b allows, and returns how many that is.
func (f *fold) step(tx *bbolt.Tx, b bounds) (made int, err error) {
	shard := bucketOf(tx, f.key.Stream, f.key.Shard)
	if shard == nil {
		return 0, damaged("shard %s is gone", f.key.Shard)
	}
	t, err := makeTrees(shard, f.key)
	if err != nil {
		return 0, err
	}
	r := recentsOf(shard, f.key)
	size := 0
	for end := min(b.step, f.size()-f.made); made < end && (made == 0 || pagesIn(tx) < b.pages && size < b.entityBytes); made++ {
		c, err := f.apply(t, r, f.made+made)
		if err != nil {
			return 0, err
		}
		size += len(c.Entity)
	}
	return made, t.flush()
}

// pagesIn returns how many pages tx has in memory.
func pagesIn(tx *bbolt.Tx) int {
	stats := tx.Stats()
	return int(stats.GetNodeCount())
}

// apply makes the n-th operation and returns the change that it brings in.
func (f *fold) apply(t trees, r *recents, n int) (c checkpoint.Change, err error) {
	if n < len(f.leaves) {
		if c, err = r.at(f.leaves[n].at); err == nil {
			err = t.deleteRow(f.leaves[n].row, c.Entity)
		}
		return c, err
	}
	places, put := f.puts, trees.putRow
	if n -= len(f.leaves); n >= len(f.puts) {
		n -= len(f.puts)
		places, put = f.entities, trees.putView
	}
	if c, err = r.at(places[n]); err == nil {
		err = put(t, c)
	}
	return c, err
}

// end removes the recent values that are in the trees now.
func (f *fold) end(tx *bbolt.Tx) error {
	b := recentsOf(bucketOf(tx, f.key.Stream, f.key.Shard), f.key).b
	if b == nil {
		return nil
	}
	return deleteFirst(b, func(name []byte) bool { return len(name) == 8 && binary.BigEndian.Uint64(name) <= f.through })
}
