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
	// open are rows of transactions that have not committed.
	open map[uint64]row
}

// partition is a TP: a topic-partition, or a JetStream stream.
type partition struct {
	log []message
	// first is the offset of the first message that has not expired.
	first       int
	incarnation int
	// seen are the offsets of the bus ids that are dropped as repeats.
	seen map[string]int
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

// world is what a process works in.
type world struct {
	rng     *rand.Rand
	tables  []*table
	bus     []*partition
	release bool
	// typed has the TP depend on the kind of change, dedup has the bus drop repeats.
	typed, dedup bool
	// keys is how many entities there are; rough is how often the bus loses something.
	keys, rough int
	// rows counts those of a release stream.
	rows    int
	net     []*request
	running []*process
	stores  []*saved
	clock   uint64
	foreign int
	lost    bool
	stamps  map[stamp]string
	faults  []string
}

// saved is what a process keeps in its store.
type saved struct {
	epoch uint64
	img   *image
}

func newWorld(seed uint64) *world {
	w := &world{rng: rand.New(rand.NewPCG(seed, 1)), stamps: map[stamp]string{}}
	w.release, w.typed, w.dedup = w.rng.IntN(3) == 0, w.rng.IntN(2) == 0, w.rng.IntN(2) == 0
	w.keys, w.rough = 1+w.rng.IntN(4), w.rng.IntN(3)
	for range 2 {
		w.tables = append(w.tables, &table{rows: map[uint64]row{}, open: map[uint64]row{}})
	}
	for range 3 {
		w.bus = append(w.bus, newPartition(0))
	}
	return w
}

func newPartition(incarnation int) *partition {
	return &partition{incarnation: incarnation, seen: map[string]int{}, fences: map[*process]int{}}
}

func (w *world) fault(format string, args ...any) {
	w.faults = append(w.faults, fmt.Sprintf(format, args...))
}

// find returns the table and id of a key's row, ok false where there is none.
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
		w.rows++
		key = 1000 + w.rows
	}
	shard, id, _, there := w.find(key)
	switch n := w.rng.IntN(10); {
	case n == 0:
		// An id that is handed out and commits later, or never.
		t.next++
		t.open[t.next] = row{key, state}
	case n == 1:
		for _, id := range slices.Sorted(maps.Keys(t.open))[:min(1, len(t.open))] {
			if _, _, _, there := w.find(t.open[id].key); !there {
				t.rows[id] = t.open[id]
			}
			delete(t.open, id)
		}
	case w.release || !there:
		t.next++
		t.rows[t.next] = row{key, state}
	case n < 5:
		// Moved, replaced, or changed in place.
		delete(w.tables[shard].rows, id)
		t.next++
		t.rows[t.next] = row{key, state}
	case n < 7:
		delete(w.tables[shard].rows, id)
	default:
		w.tables[shard].rows[id] = row{key, state}
	}
}

// destination is the TP of a message.
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

// deliver lets a request arrive.
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
		text := fmt.Sprint(m.shard, m.key, m.row, m.state, m.id)
		if had, ok := w.stamps[m.stamp]; ok && had != text {
			w.fault("two messages have the stamp %v", m.stamp)
		}
		w.stamps[m.stamp] = text
		t.seen[m.busID] = len(t.log)
		r.offsets = append(r.offsets, len(t.log))
		t.log = append(t.log, m)
	}
}

// fold is what a consumer makes of an entity: the last message of each TP, of these the one with
// the highest stamp. ends bounds what it reads.
func (w *world) fold(ends func(tp int) int) map[int]message {
	all := map[int]message{}
	for tp, t := range w.bus {
		last := map[int]message{}
		for _, m := range t.log[:min(ends(tp), len(t.log))] {
			if m.ours {
				last[m.key] = m
			}
		}
		for key, m := range last {
			if a, ok := all[key]; !ok || a.stamp.before(m.stamp) {
				all[key] = m
			}
		}
	}
	return all
}

func (w *world) foldAll() map[int]message {
	return w.fold(func(tp int) int { return len(w.bus[tp].log) })
}

// harm is something that befalls the bus or a process.
func (w *world) harm() {
	tp := w.rng.IntN(len(w.bus))
	t := w.bus[tp]
	switch n := w.rng.IntN(10 + w.rough); {
	case n < 3:
		// Somebody else publishes to the same TP.
		w.foreign++
		t.log = append(t.log, message{row: uint64(w.foreign)})
	case n < 6 && len(w.running) > 0:
		w.kill(w.running[w.rng.IntN(len(w.running))])
	case w.release && w.rough == 0 && n == 9:
		t.first += w.rng.IntN(len(t.log) - t.first + 1)
	case n == 6 && len(w.running) == 1 && len(w.stores) > 0:
		// A copy of the store is started beside the running process.
		w.start(w.copyOfStore())
	case n >= 9 && len(w.running) == 0 && len(t.log) > 0:
		// The bus loses what it has acknowledged.
		w.lost = true
		t.log = t.log[:w.rng.IntN(len(t.log))]
		maps.DeleteFunc(t.seen, func(_ string, at int) bool { return at >= len(t.log) })
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
	// What is on its way may arrive late, or never.
	w.net = slices.DeleteFunc(w.net, func(r *request) bool { return r.by == p && w.rng.IntN(3) == 0 })
}

// copyOfStore returns a copy of a store as it was saved at some time, or nothing.
func (w *world) copyOfStore() *saved {
	if len(w.stores) == 0 || w.rng.IntN(5) == 0 {
		return nil
	}
	s := w.stores[w.rng.IntN(len(w.stores))]
	return &saved{s.epoch, s.img.clone()}
}
