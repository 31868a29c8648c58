package verify

import (
	"cmp"

	"bridge/event"
)

// foldEntity takes in an event of a capability stream that was spread last.
func (s *shard) foldEntity(m *Message, e *envelope, f finding, stamp *stamp) {
	id, link := short(e.uuid), short(e.link)
	this := occurrenceOf(id, s.number)
	at, known := s.index[f.key]
	if !known {
		at = s.entities.add(f.key, entity{partition: uint16(m.Partition), stamp: s.pack(stamp.epoch, stamp.seq)})
	}
	n := s.at(at)
	// What is remembered of a long history ends somewhere; stamps do not.
	repeat := known && (n.knows(id) || stamp.again && n.forgets())
	before, _ := s.unpack(n.stamp)
	s.noteRepeat(m, e, f, stamp, repeat, before < stamp.state.Since)
	if f.proof == unproven && !repeat {
		s.unproven++
	}
	if !known {
		if link != 0 {
			s.awaited[at] = s.awaitOf(m, e, at, stamp)
		}
		n.tipIs(this, f.op)
		n.latest(m, e, f, s)
		s.homes.note(s.entities.strays, uint64(at), s, m, e.row, stamp)
		return
	}
	stamped := n.stamp != 0 || stamp.epoch != 0
	if int(n.partition) != m.Partition {
		n.flags |= several
	}
	follows := s.follows(n, m, stamp)
	if n.flags&overtaken != 0 {
		s.late[at] = stamp.epoch
	}
	switch {
	case repeat:
		if link == 0 && f.op == event.Added {
			s.rootless++
		}
		follows = follows || !stamped
	case n.flags&several != 0:
		follows = s.foldSeveral(e, f, at, follows, stamped)
	default:
		s.chain(m, e, f, at, stamp)
	}
	if n.flags&overtaken == 0 {
		delete(s.late, at)
	}
	if follows {
		n.latest(m, e, f, s)
		s.homes.note(s.entities.strays, uint64(at), s, m, e.row, stamp)
	}
}

// follows takes in the stamp of a message of an entity, and reports whether the message is the
// entity's last one. It is rule 6 of decision 17: within a partition the higher offset wins, across
// partitions the higher stamp, or the same again: dead letters do not come here. A message with a
// lower stamp behind a higher one in its partition leaves the entity overtaken, until one comes
// with that stamp or a newer one.
func (s *shard) follows(n *entity, m *Message, this *stamp) bool {
	epoch, seq := s.unpack(n.stamp)
	order := cmp.Or(cmp.Compare(this.epoch, epoch), cmp.Compare(this.seq, seq))
	if int(n.partition) != m.Partition && order < 0 {
		return false
	}
	n.flags |= overtaken
	if order >= 0 {
		n.stamp = s.pack(this.epoch, this.seq)
		n.flags &^= overtaken
	}
	if this.epoch != 0 {
		n.flags &^= split
	}
	return true
}

// foldSeveral takes in a first occurrence of an entity whose events lie in several partitions, and
// reports whether it is the last one. The order in which partitions are read is none, so links are
// not judged. Without stamps they tell the order.
func (s *shard) foldSeveral(e *envelope, f finding, at uint32, follows, stamped bool) bool {
	n := s.at(at)
	if awaited, ok := s.awaited[at]; ok && awaited.link == e.uuid {
		delete(s.awaited, at)
	}
	this := occurrenceOf(short(e.uuid), s.number)
	if !stamped {
		n.flags |= split
		if follows = n.tip.is(short(e.link)); !follows {
			return false
		}
	}
	if follows {
		n.remember(n.tip)
		n.tipIs(this, f.op)
	} else {
		n.remember(this)
	}
	return follows
}

// chain judges the position of a first occurrence among the events of its entity.
func (s *shard) chain(m *Message, e *envelope, f finding, at uint32, stamp *stamp) {
	n := s.at(at)
	id, link := short(e.uuid), short(e.link)
	this := occurrenceOf(id, s.number)
	if awaited, ok := s.awaited[at]; ok && awaited.link == e.uuid {
		delete(s.awaited, at)
		by := s.scope.tables[awaited.shard].shard
		s.disorder(at, stamp, awaited.example(by, "it came before "+string(e.id)+", which it follows"))
		// What follows it is newer, so the tip stays.
		n.remember(this)
		return
	}
	switch {
	case link != 0 && n.tip.is(link):
	case link == 0 && n.flags&tipDead != 0:
		// What is known of an entity that is gone is forgotten after a while.
	case n.tip.shard() != s.number && s.followsOwn(n, link):
		s.tally.doubt(Moved, s.example(m, e, "it does not follow the event before it, of the table "+s.scope.tables[n.tip.shard()].shard.Name))
	case link == 0 && e.row < n.row:
		s.disorder(at, stamp, s.example(m, e, "it follows nothing, and comes after an event of a later row"))
	case link == 0:
		s.restarts++
		if len(s.restartExamples) < s.tally.most {
			s.restartExamples = append(s.restartExamples, s.example(m, e, "it follows nothing, though the entity lives"))
		}
	case n.knows(link):
		s.disorder(at, stamp, s.example(m, e, "it follows "+string(e.predecessor)+", but another event of the entity lies between them"))
	default:
		if awaited, ok := s.awaited[at]; ok {
			s.unlinked = append(s.unlinked, awaited)
		}
		s.awaited[at] = s.awaitOf(m, e, at, stamp)
	}
	n.remember(n.tip)
	n.tipIs(this, f.op)
}

// mostDisorders bounds the examples that are kept.
const mostDisorders = 1000

// disorder takes in an event in the wrong order.
func (s *shard) disorder(entity uint32, this *stamp, e Example) {
	if len(s.disorders) >= mostDisorders {
		e = Example{Shard: e.Shard, Row: e.Row, What: e.What, partition: -1}
	}
	late, ok := s.late[entity]
	s.disorders = append(s.disorders, disorder{shard: s, entity: entity, epoch: this.epoch, example: e, healer: ok && late < this.epoch})
}

// followsOwn reports whether a link leads to the last event that the shard itself has published of
// an entity, or nowhere if there is none.
func (s *shard) followsOwn(n *entity, link uint64) bool {
	own, ok := n.lastOf(s.number)
	return ok && link != 0 && own.is(link) || link == 0
}

// latest makes a message the entity's last one.
func (e *entity) latest(m *Message, v *envelope, f finding, s *shard) {
	e.row, e.last, e.link, e.at, e.state = v.row, short(v.uuid), v.link, m.At, 0
	e.partition, e.shard = uint16(m.Partition), s.number
	e.flags &^= dead | changed | isProven | isRefuted | isDoubted | isStrange
	if f.strange {
		e.flags |= isStrange
	}
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
