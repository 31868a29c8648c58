package model

import (
	"maps"
	"strconv"

	"bridge/checkpoint/store"
	"bridge/internal/catchup"
	"bridge/sink"
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
	// tail says that the origin is the tail.
	tail  bool
	stamp stamp
	// low is the row below which the shard had published all.
	low uint64
	// count is what verify tells lost messages by.
	count count
	// id is the event's id, busID that by which the bus drops repeats.
	id, busID string
}

// entry is what a view has of an entity.
type entry struct {
	shard, state int
	row          uint64
	id           string
	tp, offset   int
	// stamp is the highest that was met.
	stamp stamp
	// disputed says that an older message lies behind a newer one: the next decision publishes.
	disputed bool
}

// apply is rule 6, as the program has it: catchup.Apply decides, and what it returns is the entry.
func apply(view map[int]entry, m message, tp, offset int) {
	e, known := view[m.key]
	var was store.Entry
	if known && mutant != olderOverNewer {
		was = store.Entry{State: store.Live, At: at(e.tp, e.offset), Epoch: e.stamp.epoch, Seq: e.stamp.seq, Disputed: e.disputed}
	}
	next, applied := catchup.Apply(was, &catchup.Message{
		State: sink.State{Epoch: m.stamp.epoch, Seq: m.stamp.seq, Digest: [16]byte{byte(m.state)}},
		Shard: strconv.Itoa(m.shard), Row: m.row, At: at(tp, offset),
	})
	if !applied {
		return
	}
	shard, err := strconv.Atoi(next.Shard)
	if err != nil {
		panic(err)
	}
	n := entry{shard: shard, state: int(next.Digest[0]), row: next.Row, id: m.id, tp: tp, offset: offset,
		stamp: stamp{next.Epoch, next.Seq}, disputed: next.Disputed}
	if mutant == noDispute {
		n.stamp, n.disputed = m.stamp, false
	}
	view[m.key] = n
}

// at returns where a message lies. The offset -1 is that before the first.
func at(tp, offset int) store.At {
	return store.At{TP: uint32(tp) + 1, Offset: uint64(offset)}
}

// progress is how far a shard has been published.
type progress struct {
	position uint64
	// missing are ids below the position that were not published, ahead ids above it that were.
	missing, ahead map[uint64]bool
	// tail is the highest row that the tail has published, low the highest low that was met.
	tail, low uint64
}

// note is rule 15 for one message that was read.
func (p *progress) note(m message) {
	if m.row > p.position {
		p.ahead[m.row] = true
	}
	delete(p.missing, m.row)
	if m.tail {
		p.tail = max(p.tail, m.row)
	}
	p.low = max(p.low, m.low)
}

// advance moves the position to through; what was not published below it is missing.
func (p *progress) advance(through uint64, published []uint64) {
	for _, id := range published {
		p.ahead[id] = true
		delete(p.missing, id)
	}
	for ; p.position < through; delete(p.ahead, p.position) {
		if p.position++; !p.ahead[p.position] {
			p.missing[p.position] = true
		}
	}
}

// published returns the row below which all is published.
func (p *progress) published() uint64 {
	for id := uint64(1); id <= p.position; id++ {
		if p.missing[id] {
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

// coverage is how far a TP is in the store.
type coverage struct {
	// next is the offset that was not covered yet, anchor the message before it, ours or not.
	next   int
	anchor message
	// high is the offset behind the highest that was acknowledged to this store, top the message
	// there: it may lie beyond a hole.
	high int
	top  message
	// incarnation tells one making of the TP from another.
	incarnation int
	// late says that messages have expired that were not read.
	late bool
	// epoch is the highest that was met in it.
	epoch uint64
}

// image is what a store holds, of one moment.
type image struct {
	progress []progress
	view     map[int]entry
	cover    []coverage
}

func newImage(shards, tps int) *image {
	img := &image{view: map[int]entry{}, cover: make([]coverage, tps)}
	for range shards {
		img.progress = append(img.progress, progress{missing: map[uint64]bool{}, ahead: map[uint64]bool{}})
	}
	return img
}

func (img *image) clone() *image {
	c := &image{view: maps.Clone(img.view), cover: append([]coverage(nil), img.cover...)}
	for _, p := range img.progress {
		p.missing, p.ahead = maps.Clone(p.missing), maps.Clone(p.ahead)
		c.progress = append(c.progress, p)
	}
	return c
}

// check is rules 20 to 22 for one TP: it reports whether the TP is as the image has it. One that is
// not is read again from its beginning: entries whose message is there still are confirmed by it,
// the others stay disputed.
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
	return false
}

// forget drops what a release stream knows: without a view only the messages themselves tell which
// rows are on the bus.
func (img *image) forget(b []*partition) {
	fresh := newImage(len(img.progress), len(b))
	*img = *fresh
	for tp, t := range b {
		img.cover[tp].incarnation = t.incarnation
	}
}
