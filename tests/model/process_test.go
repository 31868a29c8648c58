package model

import (
	"fmt"
	"maps"
	"slices"
)

// batch is what a shard has at the bus.
type batch struct {
	shard    int
	requests []*request
	// through and rows are the position behind it and the rows that it takes care of.
	through uint64
	rows    []uint64
	// quiet are entries that change without a message.
	quiet map[int]entry
	keys  map[int]bool
	// messages counts them.
	messages int
}

type shardTP struct{ shard, tp int }

// process is one run of the program.
type process struct {
	w     *world
	epoch uint64
	seq   uint64
	store *saved
	mem   *image
	// flying has the batch of each shard, nil where it is idle; doubt the ends that it has to catch
	// up with before it goes on.
	flying []*batch
	doubt  [][]int
	// own are the offsets that this process got acknowledged and that are not covered yet.
	own       []map[int]bool
	nominated map[int]bool
	fences    []int
	counts    []count
	// cancelled are the ends of the TPs when a publish of a shard was cancelled last.
	cancelled map[shardTP]int
	over      bool
}

// start opens a store, or makes one, catches up and takes its epoch. nil: killed on the way.
func (w *world) start(s *saved) *process {
	lost := s == nil
	if lost {
		s = &saved{}
		s.img = newImage(len(w.tables), len(w.bus))
		s.img.forget(w.bus)
	}
	p := &process{w: w, store: s, mem: s.img.clone(), nominated: map[int]bool{}, fences: make([]int, len(w.bus)),
		cancelled: map[shardTP]int{}, counts: make([]count, len(w.tables)), flying: make([]*batch, len(w.tables)), doubt: make([][]int, len(w.tables))}
	for range w.bus {
		p.own = append(p.own, map[int]bool{})
	}
	met := s.epoch
	intact := true
	for tp, t := range w.bus {
		intact = p.mem.check(tp, t) && intact
	}
	if !intact && w.release {
		p.mem.forget(w.bus)
	}
	for _, tp := range w.rng.Perm(len(w.bus)) {
		met = max(met, p.readTo(tp, len(w.bus[tp].log), s.epoch))
		p.save()
		if w.rng.IntN(12) == 0 {
			return nil
		}
	}
	p.advance()
	w.clock++
	p.epoch = max(met+1, w.clock)
	if mutant == epochUsedTwice {
		p.epoch = s.epoch + 1
	}
	// Rule 1: synced before the first publish.
	s.epoch = p.epoch
	w.running = append(w.running, p)
	return p
}

// advance is rule 15: the position follows the rows that tails have published.
func (p *process) advance() {
	for i := range p.mem.progress {
		if s := &p.mem.progress[i]; p.flying[i] == nil {
			s.advance(max(s.position, s.tail), nil)
			p.trustLow(s)
		}
	}
}

// trustLow applies rule 27 where a TP began late, also with a low that is met afterwards.
func (p *process) trustLow(s *progress) {
	if slices.ContainsFunc(p.mem.cover, func(c coverage) bool { return c.late }) && mutant != ignoresLow {
		s.trustLow()
	}
}

// readTo reads a TP up to end, and applies what is not its own. It stops at a message of its own
// that is not acknowledged yet, and returns the highest epoch met.
func (p *process) readTo(tp, end int, expected uint64) (met uint64) {
	c, log := &p.mem.cover[tp], p.w.bus[tp].log
	skipped := false
	if first := min(p.w.bus[tp].first, end); c.next < first {
		c.next, c.late = first, true
	}
	for ; c.next < end; c.next++ {
		m := log[c.next]
		switch {
		case p.own[tp][c.next]:
			delete(p.own[tp], c.next)
		case !m.ours:
		case p.epoch > 0 && p.unanswered(m):
			return met
		case p.epoch > 0 && m.stamp.epoch > p.epoch:
			// Rule 8.
			p.over = true
			return met
		case mutant == skipsOne && !skipped && p.w.rng.IntN(4) == 0:
			skipped = true
		default:
			apply(p.mem.view, m, tp, c.next)
			p.mem.progress[m.shard].note(m)
			// Rule 7.
			if p.epoch > 0 || m.stamp.epoch < max(c.epoch, expected) {
				p.nominated[m.key] = true
			}
		}
		if m.ours {
			met, c.epoch = max(met, m.stamp.epoch), max(c.epoch, m.stamp.epoch)
		}
		c.anchor = m
	}
	return met
}

func (p *process) unanswered(m message) bool {
	return slices.ContainsFunc(p.flying, func(b *batch) bool {
		return b != nil && slices.ContainsFunc(b.requests, func(r *request) bool {
			return slices.ContainsFunc(r.messages, func(o message) bool { return o.stamp == m.stamp })
		})
	})
}

// poll is one look of a shard at its table: its page, and the late rows.
func (p *process) poll(shard int) {
	if !p.ready(shard) {
		return
	}
	s, t := &p.mem.progress[shard], p.w.tables[shard]
	b := p.newBatch(shard)
	n := 0
	for _, id := range slices.Sorted(maps.Keys(t.rows)) {
		late := id <= s.position
		if late && !s.missing[id] || n == 3 || s.ahead[id] && !late {
			continue
		}
		n++
		if p.decide(b, shard, id, t.rows[id], !late) {
			b.rows = append(b.rows, id)
		}
		if !late {
			b.through = id
		}
	}
	p.send(b)
}

func (p *process) newBatch(shard int) *batch {
	return &batch{shard: shard, through: p.mem.progress[shard].position, quiet: map[int]entry{}, keys: map[int]bool{}}
}

// ready reports whether a shard may make its next batch: rule 9.
func (p *process) ready(shard int) bool {
	if p.flying[shard] != nil || p.over {
		return false
	}
	for tp, end := range p.doubt[shard] {
		if p.readTo(tp, end, 0); p.mem.cover[tp].next < end {
			return false
		}
	}
	if p.doubt[shard] != nil {
		p.doubt[shard] = nil
		p.advance()
	}
	p.trustLow(&p.mem.progress[shard])
	return !p.over
}

// decide appends what a row says, and reports whether the batch takes care of the row.
func (p *process) decide(b *batch, shard int, id uint64, r row, tail bool) bool {
	if p.w.release {
		p.add(b, message{shard: shard, key: r.key, row: id, state: r.state, tail: tail})
		return true
	}
	e, known := p.mem.view[r.key]
	foreign := known && e.state != 0 && e.shard != shard
	older := known && e.shard == shard && id < e.row
	if p.claimed(r.key) || b.keys[r.key] || (foreign || older) && mutant != movedByShard {
		// The row stays missing until its entity was decided.
		p.nominated[r.key] = true
		return false
	}
	p.publish(b, r.key, shard, id, r.state, tail)
	return true
}

// claimed reports whether something of an entity is at the bus.
func (p *process) claimed(key int) bool {
	return mutant != movedByShard && slices.ContainsFunc(p.flying, func(b *batch) bool { return b != nil && b.keys[key] })
}

// resolve reads an entity in all tables and publishes what is true.
func (p *process) resolve(key int) {
	e, known := p.mem.view[key]
	shard, id, r, there := p.w.find(key)
	if mutant == movedByShard && known && shard != e.shard {
		there = false
	}
	if !there {
		shard, id, r = e.shard, e.row, row{key: key}
	}
	if !p.ready(shard) || p.claimed(key) {
		return
	}
	delete(p.nominated, key)
	if p.w.release || !there && (!known || e.state == 0 && !e.disputed) {
		return
	}
	b := p.newBatch(shard)
	p.publish(b, key, shard, id, r.state, false)
	p.send(b)
}

func (p *process) publish(b *batch, key, shard int, id uint64, state int, tail bool) {
	e, known := p.mem.view[key]
	if known && e.state == state && !e.disputed {
		if e.row != id || e.shard != shard {
			e.row, e.shard = id, shard
			b.quiet[key] = e
			b.keys[key] = true
		}
		return
	}
	if state == 0 {
		if _, _, _, there := p.w.find(key); there {
			p.w.fault("a delete of entity %d, which lives", key)
		}
	}
	p.add(b, message{shard: shard, key: key, row: id, state: state, tail: tail})
}

// add stamps a message and puts it into the request for its TP.
func (p *process) add(b *batch, m message) {
	e, known := p.mem.view[m.key]
	p.seq++
	m.ours, m.stamp, m.count = true, stamp{p.epoch, p.seq}, p.counts[b.shard]
	m.count.index = b.messages
	m.low = p.mem.progress[b.shard].published()
	b.messages++
	if mutant == seqByShard {
		// Stamps of another shard do not compare.
		m.stamp.seq = p.seq*2 + uint64(m.shard)*1_000_000
	}
	m.id = fmt.Sprint(m.shard, m.key, m.row, m.state, e.id)
	m.busID = m.id
	if e.disputed && mutant != healsUnderOldID {
		m.busID += fmt.Sprint(m.stamp)
	}
	p.checkNews(m, e)
	b.keys[m.key] = true
	tp := p.w.destination(m, !known || e.state == 0)
	for _, r := range b.requests {
		if r.tp == tp {
			r.messages = append(r.messages, m)
			return
		}
	}
	b.requests = append(b.requests, &request{by: p, tp: tp, fence: p.fences[tp], messages: []message{m}})
}

// checkNews holds that nothing is announced that the bus was read to say, or that it said when a
// publish of this process was cancelled.
func (p *process) checkNews(m message, e entry) {
	now := p.w.foldAll()[m.key]
	for tp, t := range p.w.bus {
		for at, o := range t.log {
			if at < t.first && m.row > p.mem.progress[m.shard].low {
				continue
			}
			known := at < p.mem.cover[tp].next || at < p.cancelled[shardTP{m.shard, tp}] && o.stamp.epoch == p.epoch
			if known && o.ours && o.stamp == now.stamp && o.state == m.state && o.row == m.row && o.shard == m.shard && !e.disputed {
				p.w.fault("row %d of %d is published again", m.row, m.shard)
			}
		}
	}
}

func (p *process) send(b *batch) {
	p.flying[b.shard] = b
	p.w.net = append(p.w.net, b.requests...)
	if len(b.requests) == 0 {
		p.acknowledge(b.shard)
	}
}

// acknowledge applies a batch whose requests have all arrived.
func (p *process) acknowledge(shard int) {
	b := p.flying[shard]
	if b == nil || p.over || slices.ContainsFunc(b.requests, func(r *request) bool { return !r.arrived }) {
		return
	}
	if p.resend(b) {
		return
	}
	p.flying[shard] = nil
	for key, e := range b.quiet {
		if now := p.mem.view[key]; now.stamp == e.stamp && now.offset == e.offset {
			p.mem.view[key] = e
		}
	}
	p.counts[shard].acked += b.messages
	for _, r := range b.requests {
		for i, at := range r.offsets {
			m := p.w.bus[r.tp].log[at]
			apply(p.mem.view, m, r.tp, at)
			p.mem.progress[m.shard].note(m)
			if at >= p.mem.cover[r.tp].next && m.stamp == r.messages[i].stamp {
				p.own[r.tp][at] = true
			}
			if c := &p.mem.cover[r.tp]; at >= c.high {
				c.high, c.top = at+1, m
			}
			if m.stamp != r.messages[i].stamp {
				p.counts[shard] = count{term: p.counts[shard].term + 1}
			}
		}
	}
	p.mem.progress[shard].advance(max(b.through, p.mem.progress[shard].position), b.rows)
	p.cover()
}

// resend is rule 23: a repeat that the bus dropped counts as stored only where the message that is
// there is the entity's last one. Else it is sent under an id of its own.
func (p *process) resend(b *batch) bool {
	for _, r := range b.requests {
		again := false
		for i, at := range r.offsets {
			m, there := &r.messages[i], p.w.bus[r.tp].log[at]
			if there.stamp == m.stamp || p.w.release || mutant == healsUnderOldID {
				continue
			}
			view := map[int]entry{}
			if e, known := p.mem.view[m.key]; known {
				view[m.key] = e
			}
			apply(view, there, r.tp, at)
			if e := view[m.key]; e.tp != r.tp || e.offset != at || e.disputed {
				m.busID += fmt.Sprint(m.stamp)
				again = true
			}
		}
		if again {
			r.arrived, r.offsets = false, nil
			p.w.net = append(p.w.net, r)
			return true
		}
	}
	return false
}

// cover is rule 4: offsets advance over what was acknowledged without a hole.
func (p *process) cover() {
	for tp := range p.own {
		c := &p.mem.cover[tp]
		for ; p.own[tp][c.next]; c.next++ {
			delete(p.own[tp], c.next)
			c.anchor, c.epoch = p.w.bus[tp].log[c.next], p.epoch
		}
	}
}

// cancel gives up a batch that is at the bus, and lives on.
func (p *process) cancel(shard int) {
	b := p.flying[shard]
	if b == nil || p.over {
		return
	}
	p.flying[shard] = nil
	p.counts[shard] = count{term: p.counts[shard].term + 1}
	for tp, t := range p.w.bus {
		p.doubt[shard] = append(p.doubt[shard], len(t.log))
		p.cancelled[shardTP{shard, tp}] = len(t.log)
	}
	if mutant == noDoubt {
		p.doubt[shard] = nil
	}
	for _, r := range b.requests {
		r.abandoned = true
		p.fences[r.tp]++
	}
}

// save commits what was acknowledged, of all shards.
func (p *process) save() {
	p.store.img = p.mem.clone()
	if mutant == offsetTooHigh {
		for tp, t := range p.w.bus {
			if n := len(t.log); n > p.store.img.cover[tp].next {
				p.store.img.cover[tp].next, p.store.img.cover[tp].anchor = n, t.log[n-1]
			}
		}
	}
	p.w.stores = append(p.w.stores, &saved{p.store.epoch, p.store.img.clone()})
}

// reconcile nominates every entity that the view has otherwise than the tables, and rows of a
// release stream that no tail will read.
func (p *process) reconcile() {
	for key := range p.w.keys {
		e, known := p.mem.view[key]
		shard, id, r, there := p.w.find(key)
		if there != (known && e.state != 0) || there && (e.state != r.state || e.shard != shard || e.row != id) || e.disputed {
			p.nominated[key] = true
		}
	}
}
