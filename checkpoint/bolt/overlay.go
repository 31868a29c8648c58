package bolt

import (
	"container/heap"
	"encoding/binary"
	"hash/maphash"
	"iter"
	"sort"
	"sync"
	"time"

	"go.etcd.io/bbolt"

	"bridge/checkpoint"
)

// recentOverhead is what a recent value counts beside its bytes: the page that a small one takes.
const recentOverhead = 4096

// overlay finds what the recent values of all shards say. What it says of an entity takes the place of what the trees say.
//
// The goroutine that has the turn changes it, holding mu. Readers hold mu for reading, from before they begin their
// transaction until they are done: so no recent value that the overlay names is gone from their transaction.
type overlay struct {
	hash func(entity []byte) uint32

	mu      sync.RWMutex
	shards  map[checkpoint.Key]*layer
	entries int
	bytes   int
	// rows and offsets are memory of add.
	rows    []uint64
	offsets []uint32
}

// layer is the overlay of one shard.
type layer struct {
	hash func(entity []byte) uint32
	// index finds the newest change of an entity by the entity's hash, twins that of one whose hash another one has.
	index index
	twins map[string]place
	// runs are the recent values in the order of their numbers.
	runs []run
	// Up to number loaded, recent values were there when the store was opened: a fold that was cut short may have put the rows of
	// their changes. outdated are those of the changes that have newer ones.
	loaded   uint64
	outdated []place
	bytes    int
	// since is when the oldest of runs came, or was left over by a fold.
	since time.Time
}

// run is one recent value: its changes with a row, in the order of rows.
type run struct {
	number uint64
	bytes  int
	// rows and offsets have one length: the rows, and where in the value the changes begin.
	rows    []uint64
	offsets []uint32
}

func newOverlay() *overlay {
	seed := maphash.MakeSeed()
	return &overlay{
		hash:   func(entity []byte) uint32 { return uint32(maphash.Bytes(seed, entity)) },
		shards: make(map[checkpoint.Key]*layer),
	}
}

// size is the number of entities in l, which may be nil.
func (l *layer) size() int {
	if l == nil {
		return 0
	}
	return l.index.count + len(l.twins)
}

// add adds a recent value, newer than all before, and returns how many changes it has.
func (o *overlay) add(r *recents, number uint64, form []byte) (count int, err error) {
	l := o.shards[r.key]
	if l == nil {
		l = &layer{hash: o.hash, twins: make(map[string]place), since: time.Now()}
		o.shards[r.key] = l
	}
	before := l.size()
	run := run{number: number, bytes: len(form) + recentOverhead}
	rows, offsets := o.rows[:0], o.offsets[:0]
	err = eachChange(form, func(offset int, c checkpoint.Change) error {
		count++
		if hasRow(c.Known) {
			if n := len(rows); n > 0 && rows[n-1] > c.Known.Row {
				return damaged("recent value %d of %s is out of order", number, r.key.Shard)
			}
			rows, offsets = append(rows, c.Known.Row), append(offsets, uint32(offset))
		}
		former, had, err := l.put(r, c.Entity, placeOf(number, offset))
		if had && former.number() <= l.loaded {
			l.outdated = append(l.outdated, former)
		}
		return err
	})
	o.rows, o.offsets = rows, offsets
	run.rows, run.offsets = exact(rows), exact(offsets)
	l.runs = append(l.runs, run)
	l.bytes += run.bytes
	o.bytes += run.bytes
	o.entries += l.size() - before
	return count, err
}

// exact returns a copy of s that takes no more memory than it needs: there are many of them for long.
func exact[E any](s []E) []E {
	c := make([]E, len(s))
	copy(c, s)
	return c
}

// put makes p the newest change of an entity and returns the former one.
func (l *layer) put(r *recents, entity []byte, p place) (former place, had bool, err error) {
	if former, had = l.twins[string(entity)]; had {
		l.twins[string(entity)] = p
		return former, true, nil
	}
	hash := l.hash(entity)
	if former, had = l.index.get(hash); had {
		c, err := r.at(former)
		if err != nil {
			return 0, false, err
		}
		if string(c.Entity) != string(entity) {
			l.twins[string(entity)] = p
			return 0, false, nil
		}
	}
	l.index.put(hash, p)
	return former, had, nil
}

// find returns the newest change of an entity and where it is, if l, which may be nil, has one.
func (l *layer) find(r *recents, entity []byte) (c checkpoint.Change, p place, ok bool, err error) {
	if l == nil {
		return c, 0, false, nil
	}
	if p, ok = l.index.get(l.hash(entity)); ok {
		if c, err = r.at(p); err != nil || string(c.Entity) == string(entity) {
			return c, p, err == nil, err
		}
	}
	if p, ok = l.twins[string(entity)]; ok {
		c, err = r.at(p)
	}
	return c, p, ok && err == nil, err
}

// newest goes through the newest changes of all entities in l, which may be nil.
func (l *layer) newest() iter.Seq[place] {
	return func(yield func(place) bool) {
		if l == nil {
			return
		}
		for p := range l.index.all() {
			if !yield(p) {
				return
			}
		}
		for _, p := range l.twins {
			if !yield(p) {
				return
			}
		}
	}
}

// rowsAbove goes through all changes in l, which may be nil, with a row above after and at most last, in the order of rows, the outdated ones
// too. It takes memory for its runs alone: a page asks for few of the changes that there are.
func (l *layer) rowsAbove(after, last uint64) iter.Seq2[uint64, place] {
	return func(yield func(uint64, place) bool) {
		if l == nil {
			return
		}
		var left runHeap
		for i := range l.runs {
			rows := l.runs[i].rows
			from := sort.Search(len(rows), func(i int) bool { return rows[i] > after })
			if from < len(rows) && rows[from] <= last {
				left = append(left, runLeft{&l.runs[i], from})
			}
		}
		heap.Init(&left)
		for len(left) > 0 {
			first := &left[0]
			if !yield(first.row(), placeOf(first.run.number, int(first.run.offsets[first.at]))) {
				return
			}
			if first.at++; first.at < len(first.run.rows) && first.row() <= last {
				heap.Fix(&left, 0)
			} else {
				heap.Pop(&left)
			}
		}
	}
}

// runLeft is what is left of a run, of which there is some.
type runLeft struct {
	run *run
	at  int
}

func (r *runLeft) row() uint64 { return r.run.rows[r.at] }

// runHeap has the run with the lowest row in front.
type runHeap []runLeft

func (h runHeap) Len() int           { return len(h) }
func (h runHeap) Less(i, j int) bool { return h[i].row() < h[j].row() }
func (h runHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *runHeap) Push(r any)        { *h = append(*h, r.(runLeft)) }

func (h *runHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// drop removes from the overlay of a shard what its recent values up to number through said.
func (o *overlay) drop(key checkpoint.Key, through uint64) {
	l := o.shards[key]
	if l == nil {
		return
	}
	before := l.size()
	l.index.drop(through)
	for entity, p := range l.twins {
		if p.number() <= through {
			delete(l.twins, entity)
		}
	}
	n := sort.Search(len(l.runs), func(i int) bool { return l.runs[i].number > through })
	for _, run := range l.runs[:n] {
		l.bytes -= run.bytes
		o.bytes -= run.bytes
	}
	l.runs = append([]run(nil), l.runs[n:]...)
	l.loaded, l.outdated, l.since = 0, nil, time.Now()
	o.entries -= before - l.size()
	if len(l.runs) == 0 {
		delete(o.shards, key)
	}
}

// dropStream removes what all shards of a stream said.
func (o *overlay) dropStream(stream string) {
	for key := range o.shards {
		if key.Stream == stream {
			o.drop(key, 1<<64-1)
		}
	}
}

// load fills the overlay from the recent values of all shards.
func (o *overlay) load(tx *bbolt.Tx) error {
	return eachShard(tx, func(key checkpoint.Key, shard *bbolt.Bucket) error {
		r := recentsOf(shard, key)
		if r.b == nil {
			return nil
		}
		return r.b.ForEach(func(name, value []byte) error {
			if len(name) != 8 {
				return damaged("a recent value of %s has the name %q", key.Shard, name)
			}
			form, err := r.unseal(name, value)
			if err != nil {
				return err
			}
			number := binary.BigEndian.Uint64(name)
			_, err = o.add(r, number, form)
			o.shards[key].loaded = number
			return err
		})
	})
}
