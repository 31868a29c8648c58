package model

import (
	"maps"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/internal/stream"
	"example.org/bridge/sink"
)

// stamp is (epoch, seq). seq is counted by the process, so that stamps of all shards compare.
type stamp struct{ epoch, seq uint64 }

func (s stamp) before(o stamp) bool {
	return s.epoch < o.epoch || s.epoch == o.epoch && s.seq < o.seq
}

// count says which message of its shard one is: the bus has acknowledged so many before its batch,
// and it is the one with this index in the batch. A term ends with a doubt and with a repeat that
// the bus dropped: then the numbers begin again.
type count struct{ term, acked, index int }

// message is what catch-up reads of a message: its headers and its key.
type message struct {
	ours       bool
	shard, key int
	row        uint64
	// state is the digest, 0 for a deletion.
	state int
	tail  bool // The origin is the tail.
	stamp stamp
	// low is the row below which the shard had published all, since its generation.
	low, since uint64
	count      count
	// id is the event's id, busID that by which the bus drops repeats.
	id, busID uint64
}

// digest returns an id that is made of numbers. Others have another one, but for a chance of 2^-64.
func digest(of ...uint64) (id uint64) {
	for _, n := range of {
		id = (id ^ n ^ n>>29) * 0xbf58476d1ce4e5b9
		id = (id ^ id>>31) * 0x94d049bb133111eb
		id ^= id >> 29
	}
	return id
}

// fact is a message of ours that is on the bus, acknowledged or read back. late is that of rule 7.
type fact struct {
	message
	tp, offset int
	late       bool
}

// read is what an acknowledged batch brings besides its facts: what its owner has read.
type read struct {
	shard int
	// A read holds for one generation, and for the rows behind from up to through.
	generation, from, through uint64
	// rows were taken care of. vacant are hot ids that the poll found neither there nor pending.
	rows, vacant []uint64
	// quiet are entries that change without a message.
	quiet map[int]entry
	// names are the nominated entities that the batch has decided.
	names []int
}

type entry struct {
	shard, state int
	row          uint64
	id           uint64
	tp, offset   int
	stamp        stamp // The highest that was met.
	// disputed says that an older message lies behind a newer one: the next decision publishes.
	disputed bool
}

// apply is rule 6, as the program has it: stream.Apply decides.
func apply(view map[int]entry, f fact) {
	e, known := view[f.key]
	var was store.Entry
	if known && mutant != olderOverNewer {
		was = store.Entry{State: store.Live, At: at(e.tp, e.offset), Epoch: e.stamp.epoch, Seq: e.stamp.seq, Disputed: e.disputed}
	}
	next, applied := stream.Apply(was, &stream.Message{
		State: sink.State{Epoch: f.stamp.epoch, Seq: f.stamp.seq},
		At:    at(f.tp, f.offset),
	})
	if !applied {
		return
	}
	n := entry{shard: f.shard, state: f.state, row: f.row, id: f.id, tp: f.tp, offset: f.offset,
		stamp: stamp{next.Epoch, next.Seq}, disputed: next.Disputed}
	if mutant == noDispute {
		n.stamp, n.disputed = f.stamp, false
	}
	view[f.key] = n
}

// at returns where a message lies. The offset -1 is that before the first.
func at(tp, offset int) store.At {
	return store.At{TP: uint32(tp) + 1, Offset: uint64(offset)}
}

// hotPolls is for how many polls a vacant id is hot. A poll counts when it is in the store.
const hotPolls = 3

type progress struct {
	position uint64
	// missing are ids below the position that were not published, with the number of polls that
	// found each of them vacant. ahead are ids above the position that were published.
	missing map[uint64]int
	ahead   map[uint64]bool
	// tail is the highest row that a tail has published, low the highest low that was met.
	tail, low uint64
	// since is the generation: messages of epochs below it do not count (rule 28).
	since uint64
}

func newProgress(since uint64) progress {
	return progress{missing: map[uint64]int{}, ahead: map[uint64]bool{}, since: since}
}

// fact is rule 15 for one fact. It moves no position: advance does, where no attempt runs.
func (p *progress) fact(m message) {
	if m.since > p.since {
		*p = newProgress(m.since)
	}
	if m.stamp.epoch < p.since {
		return
	}
	if m.row > p.position {
		p.ahead[m.row] = true
	}
	delete(p.missing, m.row)
	if m.tail {
		p.tail = max(p.tail, m.row)
	}
	if m.since == p.since {
		// Not that of a process whose store does not know of the generation.
		p.low = max(p.low, m.low)
	}
}

// read moves the position over what the owner has read, and ages the gaps of its poll.
func (p *progress) read(r *read) {
	for _, id := range r.rows {
		if delete(p.missing, id); id > r.from {
			p.ahead[id] = true
		}
	}
	p.advance(r.from, r.through)
	for _, id := range r.vacant {
		if _, missing := p.missing[id]; missing {
			p.missing[id]++
		}
	}
}

// advance moves the position; what was not published on the way is missing.
func (p *progress) advance(from, through uint64) {
	for p.position = from; p.position < through; delete(p.ahead, p.position) {
		if p.position++; !p.ahead[p.position] {
			p.missing[p.position] = 0
		}
	}
}

// published returns the row below which all is published.
func (p *progress) published() uint64 {
	for id := uint64(1); id <= p.position; id++ {
		if _, missing := p.missing[id]; missing {
			return id - 1
		}
	}
	return p.position
}

// trustLow is rule 27: what has expired cannot tell its rows, but a later message can.
func (p *progress) trustLow() {
	for p.position < p.low {
		p.position++
		delete(p.ahead, p.position)
	}
	for id := range p.missing {
		if id <= p.low {
			delete(p.missing, id)
		}
	}
}

type coverage struct {
	// next is the offset that was not covered yet, anchor the message before it, ours or not. high
	// is the offset behind the highest fact, top the message there: it may lie beyond a hole.
	next, high  int
	anchor, top message
	incarnation int    // It tells one making of the TP from another.
	expired     bool   // Messages have expired that were not read.
	epoch       uint64 // The highest that was met.
}

const lateBound = 2

// image is what a store holds, of one moment.
type image struct {
	progress []progress
	view     map[int]entry
	cover    []coverage
	// late names entities of late messages that nobody has decided, at most lateBound (rule 7). due
	// counts what a reconcile has to follow, 0 for nothing.
	late map[int]bool
	due  int
}

func newImage(shards, tps int) *image {
	img := &image{view: map[int]entry{}, cover: make([]coverage, tps), late: map[int]bool{}}
	for range shards {
		img.progress = append(img.progress, newProgress(0))
	}
	return img
}

func (img *image) clone() *image {
	c := &image{view: maps.Clone(img.view), cover: append([]coverage(nil), img.cover...), late: maps.Clone(img.late), due: img.due}
	for _, p := range img.progress {
		p.missing, p.ahead = maps.Clone(p.missing), maps.Clone(p.ahead)
		c.progress = append(c.progress, p)
	}
	return c
}

// check is rules 20 to 22 for one TP: it reports whether the TP is as the image has it. One that is
// not is read again from its beginning: entries whose message is there still are confirmed by it,
// the others stay disputed, and a reconcile follows.
func (img *image) check(tp int, t *partition) bool {
	c := &img.cover[tp]
	is := func(next int, m message) bool { return next <= t.first || next <= len(t.log) && t.log[next-1] == m }
	if c.incarnation == t.incarnation && is(c.next, c.anchor) && (is(c.high, c.top) || mutant == oneAnchor) {
		return true
	}
	was := c.next
	*c = coverage{incarnation: t.incarnation}
	if mutant == trustsPrefix && was > len(t.log) && len(t.log) > 0 {
		c.next, c.anchor = len(t.log), t.log[len(t.log)-1]
	}
	for key, e := range img.view {
		if e.tp == tp && e.offset >= c.next {
			e.disputed, e.offset = true, c.next-1
			img.view[key] = e
		}
	}
	img.due++
	return false
}

// forget drops what a release stream knows: without a view only the messages themselves tell which
// rows are on the bus.
func (img *image) forget(b []*partition) {
	fresh := newImage(len(img.progress), len(b))
	for shard := range img.progress {
		fresh.progress[shard].since = img.progress[shard].since
	}
	for tp, t := range b {
		fresh.cover[tp].incarnation = t.incarnation
	}
	*img = *fresh
}
