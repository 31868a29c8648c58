package verify

import (
	"encoding/binary"
	"slices"

	"bridge/event"
)

// entities are the entities of a scope, folded.
type entities struct {
	epochs
	strays
	index map[key]uint32
	// chunks hold the entities, each of chunkSize, so that to grow copies nothing.
	chunks [][]entity
	count  uint32
	// awaited are links to events that were not seen before the events that have them.
	awaited map[uint32]await
	// unlinked are links that were given up when another one had to be waited for.
	unlinked []await
	// restarts are events that begin an entity's history over a state that lives.
	restarts        uint64
	restartExamples []Example
	// disorders are events in the wrong order, late the epochs of those that came behind a newer
	// one, until that is published again.
	disorders []disorder
	late      map[uint32]uint64
	// rootless counts repeats of events that begin a history.
	rootless uint64
}

// entity is what an entity's events say.
type entity struct {
	// row, state, last, link and at are of the last message: the row, what is compared of it, the
	// beginnings of its meta.id, the link, and its partition.
	row, state, last uint64
	link             [16]byte
	at               uint64
	// stamp is the highest that was met, as epochs has it.
	stamp uint64
	// tip is the newest first occurrence. past are those before, the latest of them.
	tip       occurrence
	past      *[]occurrence
	partition uint16
	flags     flags
	// shard is the table of the last message, seenBy the one whose row was seen first: numbers in
	// the scope.
	shard, seenBy uint16
}

// occurrence is an event of an entity: 48 bits of its meta.id and the number of its table.
type occurrence uint64

func occurrenceOf(id uint64, shard uint16) occurrence {
	return occurrence(id&^0xffff | uint64(shard))
}

// is reports whether o is the event with this id.
func (o occurrence) is(id uint64) bool { return uint64(o)>>16 == id>>16 }

func (o occurrence) shard() uint16 { return uint16(o) }

type flags uint16

const (
	// dead: the last message is a deleted event; tipDead: the tip is one.
	dead flags = 1 << iota
	tipDead
	// changed: the last message is a modified event.
	changed
	// isProven, isRefuted and isDoubted are the last message's proof.
	isProven
	isRefuted
	isDoubted
	// seen: a table has a row of the entity.
	seen
	// several: its events lie in several partitions; split: and have no stamps, so they have no
	// order among each other.
	several
	split
	// overtaken: the last message has a lower stamp than one before it in its partition.
	overtaken
	// double: rows of several tables were seen; reported: that was reported.
	double
	reported
	// isStrange: the last message has members of no column.
	isStrange
)

// disorder is an event in the wrong order.
type disorder struct {
	shard   *shard
	entity  uint32
	epoch   uint64
	example Example
	// healer says that it was published behind one of an older run that had come late.
	healer bool
}

// await is a link to an event that has not come yet, and where the event lies that has it.
type await struct {
	link             [16]byte
	row, at          uint64
	entity           uint32
	partition, shard uint16
	attempt          attempt
}

func (s *shard) awaitOf(m *Message, e *envelope, entity uint32, this *stamp) await {
	return await{
		link: e.link, row: e.row, at: m.At, entity: entity, partition: uint16(m.Partition), shard: s.number,
		attempt: attempt{this.epoch, this.state.Term},
	}
}

// example names the event that has the link; the bus knows the rest.
func (a await) example(s *shard, what string) Example {
	return Example{Shard: s.Name, Row: a.row, At: a.at, What: what, partition: int(a.partition)}
}

// mostPast bounds the ids that are remembered of an entity. What repeats is what was in flight, a
// few batches at most.
const mostPast = 16

const chunkSize = 4096

// at returns an entity by its index.
func (l *entities) at(i uint32) *entity { return &l.chunks[i/chunkSize][i%chunkSize] }

// add adds an entity and returns its index.
func (l *entities) add(k key, e entity) uint32 {
	i := l.count
	if i%chunkSize == 0 {
		l.chunks = append(l.chunks, make([]entity, 0, chunkSize))
	}
	last := &l.chunks[len(l.chunks)-1]
	*last = append(*last, e)
	l.index[k] = i
	l.count++
	return i
}

func newEntities() *entities {
	return &entities{epochs: newEpochs(), strays: make(strays), index: make(map[key]uint32), awaited: make(map[uint32]await), late: make(map[uint32]uint64)}
}

// short begins a UUID; within one entity that tells ids apart.
func short(id [16]byte) uint64 { return binary.BigEndian.Uint64(id[:]) }

// knows reports whether the event with this id has come before.
func (e *entity) knows(id uint64) bool {
	return e.tip.is(id) || e.past != nil && slices.ContainsFunc(*e.past, func(o occurrence) bool { return o.is(id) })
}

// remember puts an event into the past.
func (e *entity) remember(o occurrence) {
	if e.past == nil {
		e.past = new([]occurrence)
	}
	if len(*e.past) == mostPast {
		copy(*e.past, (*e.past)[1:])
		*e.past = (*e.past)[:mostPast-1]
	}
	*e.past = append(*e.past, o)
}

// forgets reports whether events of the entity may have come that are not remembered.
func (e *entity) forgets() bool { return e.past != nil && len(*e.past) == mostPast }

// lastOf returns the newest event of the entity that a table has published, among those that are
// remembered.
func (e *entity) lastOf(shard uint16) (last occurrence, ok bool) {
	if e.tip.shard() == shard {
		return e.tip, true
	}
	if e.past != nil {
		for _, o := range slices.Backward(*e.past) {
			if o.shard() == shard {
				return o, true
			}
		}
	}
	return 0, false
}

func (e *entity) tipIs(o occurrence, op event.Op) {
	e.tip = o
	e.flags &^= tipDead
	if op == event.Deleted {
		e.flags |= tipDead
	}
}
