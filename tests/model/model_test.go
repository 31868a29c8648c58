package model

import (
	"maps"
	"slices"
	"testing"
)

// mutants break one rule each.
const (
	none            = ""
	offsetTooHigh   = "an offset is saved beyond what was acknowledged"
	skipsOne        = "catch-up skips a message"
	epochUsedTwice  = "an epoch, and so a seq, is used twice"
	olderOverNewer  = "an older message is applied over a newer one"
	movedByShard    = "a moved entity is published by its shard"
	noDispute       = "a message that goes back in its TP is taken for the newest"
	healsUnderOldID = "a repair has the id of the message that it repeats"
	seqByShard      = "seq is counted by shard"
	oneAnchor       = "what is acknowledged beyond a hole has no anchor"
	trustsPrefix    = "a TP that ends early is taken for a beginning of the one before"
	ignoresLow      = "a release stream forgets what has expired"
	noDoubt         = "a shard goes on after a cancelled publish without catching up"
)

// mutant is the one in force; runs are not parallel.
var mutant = none

// run is one random life of a world. It returns what does not hold.
func run(seed uint64, steps int) []string {
	w := newWorld(seed)
	for range steps {
		w.step()
		if len(w.faults) > 0 {
			return w.faults
		}
	}
	w.finish()
	return w.faults
}

func (w *world) step() {
	if len(w.running) == 0 && w.rng.IntN(4) == 0 {
		w.restart()
	}
	switch n := w.rng.IntN(20); {
	case n < 4:
		w.write()
	case n < 6:
		w.harm()
	case n < 9 && len(w.net) > 0:
		w.deliver(w.net[w.rng.IntN(len(w.net))])
	case len(w.running) > 0:
		w.running[w.rng.IntN(len(w.running))].step()
	}
}

// restart starts a process with the newest store, an older one, or none.
func (w *world) restart() {
	if n := len(w.stores); n > 0 && w.rng.IntN(3) > 0 {
		s := w.stores[n-1]
		w.start(&saved{s.epoch, s.img.clone()})
		return
	}
	w.start(w.copyOfStore())
}

func (p *process) step() {
	shard := p.w.rng.IntN(len(p.flying))
	switch p.w.rng.IntN(12) {
	case 0, 1, 2:
		p.poll(shard)
	case 3, 4, 5:
		p.acknowledge(shard)
	case 6:
		p.save()
	case 7:
		tp := p.w.rng.IntN(len(p.own))
		p.readTo(tp, len(p.w.bus[tp].log), 0)
	case 8:
		for _, key := range slices.Sorted(maps.Keys(p.nominated)) {
			p.resolve(key)
		}
	case 9:
		p.cancel(shard)
	case 10:
		p.reconcile()
	}
}

// finish lets all arrive that is on its way, has one process catch up and reconcile once, and
// compares the bus with the tables.
func (w *world) finish() {
	w.running = slices.DeleteFunc(w.running, func(p *process) bool { return p.over })
	for len(w.running) > 1 {
		w.kill(w.running[0])
	}
	if len(w.running) == 0 || w.rng.IntN(2) == 0 {
		for len(w.running) > 0 {
			w.kill(w.running[0])
		}
		for len(w.running) == 0 {
			w.restart()
		}
	}
	p := w.running[0]
	w.drain(p)
	p.reconcile()
	w.drain(p)
	if p.over {
		// A copy beside it was the younger one.
		return
	}
	fold := w.foldAll()
	for s, t := range w.tables {
		for id, r := range t.rows {
			if m, ok := fold[r.key]; !ok || m.state != r.state {
				w.fault("row %d of %d has the state %d, the bus says %d", id, s, r.state, m.state)
			}
		}
	}
	for key, m := range fold {
		if _, _, _, there := w.find(key); !there && m.state != 0 {
			w.fault("entity %d has no row, the bus says %d", key, m.state)
		}
	}
	w.checkCounts()
}

func (w *world) drain(p *process) {
	for range 40 {
		for len(w.net) > 0 {
			w.deliver(w.net[0])
		}
		for shard := range p.flying {
			p.acknowledge(shard)
			p.poll(shard)
		}
		for tp, t := range w.bus {
			p.readTo(tp, len(t.log), 0)
		}
		for _, key := range slices.Sorted(maps.Keys(p.nominated)) {
			p.resolve(key)
		}
	}
}

// checkCounts holds that what a message counts before it is there: so verify can name lost ones.
func (w *world) checkCounts() {
	type number struct {
		shard, term, n int
		epoch          uint64
	}
	there := map[number]bool{}
	each := func(f func(m message, of number)) {
		for _, t := range w.bus {
			for _, m := range t.log {
				if m.ours {
					f(m, number{m.shard, m.count.term, 0, m.stamp.epoch})
				}
			}
		}
	}
	each(func(m message, of number) {
		of.n = m.count.acked + m.count.index
		there[of] = true
	})
	each(func(m message, of number) {
		for of.n = range m.count.acked {
			if !there[of] && !w.lost {
				w.fault("message %v of shard %d is not there", of, m.shard)
			}
		}
	})
}

func TestRulesHold(t *testing.T) {
	for seed := range uint64(4000) {
		if faults := run(seed, steps(seed)); len(faults) > 0 {
			t.Fatalf("seed %d: %v", seed, faults)
		}
	}
}

func steps(seed uint64) int { return 40 + int(seed%120) }

// TestMutantsAreFound begins each search shortly before a seed that is known to find the mutant.
func TestMutantsAreFound(t *testing.T) {
	defer func() { mutant = none }()
	for _, m := range []struct {
		name string
		from uint64
	}{
		{offsetTooHigh, 0},
		{skipsOne, 0},
		{epochUsedTwice, 0},
		{olderOverNewer, 0},
		{movedByShard, 0},
		{noDispute, 4300},
		{healsUnderOldID, 4600},
		{seqByShard, 500},
		{oneAnchor, 4200},
		{trustsPrefix, 5600},
		{ignoresLow, 0},
		{noDoubt, 0},
	} {
		t.Run(m.name, func(t *testing.T) {
			mutant = m.name
			for seed := m.from; seed < m.from+20_000; seed++ {
				if faults := run(seed, steps(seed)); len(faults) > 0 {
					t.Logf("seed %d: %s", seed, faults[0])
					return
				}
			}
			t.Error("not found")
		})
	}
}
