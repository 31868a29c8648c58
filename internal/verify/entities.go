package verify

import (
	"encoding/binary"
	"slices"

	"bridge/event"
)

// entities are the entities of a capability shard, folded.
type entities struct {
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
	// tip begins the meta.id of the newest first occurrence. past are those before, the latest of
	// them.
	tip       uint64
	past      *[]uint64
	partition uint16
	flags     flags
}

type flags uint8

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
	// seen: the table has a row of the entity.
	seen
	// split: its events lie in several partitions.
	split
)

// await is a link to an event that has not come yet, and where the event lies that has it.
type await struct {
	link      [16]byte
	row, at   uint64
	partition uint16
}

func awaitOf(m *Message, e *envelope) await {
	return await{link: e.link, row: e.row, at: m.At, partition: uint16(m.Partition)}
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
	return &entities{index: make(map[key]uint32), awaited: make(map[uint32]await)}
}

// short begins a UUID; within one entity that tells ids apart.
func short(id [16]byte) uint64 { return binary.BigEndian.Uint64(id[:]) }

// knows reports whether the event with this id has come before.
func (e *entity) knows(id uint64) bool {
	return e.tip == id || e.past != nil && slices.Contains(*e.past, id)
}

// remember puts an id into the past.
func (e *entity) remember(id uint64) {
	if e.past == nil {
		e.past = new([]uint64)
	}
	if len(*e.past) == mostPast {
		copy(*e.past, (*e.past)[1:])
		*e.past = (*e.past)[:mostPast-1]
	}
	*e.past = append(*e.past, id)
}

// foldEntity takes in an event of a capability stream that was spread last.
func (s *shard) foldEntity(m *Message, e *envelope, f finding) {
	id, link := short(e.uuid), short(e.link)
	at, known := s.index[f.key]
	if !known {
		at = s.entities.add(f.key, entity{partition: uint16(m.Partition), tip: id})
	}
	n := s.at(at)
	if f.proof == unproven && !(known && n.knows(id)) {
		s.unproven++
	}
	switch {
	case !known:
		if link != 0 {
			s.awaited[at] = awaitOf(m, e)
		}
		n.tipIs(f.op)
	case n.knows(id):
		s.repeats++
		if link == 0 && f.op == event.Added {
			s.rootless++
		}
	case int(n.partition) != m.Partition || n.flags&split != 0:
		n.flags |= split
		if link != n.tip {
			return
		}
		n.remember(n.tip)
		n.tip = id
		n.tipIs(f.op)
	default:
		s.chain(m, e, f, at)
	}
	n.latest(m, e, f, s)
}

// chain judges the position of a first occurrence among the events of its entity.
func (s *shard) chain(m *Message, e *envelope, f finding, at uint32) {
	n := s.at(at)
	id, link := short(e.uuid), short(e.link)
	if awaited, ok := s.awaited[at]; ok && awaited.link == e.uuid {
		delete(s.awaited, at)
		s.tally.fault(OutOfOrder, awaited.example(s, "it came before "+string(e.id)+", which it follows"))
		// What follows it is newer, so the tip stays.
		n.remember(id)
		return
	}
	switch {
	case link == n.tip:
	case link == 0 && n.flags&tipDead != 0:
		// What is known of an entity that is gone is forgotten after a while.
	case link == 0 && e.row < n.row:
		s.tally.fault(OutOfOrder, s.example(m, e, "it follows nothing, and comes after an event of a later row"))
	case link == 0:
		s.restarts++
		if len(s.restartExamples) < s.tally.most {
			s.restartExamples = append(s.restartExamples, s.example(m, e, "it follows nothing, though the entity lives"))
		}
	case n.knows(link):
		s.tally.fault(OutOfOrder, s.example(m, e, "it follows "+string(e.predecessor)+", but another event of the entity lies between them"))
	default:
		if awaited, ok := s.awaited[at]; ok {
			s.unlinked = append(s.unlinked, awaited)
		}
		s.awaited[at] = awaitOf(m, e)
	}
	n.remember(n.tip)
	n.tip = id
	n.tipIs(f.op)
}

func (e *entity) tipIs(op event.Op) {
	e.flags &^= tipDead
	if op == event.Deleted {
		e.flags |= tipDead
	}
}

// latest makes a message the entity's last one.
func (e *entity) latest(m *Message, v *envelope, f finding, s *shard) {
	e.row, e.last, e.link, e.at, e.state = v.row, short(v.uuid), v.link, m.At, 0
	e.flags &^= dead | changed | isProven | isRefuted | isDoubted
	switch f.op {
	case event.Deleted:
		e.flags |= dead
	case event.Modified:
		e.flags |= changed
	}
	switch f.proof {
	case proven:
		e.flags |= isProven
	case refuted:
		e.flags |= isRefuted
	case doubted:
		e.flags |= isDoubted
	}
	if f.op != event.Deleted {
		e.state = s.stateOf(v)
	}
}
