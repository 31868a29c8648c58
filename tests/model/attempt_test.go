package model

import (
	"maps"
	"slices"
)

type owner struct {
	// attempt says that one runs. Of one that ended, unknown is the batch that was in flight, and
	// doubt has the ends of the TPs: they are read up to there before the next attempt begins.
	attempt bool
	unknown *batch
	doubt   []int
	// page is what was read ahead, answers what was read of nominated entities, flying the batch
	// between decision and store: there is one at a time.
	page    *page
	answers map[int]answer
	flying  *batch
	count   count
}

// page is what the table was behind an id, after so many commits: its next rows, by their ids.
type page struct {
	from uint64
	ids  []uint64
	rows [pageRows]row
	at   int
}

const pageRows = 3

// answer is what the tables had of an entity, after so many commits, when so many facts of it had
// come in. lives says that it had a row, for the checks alone.
type answer struct {
	shard        int
	id           uint64
	row          row
	there, lives bool
	at, facts    int
}

// batch is what a shard has at the bus, and what its owner has read.
type batch struct {
	read     *read
	requests []*request
	keys     map[int]bool
	stamps   map[stamp]bool
}

func (b *batch) has(m message) bool { return b != nil && b.stamps[m.stamp] }

func (p *process) newBatch(shard int) *batch {
	s := &p.mem.progress[shard]
	r := &read{shard: shard, generation: s.since, from: s.position, through: s.position, quiet: map[int]entry{}}
	return &batch{read: r, keys: map[int]bool{}, stamps: map[stamp]bool{}}
}

// ready reports whether a shard may decide its next batch, and begins an attempt where none runs.
// Behind an unknown outcome the bus is read first (rule 9).
func (p *process) ready(shard int) bool {
	o, s := &p.owners[shard], &p.mem.progress[shard]
	if p.epoch == 0 || p.over || o.flying != nil {
		return false
	}
	for tp, end := range o.doubt {
		if p.readTo(tp, end); p.mem.cover[tp].next < end {
			return false
		}
	}
	if o.doubt, o.unknown = nil, nil; !o.attempt {
		// Rule 15: facts of the tail may have come in while the former attempt ran.
		o.attempt, o.answers = true, map[int]answer{}
		s.advance(s.position, max(s.position, s.tail))
	}
	if mutant != ignoresLow && slices.ContainsFunc(p.mem.cover, func(c coverage) bool { return c.expired }) {
		s.trustLow()
	}
	return !p.over
}

func (p *process) readPage(shard int, from uint64) *page {
	rows := p.w.tables[shard].rows
	pg := &page{from: from, at: p.w.commits}
	for id := range rows {
		if id > from {
			pg.ids = append(pg.ids, id)
		}
	}
	slices.Sort(pg.ids)
	pg.ids = pg.ids[:min(len(pg.ids), pageRows)]
	for i, id := range pg.ids {
		pg.rows[i] = rows[id]
	}
	return pg
}

// readAhead reads the next page while a batch is in flight. It is decided when that is stored.
func (p *process) readAhead(shard int) {
	o := &p.owners[shard]
	if o.attempt && o.page == nil && o.flying != nil && !p.over {
		o.page = p.readPage(shard, o.flying.read.through)
	}
}

// readNominated reads what is nominated on a shard: its own table, and the others where that lacks
// it or the entity is of another shard. Like any query of the shard but the poll of the same batch
// it drops the page that was read before, or an older state would be decided behind a newer one.
func (p *process) readNominated(shard int) {
	o := &p.owners[shard]
	for _, key := range slices.Sorted(maps.Keys(p.nominated)) {
		if p.nominated[key] != shard || !o.attempt || p.over {
			continue
		}
		a := answer{at: p.w.commits, facts: p.facts[key]}
		a.shard, a.id, a.row, a.lives = p.w.find(key)
		a.there = a.lives && (a.shard == shard || mutant != ownTableAlone)
		if o.answers[key] = a; mutant != pageIsKept {
			o.page = nil
		}
	}
}

// poll decides the next batch of a shard: what was answered, the next page, and what has appeared
// at hot ids, in the order in which it was read.
func (p *process) poll(shard int) {
	if !p.ready(shard) {
		if b := p.owners[shard].flying; b != nil && mutant == agesInFlight {
			b.read.vacant = slices.AppendSeq(b.read.vacant, maps.Keys(p.mem.progress[shard].missing))
		}
		return
	}
	o, s, t, b := &p.owners[shard], &p.mem.progress[shard], p.w.tables[shard], p.newBatch(shard)
	answers := o.answers
	o.answers = map[int]answer{}
	for _, key := range slices.Sorted(maps.Keys(answers)) {
		p.decideNominated(b, key, answers[key])
	}
	if len(answers) > 0 && p.w.rng.IntN(2) == 0 {
		p.send(b) // Of nominated entities alone.
		return
	}
	pg := o.page
	if o.page = nil; pg == nil || pg.from != s.position {
		pg = p.readPage(shard, s.position)
	}
	for i, id := range pg.ids {
		if b.read.through = id; !s.ahead[id] && p.decide(b, id, pg.rows[i], pg.at, true) {
			b.read.rows = append(b.read.rows, id)
		}
	}
	t.polls++
	for _, id := range slices.Sorted(maps.Keys(s.missing)) {
		r, there := t.rows[id]
		switch {
		case s.missing[id] >= hotPolls:
		case there && p.decide(b, id, r, p.w.commits, false):
			b.read.rows = append(b.read.rows, id)
		case !there && t.open[id] != pending:
			b.read.vacant = append(b.read.vacant, id)
		}
	}
	p.send(b)
}

// decide appends what a row says, and reports whether the batch takes care of the row.
func (p *process) decide(b *batch, id uint64, r row, at int, tail bool) bool {
	shard := b.read.shard
	if p.w.release {
		p.add(b, message{shard: shard, key: r.key, row: id, state: r.state, tail: tail}, at)
		return true
	}
	e, known := p.mem.view[r.key]
	contested := known && (e.shard != shard || id < e.row) && mutant != movedByShard
	if p.claimed(r.key) || b.keys[r.key] || contested {
		p.nominate(r.key, shard) // The row stays missing (rule 26).
		return false
	}
	p.publish(b, r.key, id, r.state, at, tail)
	return true
}

// claimed reports whether something of an entity is at the bus, or may be: a batch of unknown
// outcome keeps its claims until the bus was read (rule 9).
func (p *process) claimed(key int) bool {
	return mutant != movedByShard && slices.ContainsFunc(p.owners, func(o owner) bool {
		return o.flying != nil && o.flying.keys[key] || o.unknown != nil && o.unknown.keys[key] && mutant != releasesUnknown
	})
}

// decideNominated decides an entity that was read by its key, unless a fact has come in since or
// another shard is to decide it: that of its row, or that of the entry where no table has it.
func (p *process) decideNominated(b *batch, key int, a answer) {
	e, known := p.mem.view[key]
	shard := b.read.shard
	if !a.there && known {
		a.shard = e.shard
	}
	switch {
	case p.nominated[key] != shard || p.claimed(key) || p.facts[key] != a.facts && mutant != answerIsKept:
		return
	case p.w.release:
	case a.shard != shard && (a.there || known):
		p.nominate(key, a.shard)
		return
	case a.there:
		p.publish(b, key, a.id, a.row.state, a.at, false)
	case known && (e.state != 0 || e.disputed):
		if a.lives {
			p.w.fault("a delete of entity %d, which lives", key)
		}
		p.publish(b, key, e.row, 0, a.at, false)
	}
	delete(p.nominated, key)
	b.read.names = append(b.read.names, key)
}

func (p *process) publish(b *batch, key int, id uint64, state, at int, tail bool) {
	e, known := p.mem.view[key]
	switch shard := b.read.shard; {
	case !known || e.state != state || e.disputed:
		p.add(b, message{shard: shard, key: key, row: id, state: state, tail: tail}, at)
	case e.row != id || e.shard != shard:
		e.row, e.shard = id, shard
		b.read.quiet[key], b.keys[key] = e, true
	}
}

// add stamps a message and puts it into the request for its TP. Its row was read at.
func (p *process) add(b *batch, m message, at int) {
	o, e := &p.owners[b.read.shard], p.mem.view[m.key]
	p.seq++
	m.ours, m.stamp, m.count = true, stamp{p.epoch, p.seq}, o.count
	m.count.index = len(b.stamps)
	m.low, m.since = p.mem.progress[m.shard].published(), p.mem.progress[m.shard].since
	if mutant == seqByShard {
		m.stamp.seq = p.seq*2 + uint64(m.shard)*1_000_000
	}
	m.id = digest(uint64(m.shard), uint64(m.key), m.row, uint64(m.state), e.id)
	m.busID = m.id
	if e.disputed && mutant != healsUnderOldID {
		m.busID = digest(m.busID, m.stamp.epoch, m.stamp.seq)
	}
	b.stamps[m.stamp] = true
	p.checkNews(m, e, at)
	b.keys[m.key] = true
	tp := p.w.destination(m, e.state == 0)
	for _, r := range b.requests {
		if r.tp == tp {
			r.messages = append(r.messages, m)
			return
		}
	}
	b.requests = append(b.requests, &request{by: p, tp: tp, fence: p.fences[tp], messages: []message{m}})
}

// checkNews holds that nothing is announced that the bus was read to say, or that it said when an
// attempt of the shard ended; and that events of an entity come in the order of their reads.
func (p *process) checkNews(m message, e entry, at int) {
	if at < p.decided[m.key] {
		p.w.fault("entity %d as of %d is published behind what was read at %d", m.key, at, p.decided[m.key])
	}
	p.decided[m.key] = at
	tp, offset, o := p.w.last(m.key)
	gone := offset < p.w.bus[tp].first && m.row > p.mem.progress[m.shard].low || o.since < m.since
	known := offset < p.mem.cover[tp].next || offset < p.cancelled[[2]int{m.shard, tp}] && o.stamp.epoch == p.epoch
	same := o.ours && o.state == m.state && o.row == m.row && o.shard == m.shard
	if known && !gone && same && !e.disputed {
		p.w.fault("row %d of %d is published again", m.row, m.shard)
	}
}

func (p *process) send(b *batch) {
	p.owners[b.read.shard].flying = b
	p.w.net = append(p.w.net, b.requests...)
	if len(b.requests) == 0 {
		p.acknowledge(b.read.shard)
	} else if slices.ContainsFunc(p.w.running, func(o *process) bool { return o != p && o.epoch > 0 }) {
		p.w.mistake = true
	}
}

// acknowledge brings the facts of a batch whose requests have all arrived, and its read.
func (p *process) acknowledge(shard int) {
	o := &p.owners[shard]
	b := o.flying
	if b == nil || p.over || slices.ContainsFunc(b.requests, func(r *request) bool { return !r.arrived }) || p.resend(b) {
		return
	}
	if p.w.full && p.w.rng.IntN(2) == 0 {
		// The store takes nothing: the same call is made again, or the attempt ends.
		if mutant == failedStays {
			p.mem.progress[shard].read(b.read)
		}
		return
	}
	o.flying = nil
	o.count.acked += len(b.stamps)
	var facts []fact
	var spans []span
	for _, r := range b.requests {
		for i, at := range r.offsets {
			m := p.w.bus[r.tp].log[at]
			facts = append(facts, fact{message: m, tp: r.tp, offset: at})
			if m.stamp == r.messages[i].stamp {
				spans = append(spans, span{r.tp, at, at + 1})
			} else {
				o.count = count{term: o.count.term + 1}
			}
		}
	}
	p.apply(facts, b.read, spans...)
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
			apply(view, fact{message: there, tp: r.tp, offset: at})
			if e := view[m.key]; e.tp != r.tp || e.offset != at || e.disputed {
				m.busID = digest(m.busID, m.stamp.epoch, m.stamp.seq)
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

// end ends the attempt of a shard: the source or the bus has failed. What it has read is dropped,
// and a batch in flight has an unknown outcome (rule 9).
func (p *process) end(shard int) {
	o := &p.owners[shard]
	b := o.flying
	o.attempt, o.page, o.answers, o.flying = false, nil, nil, nil
	if mutant == dropClearsLate {
		maps.DeleteFunc(p.nominated, func(_, of int) bool { return of == shard })
		clear(p.mem.late)
	}
	if b == nil || p.over {
		return
	}
	for _, key := range b.read.names {
		p.nominate(key, shard) // Its name stays in the list (rule 7).
	}
	o.count = count{term: o.count.term + 1}
	o.doubt = nil
	for tp, t := range p.w.bus {
		o.doubt = append(o.doubt, len(t.log))
		p.cancelled[[2]int{shard, tp}] = len(t.log)
	}
	if o.unknown = b; mutant == noDoubt {
		o.doubt, o.unknown = nil, nil
	}
	for _, r := range b.requests {
		r.abandoned = true
		p.fences[r.tp]++
		if p.cut = append(p.cut, r.messages...); !r.arrived {
			maps.DeleteFunc(p.decided, func(key, _ int) bool { return b.keys[key] })
		}
	}
	p.w.lose(p)
}
