package model

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
)

// row is one row of a table; key is unique over all tables.
type row struct{ key, state int }

type table struct {
	rows map[uint64]row
	next uint64
	// open are ids that were handed out and have no committed row, with the number of polls of the
	// table until then; pending where they have an uncommitted one.
	open  map[uint64]int
	polls int
}

const pending = -1

// partition is a TP: a topic-partition, or a JetStream stream.
type partition struct {
	log         []message
	first       int // The offset of the first message that has not expired.
	incarnation int
	// seen are the offsets of the bus ids that are dropped as repeats.
	seen map[uint64]int
	// fences are, for each process, the highest fence of a request that arrived.
	fences map[*process]int
}

// request is one write to one TP. It arrives as a whole or not at all, once.
type request struct {
	by       *process
	tp       int
	fence    int
	messages []message
	offsets  []int
	arrived  bool
	// abandoned says that nobody waits for it: it is not sent again where a fence refuses it.
	abandoned bool
}

type world struct {
	rng     *rand.Rand
	tables  []*table
	bus     []*partition
	release bool
	// typed has the TP depend on the kind of change, dedup has the bus drop repeats, full is a disk
	// that does not take every batch at first.
	typed, dedup, full bool
	// keys is how many entities there are; rough is how often the bus loses something.
	keys, rough int
	commits     int
	// dirty are entities that were changed in place or deleted: no tail sees that. moving has them
	// move instead. mistake says that one published beside another: a reconcile is needed, too.
	moving, mistake bool
	dirty           map[int]bool
	net             []*request
	running         []*process
	stores          []*saved
	clock           uint64
	foreign         int
	lost            bool
	stamps          map[stamp]uint64
	faults          []string
}

// saved is what a process keeps in its store. Nobody changes img.
type saved struct {
	epoch uint64
	img   *image
}

func newWorld(seed uint64) *world {
	w := &world{rng: rand.New(rand.NewPCG(seed, 1)), stamps: map[stamp]uint64{}, dirty: map[int]bool{}, moving: seed%3 == 1, full: seed%8 == 7}
	w.release, w.typed, w.dedup = w.rng.IntN(3) == 0, w.rng.IntN(2) == 0, w.rng.IntN(2) == 0
	w.keys, w.rough = 1+w.rng.IntN(4), w.rng.IntN(3)
	for range 2 {
		w.tables = append(w.tables, &table{rows: map[uint64]row{}, open: map[uint64]int{}})
	}
	for range 3 {
		w.bus = append(w.bus, newPartition(0))
	}
	return w
}

func newPartition(incarnation int) *partition {
	return &partition{incarnation: incarnation, seen: map[uint64]int{}, fences: map[*process]int{}}
}

func (w *world) fault(format string, args ...any) {
	w.faults = append(w.faults, fmt.Sprintf(format, args...))
}

// find returns the table and id of a key's row, ok false if there is none.
func (w *world) find(key int) (shard int, id uint64, r row, ok bool) {
	for s, t := range w.tables {
		for id, r := range t.rows {
			if r.key == key {
				return s, id, r, true
			}
		}
	}
	return 0, 0, row{}, false
}

// write is one commit, or the begin of a transaction.
func (w *world) write() {
	t := w.tables[w.rng.IntN(len(w.tables))]
	key, state := w.rng.IntN(w.keys), 1+w.rng.IntN(2)
	if w.release {
		key = 1000 + w.commits
	}
	shard, id, _, there := w.find(key)
	switch n := w.rng.IntN(10); {
	case n == 0:
		t.next++
		if t.open[t.next] = t.polls; w.rng.IntN(2) == 0 {
			t.open[t.next] = pending
		}
	case n == 1 && !there:
		// A row that is late: its id was pending, or was polled so seldom that it is hot.
		for _, id := range slices.Sorted(maps.Keys(t.open)) {
			if at := t.open[id]; at == pending || t.polls-at < hotPolls {
				t.rows[id] = row{key, state}
				delete(t.open, id)
				break
			}
		}
	case w.release || w.moving || !there || n < 5:
		delete(w.tables[shard].rows, id) // Where it is moved or replaced.
		t.next++
		t.rows[t.next] = row{key, state}
	default:
		// Deleted, or changed in place.
		delete(w.tables[shard].rows, id)
		if w.dirty[key] = true; n >= 7 {
			w.tables[shard].rows[id] = row{key, state}
		}
	}
	w.commits++
}

func (w *world) destination(m message, added bool) int {
	switch {
	case w.release:
		return int(m.row) % len(w.bus)
	case !w.typed:
		return m.key % len(w.bus)
	case added:
		return 0
	case m.state == 0:
		return 2
	}
	return 1
}

func (w *world) deliver(r *request) {
	w.net = slices.DeleteFunc(w.net, func(o *request) bool { return o == r })
	t := w.bus[r.tp]
	if r.fence < t.fences[r.by] {
		if r.abandoned {
			return
		}
		r.fence = r.by.fences[r.tp]
	}
	t.fences[r.by], r.arrived = r.fence, true
	for _, m := range r.messages {
		if at, dup := t.seen[m.busID]; dup && w.dedup {
			r.offsets = append(r.offsets, at)
			continue
		}
		of := digest(uint64(m.shard), uint64(m.key), m.row, uint64(m.state), m.id)
		if had, ok := w.stamps[m.stamp]; ok && had != of {
			w.fault("two messages have the stamp %v", m.stamp)
		}
		w.stamps[m.stamp] = of
		t.seen[m.busID] = len(t.log)
		r.offsets = append(r.offsets, len(t.log))
		t.log = append(t.log, m)
	}
}

func (w *world) ours() (all []message) {
	for _, t := range w.bus {
		for _, m := range t.log {
			if m.ours {
				all = append(all, m)
			}
		}
	}
	return all
}

// last is what a consumer makes of an entity, with where it lies: the last message of each TP, of
// these the one with the highest stamp.
func (w *world) last(key int) (tp, offset int, last message) {
	for n, t := range w.bus {
		for at := len(t.log) - 1; at >= 0; at-- {
			if m := &t.log[at]; m.ours && m.key == key {
				if !last.ours || last.stamp.before(m.stamp) {
					tp, offset, last = n, at, *m
				}
				break
			}
		}
	}
	return tp, offset, last
}

// harm is something that befalls the bus or a process, or a command.
func (w *world) harm() {
	tp := w.rng.IntN(len(w.bus))
	t := w.bus[tp]
	switch n := w.rng.IntN(12 + w.rough); {
	case n < 3:
		w.foreign++ // Somebody else publishes to the same TP.
		t.log = append(t.log, message{row: uint64(w.foreign)})
	case n < 6 && len(w.running) > 0:
		w.kill(w.running[w.rng.IntN(len(w.running))])
	case w.release && w.rough == 0 && n == 9:
		t.first += w.rng.IntN(len(t.log) - t.first + 1)
	case n <= 7 && len(w.running) == 1:
		// Another process is started beside the one that runs: by mistake, or to wait.
		w.start(w.copyOfStore(), n == 7)
	case (n == 10 || n == 11) && w.release && len(w.running) == 0 && len(w.stores) > 0:
		// `checkpoint set` of a shard to 0 (rule 28).
		s := w.stores[len(w.stores)-1]
		w.clock++
		s = &saved{max(s.epoch+1, w.clock), s.img.clone()}
		s.img.progress[w.rng.IntN(len(w.tables))] = newProgress(s.epoch)
		w.stores = append(w.stores, s)
	case (n == 9 || n >= 12) && len(w.running) == 0 && len(t.log) > 0:
		w.lost = true // What the bus has acknowledged.
		t.log = t.log[:w.rng.IntN(len(t.log))]
		maps.DeleteFunc(t.seen, func(_ uint64, at int) bool { return at >= len(t.log) })
	case n == 8 && len(w.running) == 0 && w.rough > 0:
		w.lost = true
		w.bus[tp] = newPartition(t.incarnation + 1)
	}
}

func (w *world) kill(p *process) {
	w.running = slices.DeleteFunc(w.running, func(o *process) bool { return o == p })
	for _, r := range w.net {
		r.abandoned = r.abandoned || r.by == p
	}
	// A known limit: a request of an attempt that ended may have arrived behind what the process
	// has decided since, and nothing tells its successor that it is late.
	for _, m := range p.cut {
		w.dirty[m.key] = true
	}
	w.lose(p)
}

func (w *world) lose(p *process) {
	w.net = slices.DeleteFunc(w.net, func(r *request) bool { return r.by == p && r.abandoned && w.rng.IntN(3) == 0 })
}

// copyOfStore returns a copy of a store as it was saved at some time, or nothing.
func (w *world) copyOfStore() *saved {
	if len(w.stores) == 0 || w.rng.IntN(5) == 0 {
		return nil
	}
	s := *w.stores[w.rng.IntN(len(w.stores))]
	return &s
}
