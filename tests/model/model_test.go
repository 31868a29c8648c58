package model

import (
	"runtime/debug"
	"slices"
	"testing"

	"example.org/bridge/tests/testall"
)

// mutants break one rule each.
const (
	offsetTooHigh    = "an offset is saved beyond what was acknowledged"
	skipsOne         = "catch-up skips a message"
	epochUsedTwice   = "an epoch, and so a seq, is used twice"
	olderOverNewer   = "an older message is applied over a newer one"
	movedByShard     = "a moved entity is published by its shard"
	noDispute        = "a message that goes back in its TP is taken for the newest"
	healsUnderOldID  = "a repair has the id of the message that it repeats"
	seqByShard       = "seq is counted by shard"
	oneAnchor        = "what is acknowledged beyond a hole has no anchor"
	trustsPrefix     = "a TP that ends early is taken for a beginning of the one before"
	ignoresLow       = "a release stream forgets what has expired"
	noDoubt          = "a shard goes on after a cancelled publish without catching up"
	pageIsKept       = "a page older than a nomination is used"
	answerIsKept     = "an answer older than a fact is used"
	ownTableAlone    = "absence is proved by the own table alone"
	dropClearsLate   = "an attempt that is dropped clears the list of late messages"
	waitingForgets   = "facts of the tail are forgotten while a process waits"
	factMoves        = "a fact moves the position of an attempt that runs"
	passesInFlight   = "an offset passes a message in flight"
	formerGeneration = "a read of a former generation moves the position"
	agesInFlight     = "gaps age while a batch is in flight"
	quietIsNoFact    = "an answer older than a quiet move is used"
	releasesUnknown  = "a batch of unknown outcome releases its claims at once"
	failedStays      = "what was computed for a batch stays where the store does not take it"
)

// mutant is the one in force; runs are not parallel.
var mutant string

// run is one random life of a world. It returns what does not hold.
func run(seed uint64) []string {
	w := newWorld(seed)
	for range 40 + seed%120 {
		if w.step(); len(w.faults) > 0 {
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
	waits := w.rng.IntN(6) == 0
	if n := len(w.stores); n > 0 && w.rng.IntN(3) > 0 {
		s := *w.stores[n-1]
		w.start(&s, waits)
		return
	}
	w.start(w.copyOfStore(), waits)
}

func (p *process) step() {
	shard := p.w.rng.IntN(len(p.owners))
	switch p.w.rng.IntN(15) {
	case 0, 1, 2:
		p.poll(shard)
	case 3, 4, 5:
		p.acknowledge(shard)
	case 6:
		p.save()
	case 7, 8:
		tp := p.w.rng.IntN(len(p.w.bus))
		p.readTo(tp, len(p.w.bus[tp].log))
	case 9, 10:
		p.readNominated(shard)
	case 11:
		p.end(shard)
	case 12:
		p.reconcile()
	case 13:
		p.readAhead(shard)
	case 14:
		// Its turn: the one that worked is gone, or stands still.
		if p.epoch == 0 && (len(p.w.running) == 1 || p.w.rng.IntN(6) == 0) {
			p.work()
		}
	}
}

// finish lets all arrive that is on its way, has one process catch up, and compares the bus with
// the tables: first without what a reconcile has to find.
func (w *world) finish() {
	for _, p := range slices.Clone(w.running) {
		if p.over || len(w.running) > 1 || w.rng.IntN(2) == 0 {
			w.kill(p)
		}
	}
	for len(w.running) == 0 || w.running[0].epoch == 0 {
		if len(w.running) == 0 {
			w.restart()
		} else {
			w.running[0].work()
		}
	}
	p := w.running[0]
	w.drain(p)
	if p.over {
		return // A copy beside it was the younger one.
	}
	w.compare(" without a reconcile", func(key int) bool { return !w.dirty[key] && !w.mistake })
	if len(p.mem.late) > 0 || p.mem.due > 0 {
		w.fault("late are %v, due %d", p.mem.late, p.mem.due)
	}
	p.reconcile()
	w.drain(p)
	w.compare("", func(int) bool { return true })
	w.checkSince(p)
	w.checkCounts()
}

// drain lets all requests arrive and has a process do all that it has to do: until nothing has
// happened for longer than gaps are hot.
func (w *world) drain(p *process) {
	was, quiet := 0, 0
	for round := 0; round < 40 && quiet < hotPolls+3; round++ {
		for len(w.net) > 0 {
			w.deliver(w.net[0])
		}
		for shard := range p.owners {
			p.acknowledge(shard)
			p.readNominated(shard)
			p.poll(shard)
		}
		for tp, t := range w.bus {
			p.readTo(tp, len(t.log))
		}
		if p.mem.due > 0 {
			p.reconcile()
		}
		// A full disk takes a batch in any round.
		if now := p.done(); now == was && len(p.nominated) == 0 && p.mem.due == 0 && !w.full {
			quiet++
		} else {
			was, quiet = now, 0
		}
	}
}

// done is a sum that changes with all that a process does.
func (p *process) done() (sum int) {
	sum = int(p.seq)
	for _, n := range p.facts {
		sum += n
	}
	for _, s := range p.mem.progress {
		sum += 2*int(s.position) - len(s.missing)
	}
	for _, c := range p.mem.cover {
		sum += c.next
	}
	return sum
}

func (w *world) compare(when string, of func(key int) bool) {
	states := map[int]int{}
	for _, m := range w.ours() {
		states[m.key] = 0
	}
	for _, t := range w.tables {
		for _, r := range t.rows {
			states[r.key] = r.state
		}
	}
	for key, state := range states {
		if _, _, m := w.last(key); of(key) && m.state != state {
			w.fault("entity %d has the state %d, the bus says %d%s", key, state, m.state, when)
		}
	}
}

// checkCounts holds that what a message counts before it is there: so verify can name lost ones.
func (w *world) checkCounts() {
	if w.lost {
		return
	}
	type number struct {
		shard   int
		epoch   uint64
		term, n int
	}
	all, there := w.ours(), map[number]bool{}
	for _, m := range all {
		there[number{m.shard, m.stamp.epoch, m.count.term, m.count.acked + m.count.index}] = true
	}
	for _, m := range all {
		for n := range m.count.acked {
			if !there[number{m.shard, m.stamp.epoch, m.count.term, n}] {
				w.fault("message %d before %v of shard %d is not there", n, m.stamp, m.shard)
			}
		}
	}
}

// checkSince holds that what a person had published again was: each row of a release stream has a
// message that counts (rule 28). A bus that drops repeats may take it for one.
func (w *world) checkSince(p *process) {
	if !w.release || w.lost || w.dedup {
		return
	}
	all := w.ours()
	for shard, t := range w.tables {
		for id := range t.rows {
			counts := func(m message) bool {
				return m.shard == shard && m.row == id && m.stamp.epoch >= p.mem.progress[shard].since
			}
			if !slices.ContainsFunc(all, counts) {
				w.fault("row %d of %d is not published since %d", id, shard, p.mem.progress[shard].since)
			}
		}
	}
}

// Lives leave much behind and take little memory.
func init() { debug.SetGCPercent(1000) }

// holds runs lives, and fails the test for one in which not all holds.
func holds(t *testing.T, lives int, run func(seed uint64) []string) {
	t.Helper()
	for seed := range uint64(lives) {
		if faults := run(seed); len(faults) > 0 {
			t.Fatalf("seed %d: %v", seed, faults)
		}
	}
}

// TestRulesHold runs random lives: 100,000 in `make test-all`.
func TestRulesHold(t *testing.T) { holds(t, testall.Cases(4000, 100_000), run) }

// found searches lives for a mutant, and begins shortly before a seed that is known to find it.
func found(t *testing.T, name string, from uint64, run func(seed uint64) []string) {
	t.Helper()
	defer func() { mutant = "" }()
	mutant = name
	for seed := from; seed < from+20_000; seed++ {
		if faults := run(seed); len(faults) > 0 {
			t.Logf("seed %d: %s", seed, faults[0])
			return
		}
	}
	t.Error("not found")
}

func TestMutantsAreFound(t *testing.T) {
	for _, m := range []struct {
		name string
		from uint64
	}{
		{offsetTooHigh, 0}, {skipsOne, 0}, {epochUsedTwice, 0}, {olderOverNewer, 0}, {movedByShard, 0}, {noDispute, 6800},
		{healsUnderOldID, 15200}, {seqByShard, 0}, {oneAnchor, 11200}, {trustsPrefix, 2200}, {ignoresLow, 0}, {noDoubt, 0},
		{pageIsKept, 11100}, {answerIsKept, 6000}, {ownTableAlone, 0}, {dropClearsLate, 5100}, {waitingForgets, 0}, {factMoves, 600},
		{passesInFlight, 0}, {formerGeneration, 27700}, {agesInFlight, 500}, {releasesUnknown, 29300}, {quietIsNoFact, 61700},
		{failedStays, 5700},
	} {
		t.Run(m.name, func(t *testing.T) { found(t, m.name, m.from, run) })
	}
}
