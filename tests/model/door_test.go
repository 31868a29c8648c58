package model

import (
	"maps"
	"slices"
)

type process struct {
	w *world
	// epoch is 0 until the process has caught up; waits says that it waits for its turn before.
	epoch uint64
	waits bool
	seq   uint64
	store *saved
	// mem is what was applied to the store: a kill leaves a former state of it.
	mem    *image
	owners []owner
	// beyond are the offsets that are covered and lie behind a hole.
	beyond []map[int]bool
	// nominated has the shard whose owner is to read an entity, facts counts its facts and quiet
	// moves.
	nominated, facts map[int]int
	// scanned is what was due when a reconcile began last.
	scanned int
	fences  []int
	// The checks alone use cut, the messages of attempts that ended, cancelled, the ends of the TPs
	// when an attempt of a shard ended last, and decided, when the row that an entity was published
	// of last was read.
	cut       []message
	cancelled map[[2]int]int
	decided   map[int]int
	over      bool
}

// start opens a store, or makes one. Unless the process waits for its turn it begins to work.
func (w *world) start(s *saved, waits bool) {
	if s == nil {
		s = &saved{img: newImage(len(w.tables), len(w.bus))}
		s.img.forget(w.bus)
	}
	p := &process{w: w, store: s, mem: s.img.clone(), waits: waits, owners: make([]owner, len(w.tables)), nominated: map[int]int{},
		facts: map[int]int{}, fences: make([]int, len(w.bus)), cancelled: map[[2]int]int{}, decided: map[int]int{}}
	intact := true
	for tp, t := range w.bus {
		p.beyond = append(p.beyond, map[int]bool{})
		intact = p.mem.check(tp, t) && intact
	}
	if !intact && w.release {
		p.mem.forget(w.bus)
	}
	w.running = append(w.running, p)
	if !waits {
		p.work()
	}
}

// work catches up, takes an epoch and nominates what the list of late messages names. The process
// may be killed on the way.
func (p *process) work() {
	for _, tp := range p.w.rng.Perm(len(p.w.bus)) {
		p.readTo(tp, len(p.w.bus[tp].log))
		p.save()
		if p.w.rng.IntN(12) == 0 {
			p.w.kill(p)
			return
		}
	}
	if p.waits {
		// Rule 7: nothing tells that a message is late if the former process has decided its
		// entity, published nothing and died.
		p.mem.due++
	}
	p.w.clock++
	p.epoch = p.w.clock
	for _, c := range p.mem.cover {
		p.epoch = max(p.epoch, p.store.epoch+1, c.epoch+1)
	}
	if mutant == epochUsedTwice {
		p.epoch = p.store.epoch + 1
	}
	// Rule 1: synced before the first publish, with all that was applied before.
	p.store.epoch = p.epoch
	p.save()
	for _, key := range slices.Sorted(maps.Keys(p.mem.late)) {
		p.nominate(key, p.mem.view[key].shard)
	}
}

// nominate has the owner of a shard read an entity and publish what is true. It is the one way to
// read one again: late messages, rows that meet another entry, reconcile.
func (p *process) nominate(key, shard int) { p.nominated[key] = shard }

// span is what was read or acknowledged of a TP.
type span struct{ tp, from, to int }

// apply is the one door: facts come in here, acknowledged or read back, with the offsets that they
// cover and, of a batch, what its owner has read. All of it is one batch of the store.
func (p *process) apply(facts []fact, r *read, spans ...span) {
	for _, f := range facts {
		apply(p.mem.view, f)
		p.facts[f.key]++
		c := &p.mem.cover[f.tp]
		if c.epoch = max(c.epoch, f.stamp.epoch); f.offset >= c.high {
			c.high, c.top = f.offset+1, f.message
		}
		if mutant != waitingForgets || p.epoch > 0 || !p.waits || !f.tail {
			p.mem.progress[f.shard].fact(f.message)
		}
		// Rule 7. The offset passes at once: the name, or that a reconcile is due, is in the batch.
		switch {
		case !f.late || p.w.release:
		case p.mem.late[f.key] || len(p.mem.late) < lateBound:
			p.mem.late[f.key] = true
			p.nominate(f.key, f.shard)
		default:
			p.mem.due++
		}
	}
	if r != nil {
		p.applyRead(r)
	}
	for shard := range p.mem.progress {
		// Rule 15: a fact moves no position while an attempt runs.
		if !p.owners[shard].attempt || mutant == factMoves {
			s := &p.mem.progress[shard]
			s.advance(s.position, max(s.position, s.tail))
		}
	}
	for _, s := range spans {
		// Rule 4: an offset advances over what was read or acknowledged without a hole.
		c, beyond := &p.mem.cover[s.tp], p.beyond[s.tp]
		for at := max(s.from, c.next); at < s.to; at++ {
			beyond[at] = true
		}
		for ; beyond[c.next]; c.next++ {
			delete(beyond, c.next)
			c.anchor = p.w.bus[s.tp].log[c.next]
		}
	}
	p.endReconcile()
}

func (p *process) applyRead(r *read) {
	s := &p.mem.progress[r.shard]
	if s.since != r.generation && mutant != formerGeneration {
		// A fact has begun another generation: of the batch its facts alone count.
		for _, key := range r.names {
			p.nominate(key, r.shard)
		}
		p.end(r.shard)
		return
	}
	s.read(r)
	for key, e := range r.quiet {
		if mutant != quietIsNoFact {
			p.facts[key]++
		}
		if now := p.mem.view[key]; now.stamp == e.stamp && now.offset == e.offset {
			p.mem.view[key] = e
		}
	}
	for _, key := range r.names {
		delete(p.mem.late, key)
	}
}

// readTo reads a TP up to end and brings its facts. It stops before a message of its own that is in
// flight: its acknowledgement brings that.
func (p *process) readTo(tp, end int) {
	c, log := &p.mem.cover[tp], p.w.bus[tp].log
	if first := min(p.w.bus[tp].first, end); c.next < first {
		c.next, c.expired = first, true
	}
	facts, epoch, to := []fact(nil), max(c.epoch, p.store.epoch), c.next
	for ; to < end; to++ {
		m := log[to]
		if !m.ours || p.beyond[tp][to] {
			continue
		}
		if slices.ContainsFunc(p.owners, func(o owner) bool { return o.flying.has(m) }) {
			if mutant == passesInFlight {
				continue
			}
			break
		}
		if p.epoch > 0 && m.stamp.epoch > p.epoch {
			p.over = true // Rule 8.
			break
		}
		if mutant == skipsOne && p.w.rng.IntN(4) == 0 {
			continue
		}
		// Rule 7. Nothing was decided behind a message whose entity is claimed still.
		late := p.epoch > 0 && !slices.ContainsFunc(p.owners, func(o owner) bool { return o.unknown.has(m) })
		facts = append(facts, fact{m, tp, to, late || m.stamp.epoch < epoch})
		epoch = max(epoch, m.stamp.epoch)
	}
	p.apply(facts, nil, span{tp, c.next, to})
}

// reconcile nominates every entity that the view has otherwise than the tables.
func (p *process) reconcile() {
	p.scanned = p.mem.due
	for key := range p.w.keys {
		e, known := p.mem.view[key]
		shard, id, r, there := p.w.find(key)
		if there != (known && e.state != 0) || there && (e.state != r.state || e.shard != shard || e.row != id) || e.disputed {
			if !there {
				shard = e.shard
			}
			p.nominate(key, shard)
		}
	}
}

// endReconcile ends a reconcile once all that is nominated is decided and stored.
func (p *process) endReconcile() {
	if p.epoch > 0 && p.mem.due == p.scanned && len(p.nominated) == 0 &&
		!slices.ContainsFunc(p.owners, func(o owner) bool { return o.flying != nil && len(o.flying.read.names) > 0 }) {
		p.mem.due, p.scanned = 0, -1
	}
}

func (p *process) save() {
	p.store.img = p.mem.clone()
	if mutant == offsetTooHigh {
		for tp, t := range p.w.bus {
			if n := len(t.log); n > p.store.img.cover[tp].next {
				p.store.img.cover[tp].next, p.store.img.cover[tp].anchor = n, t.log[n-1]
			}
		}
	}
	p.w.stores = append(p.w.stores, &saved{p.store.epoch, p.store.img})
}
