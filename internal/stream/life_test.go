package stream_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"example.org/bridge/checkpoint/store/storetest/memory"
	"example.org/bridge/sink"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testall"
)

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 5)) }

func newStore() *memory.Store { return memory.New() }

type tpOfLife struct {
	log []message
	// first is the offset of the first message that has not expired.
	first int
}

// world is a release shard that is published by an honest process, and its bus.
type world struct {
	*rand.Rand
	bus [3]tpOfLife
	// harm is what happens to the bus: nothing, messages expire, or acknowledged ones are lost.
	harm int
	// position and top are how far the process has published, and ids were handed out; open are
	// those below the position that are not committed.
	position, top   uint64
	published, open map[uint64]bool
	floor, since    uint64
	epoch, seq      uint64
	over            bool
	saved, now      consumer
	s               *shard
	t               *testing.T
	faults          []string
}

// consumer is what catch-up has read, beside its progress.
type consumer struct {
	p    *plain
	next [3]int
	late bool
}

func (c consumer) clone() consumer { c.p = c.p.clone(); return c }

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{Rand: newRand(seed), t: t, published: map[uint64]bool{}, open: map[uint64]bool{}, epoch: 10}
	w.harm = w.IntN(3)
	if w.IntN(2) == 0 {
		// START.
		w.floor = w.Uint64N(30)
		w.position, w.top = w.floor, w.floor
	}
	w.lose()
	return w
}

// lose has catch-up begin without a store.
func (w *world) lose() {
	w.s = newShard(w.t, newStore())
	w.now = consumer{p: newPlain()}
	w.saved = w.now.clone()
}

// low is the id below which all is published.
func (w *world) low() uint64 {
	low := w.floor + 1
	for low <= w.position && w.published[low] {
		low++
	}
	return low
}

func (w *world) send(origin sink.Origin, rows ...uint64) {
	low := w.low()
	for _, row := range rows {
		w.seq++
		m := message{row, origin, sink.State{Epoch: w.epoch, Seq: w.seq, Floor: w.floor, Since: w.since, Low: low}}
		t := &w.bus[row%3]
		t.log = append(t.log, m)
	}
	for _, row := range rows {
		w.published[row] = true
		delete(w.open, row)
	}
}

func (w *world) publish() {
	switch n := w.IntN(10); {
	case n < 5:
		var rows []uint64
		for range 1 + w.IntN(8) {
			w.position++
			switch {
			case w.published[w.position]:
			case w.IntN(5) == 0:
				w.open[w.position] = true
			default:
				rows = append(rows, w.position)
			}
		}
		w.top = max(w.top, w.position)
		w.send(sink.FromTail, rows...)
	case n < 8:
		for id := w.floor + 1; id <= w.position; id++ {
			if w.open[id] && w.IntN(2) == 0 {
				w.send(sink.FromLate, id)
			}
		}
	case n < 9:
		if row := w.position + 1 + w.Uint64N(20); !w.published[row] {
			w.top = max(w.top, row)
			w.send(sink.FromReconcile, row)
		}
	default:
		w.epoch++
	}
}

func (w *world) set() {
	id := w.Uint64N(w.top + 5)
	w.epoch++
	w.since = w.epoch
	switch {
	case id > w.position:
		w.floor = id
	default:
		w.floor = min(w.floor, id)
	}
	w.position, w.top = id, max(w.top, id)
	for row := range w.published {
		if row > id {
			delete(w.published, row)
		}
	}
	clear(w.open)
}

// harmBus has messages expire, or ends the life of the process with the loss of what was
// acknowledged.
func (w *world) harmBus() {
	t := &w.bus[w.IntN(3)]
	switch w.harm {
	case 1:
		t.first += w.IntN(len(t.log) - t.first + 1)
	case 2:
		if n := w.IntN(len(t.log) + 1); w.IntN(4) == 0 && n < len(t.log) {
			t.log, w.over = t.log[:n], true
			clear(w.published)
			for _, t := range w.bus {
				for _, m := range t.log {
					w.published[m.row] = true
				}
			}
			// Rule 21: a release stream reads all again.
			w.lose()
		}
	}
}

func (w *world) read(i, most int) {
	t, c := &w.bus[i], &w.now
	if c.next[i] < t.first {
		c.next[i], c.late = t.first, true
		w.s.p.TrustLow()
	}
	for ; c.next[i] < len(t.log) && most > 0; most-- {
		m := t.log[c.next[i]]
		c.next[i]++
		c.p.note(m)
		w.s.p.Note(m.row, m.origin, &m.state)
	}
	change := must.Get(w.s.p.Flush(base))(w.t)
	c.p.flush(c.late)
	c.p.compare(w.t, w.s)
	if w.IntN(6) == 0 {
		// A kill before it was applied.
		w.kill()
		return
	}
	w.s.apply(w.t, change)
	w.saved = w.now.clone()
}

func (w *world) kill() {
	w.s.reopen(w.t)
	w.now = w.saved.clone()
	w.now.p.skip = 0
	if w.now.late {
		w.s.p.TrustLow()
	}
}

func (w *world) step() {
	switch n := w.IntN(20); {
	case n < 9 && !w.over:
		w.publish()
	case n < 10 && !w.over && w.harm != 2 && w.IntN(3) == 0:
		w.set()
	case n < 11:
		w.harmBus()
	case n < 12:
		w.kill()
	case n < 13 && w.IntN(3) == 0:
		w.lose()
	case n < 19:
		w.read(w.IntN(3), 1+w.IntN(20))
	}
}

// finish reads all, and holds the progress against what the process has published.
func (w *world) finish() {
	for i := range w.bus {
		for w.now.next[i] < len(w.bus[i].log) {
			w.read(i, 1000)
		}
	}
	w.read(0, 1)
	if !w.s.p.State().Started || w.since != w.now.p.since {
		// Nothing of the shard is on the bus, since the command at least.
		return
	}
	missing := map[uint64]bool{}
	for _, id := range w.s.missing() {
		missing[id] = true
	}
	position := w.s.p.Position()
	// Without harm the position is that of the process, but for what it has passed over since.
	if position > max(w.position, w.floor) {
		w.fault("the position is %d, that of the process %d", position, w.position)
	}
	for id := uint64(1); id <= w.top+10; id++ {
		known := !missing[id] && (id <= position || w.s.p.Ahead(id))
		switch {
		case id <= w.floor:
			if !known {
				w.fault("row %d would be published, the floor is %d", id, w.floor)
			}
		case !w.published[id] && known:
			w.fault("row %d would not be published", id)
		case w.published[id] && !known && w.harm != 1 && w.since == 0:
			w.fault("row %d would be published again", id)
		case w.published[id] && !known && id < w.s.p.State().Low && (w.now.late || w.since > 0):
			w.fault("row %d would be published again, the low is %d", id, w.s.p.State().Low)
		}
	}
}

func (w *world) fault(format string, args ...any) {
	w.faults = append(w.faults, fmt.Sprintf(format, args...))
}

// live is one random life. It returns what does not hold.
func live(t *testing.T, seed uint64) []string {
	w := newWorld(t, seed)
	for range 60 + seed%100 {
		w.step()
	}
	w.finish()
	return w.faults
}

// TestLives compares the progress with maps at each step, through kills and lost stores, and at the
// end with what the process has published.
func TestLives(t *testing.T) {
	for seed := range testall.Cases[uint64](2000, 10_000) {
		if faults := live(t, seed); len(faults) > 0 || t.Failed() {
			t.Fatalf("seed %d: %v", seed, faults)
		}
	}
}
