package verify

import (
	"encoding/binary"
	"hash/maphash"
	"slices"

	"example.org/bridge/event"
)

// entities are one set of entities, folded: those of a capability stream, or of one table, see
// Shard.Apart.
type entities struct {
	tables []*table
	index  map[key]uint32
	// chunks hold the entities, each of chunkSize, so that to grow copies nothing.
	chunks [][]entity
	count  uint32
	strays strays
	// extra are entities that live on the bus and have no row in a table.
	extra []uint32
	// epochs are the epochs of stamps, in the order in which they were met.
	epochs   []uint64
	epochsAt map[uint64]uint64
	// awaited are links to events that were not seen before the events that have them, unlinked
	// those that were given up when another one had to be waited for.
	awaited  map[uint32]await
	unlinked []await
	// restarts are events that begin an entity's history over a state that lives, rootless are
	// repeats of events that begin a history.
	restarts Finding
	rootless uint64
	// disorders are events in the wrong order, late the epochs of those that came behind a newer
	// one, until that is published again.
	disorders []disorder
	late      map[uint32]uint64
}

// key tells entities apart.
type key [16]byte

var seed2 = maphash.MakeSeed()

func keyOf(text []byte) (k key) {
	binary.BigEndian.PutUint64(k[:8], maphash.Bytes(seed, text))
	binary.BigEndian.PutUint64(k[8:], maphash.Bytes(seed2, text))
	return k
}

// entity is what an entity's events say.
type entity struct {
	// row, state, last, link and at are of the last message: the row, what is compared of it, the
	// beginning of its meta.id, the link, and its offset.
	row, state, last uint64
	link             [16]byte
	at               uint64
	// stamp is the highest that was met, as pack has it.
	stamp uint64
	// tip is the newest first occurrence. past are those before, the latest of them.
	tip       occurrence
	past      *[]occurrence
	partition uint16
	flags     flags
	// shard is the table of the last message, seenBy the one whose row was seen first: numbers in
	// entities.tables.
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

func (f flags) proof() proof { return proof(f & proofBits) }

const (
	// The two lowest bits are the last message's proof.
	proofBits flags = 3
	// dead: the last message is a deleted event; tipDead: the tip is one.
	dead flags = 2 << iota
	tipDead
	// modified: the last message is a modified event.
	modified
	// seen: a table has a row of the entity.
	seen
	// several: its events lie in several partitions.
	several
	// overtaken: the last message has a lower stamp than one before it in its partition.
	overtaken
	// double: rows of several tables were seen; reported: that was reported.
	double
	reported
	// isStrange: the last message has members of no column, and is not proven.
	isStrange
)

// disorder is an event in the wrong order.
type disorder struct {
	shard   *table
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

const (
	// mostPast bounds the ids that are remembered of an entity. What repeats is what was in flight,
	// a few batches at most.
	mostPast = 16
	// mostDisorders bounds the examples that are kept.
	mostDisorders = 1000
	chunkSize     = 4096
	// A stamp is packed into the number of its epoch, from 1, and these bits of its seq.
	seqBits = 44
)

func newEntities() *entities {
	return &entities{strays: make(strays), index: make(map[key]uint32), epochsAt: make(map[uint64]uint64), awaited: make(map[uint32]await), late: make(map[uint32]uint64)}
}

// get returns an entity by its index.
func (l *entities) get(i uint32) *entity { return &l.chunks[i/chunkSize][i%chunkSize] }

// pack returns a stamp in eight bytes, 0 for none and for one of a seq or a number of epochs that
// no program reaches.
func (l *entities) pack(epoch, seq uint64) uint64 {
	if epoch == 0 || seq >= 1<<seqBits {
		return 0
	}
	n := l.epochsAt[epoch]
	if n == 0 && len(l.epochs) < 1<<(64-seqBits)-1 {
		l.epochs = append(l.epochs, epoch)
		n = uint64(len(l.epochs))
		l.epochsAt[epoch] = n
	}
	if n == 0 {
		return 0
	}
	return n<<seqBits | seq
}

// unpack is the inverse of pack.
func (l *entities) unpack(stamp uint64) order {
	if stamp == 0 {
		return order{}
	}
	return order{l.epochs[stamp>>seqBits-1], stamp % (1 << seqBits)}
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
		*e.past = slices.Delete(*e.past, 0, 1)
	}
	*e.past = append(*e.past, o)
}

// setTip makes an event the tip.
func (e *entity) setTip(o occurrence, op event.Op) {
	e.tip = o
	if e.flags &^= tipDead; op == event.Deleted {
		e.flags |= tipDead
	}
}

// foldEntity takes in an event of a capability stream, and reports whether it
// is the last one of its entity, which it returns.
func (s *table) foldEntity(m *Message, e *envelope, v *verdict, stamp *stamp) (at uint32, isLast bool) {
	k, id, link := keyOf(v.key), short(e.uuid), short(e.link)
	this := occurrenceOf(id, s.number)
	at, known := s.index[k]
	if !known {
		at = s.count
		if at%chunkSize == 0 {
			s.chunks = append(s.chunks, make([]entity, 0, chunkSize))
		}
		chunk := &s.chunks[at/chunkSize]
		*chunk = append(*chunk, entity{partition: uint16(m.Partition), stamp: s.pack(stamp.epoch, stamp.seq)})
		s.index[k] = at
		s.count++
	}
	n := s.get(at)
	// What is remembered of a long history ends somewhere; stamps do not.
	repeat := known && (n.knows(id) || stamp.again && n.past != nil && len(*n.past) == mostPast)
	s.noteRepeat(m, e, v, stamp, repeat, s.unpack(n.stamp).epoch < stamp.state.Since)
	if v.proof == unproven && !repeat {
		s.unproven++
	}
	if !known {
		if link != 0 {
			s.await(m, e, at, stamp)
		}
		n.setTip(this, v.op)
		s.setLast(n, m, e, v)
		return at, true
	}
	if int(n.partition) != m.Partition {
		n.flags |= several
	}
	isLast = s.follows(n, m, stamp)
	if n.flags&overtaken != 0 {
		s.late[at] = stamp.epoch
	}
	switch {
	case repeat:
		if link == 0 && v.op == event.Added {
			s.rootless++
		}
	case n.flags&several != 0:
		// The order in which partitions are read is none, so links are not judged.
		if awaited, ok := s.awaited[at]; ok && awaited.link == e.uuid {
			delete(s.awaited, at)
		}
		if isLast {
			n.remember(n.tip)
			n.setTip(this, v.op)
		} else {
			n.remember(this)
		}
	default:
		s.chain(m, e, v, at, stamp)
	}
	if n.flags&overtaken == 0 {
		delete(s.late, at)
	}
	if isLast {
		s.setLast(n, m, e, v)
	}
	return at, isLast
}

// follows takes in the stamp of a message of an entity, and reports whether the message is the
// entity's last one. It is rule 6 of decision 17: within a partition the higher offset wins, across
// partitions the higher stamp, or the same again: dead letters do not come here. A message with a
// lower stamp behind a higher one in its partition leaves the entity overtaken, until one comes
// with that stamp or a newer one.
func (s *table) follows(n *entity, m *Message, this *stamp) bool {
	newer := order{this.epoch, this.seq}.compare(s.unpack(n.stamp))
	if int(n.partition) != m.Partition && newer < 0 {
		return false
	}
	n.flags |= overtaken
	if newer >= 0 {
		n.stamp = s.pack(this.epoch, this.seq)
		n.flags &^= overtaken
	}
	return true
}

// chain judges the position of a first occurrence among the events of its entity.
func (s *table) chain(m *Message, e *envelope, v *verdict, at uint32, stamp *stamp) {
	n, link := s.get(at), short(e.link)
	this := occurrenceOf(short(e.uuid), s.number)
	awaited, isAwaited := s.awaited[at]
	wrong := func(x Example) {
		if len(s.disorders) >= mostDisorders {
			x = Example{Shard: x.Shard, Row: x.Row, What: x.What, partition: -1}
		}
		late, ok := s.late[at]
		s.disorders = append(s.disorders, disorder{shard: s, entity: at, epoch: stamp.epoch, example: x, healer: ok && late < stamp.epoch})
	}
	if isAwaited && awaited.link == e.uuid {
		delete(s.awaited, at)
		wrong(awaited.example(s.tables[awaited.shard], "it came before "+string(e.id)+", which it follows"))
		// What follows it is newer, so the tip stays.
		n.remember(this)
		return
	}
	switch {
	case link != 0 && n.tip.is(link):
	case link == 0 && n.flags&tipDead != 0:
		// What is known of an entity that is gone is forgotten after a while.
	case n.tip.shard() != s.number && s.followsOwn(n, link):
		s.add(moved, 1, s.example(m, e, v, "it does not follow the event before it, of the table "+s.tables[n.tip.shard()].Name))
	case link == 0 && e.row < n.row:
		wrong(s.example(m, e, v, "it follows nothing, and comes after an event of a later row"))
	case link == 0:
		s.restarts.add(s.most, 1, s.example(m, e, v, "it follows nothing, though the entity lives"))
	case n.knows(link):
		wrong(s.example(m, e, v, "it follows "+string(e.predecessor)+", but another event of the entity lies between them"))
	default:
		if isAwaited {
			s.unlinked = append(s.unlinked, awaited)
		}
		s.await(m, e, at, stamp)
	}
	n.remember(n.tip)
	n.setTip(this, v.op)
}

// followsOwn reports whether a link leads to the last event that the table itself has published of
// an entity, among those that are remembered, or nowhere.
func (s *table) followsOwn(n *entity, link uint64) bool {
	if link == 0 || n.past == nil {
		return link == 0
	}
	for _, o := range slices.Backward(*n.past) {
		if o.shard() == s.number {
			return o.is(link)
		}
	}
	return false
}

func (s *table) await(m *Message, e *envelope, entity uint32, this *stamp) {
	s.awaited[entity] = await{
		link: e.link, row: e.row, at: m.At, entity: entity, partition: uint16(m.Partition), shard: s.number,
		attempt: attempt{this.epoch, this.state.Term},
	}
}

// example names the event that has the link; the bus knows the rest.
func (a *await) example(s *table, what string) Example {
	return Example{Shard: s.Name, Row: a.row, At: a.at, What: what, partition: int(a.partition)}
}

// setLast makes a message the last one of its entity.
func (s *table) setLast(n *entity, m *Message, e *envelope, v *verdict) {
	n.row, n.last, n.link, n.at, n.state = e.row, short(e.uuid), e.link, m.At, 0
	n.partition, n.shard = uint16(m.Partition), s.number
	n.flags = n.flags&^(proofBits|dead|modified|isStrange) | flags(v.proof)
	if v.strange && v.proof != refuted && v.proof != proven {
		n.flags |= isStrange
	}
	switch v.op {
	case event.Deleted:
		n.flags |= dead
		return
	case event.Modified:
		n.flags |= modified
	}
	n.state = s.stateOf(&v.body)
}

// countLive counts the entities that live by the bus.
func (l *entities) countLive() (n uint64) {
	for i := range l.count {
		if l.get(i).flags&dead == 0 {
			n++
		}
	}
	return n
}

// finish reports links that lead nowhere, histories that begin again, and events in the wrong
// order.
func (l *entities) finish(partitions []Partition) {
	for _, a := range l.awaited {
		l.brokenLink(&a, partitions)
	}
	for i := range l.unlinked {
		l.brokenLink(&l.unlinked[i], partitions)
	}
	for _, d := range l.disorders {
		n := l.get(d.entity)
		d.shard.addPast(outOfOrder, 1, d.example, n.flags&overtaken == 0 && d.epoch != 0 && (d.healer || d.epoch < l.unpack(n.stamp).epoch))
	}
	// To publish rows again begins many histories again, or repeats events that begin one. One
	// alone is something else.
	code := restarted
	if l.restarts.Count == 1 && l.rootless == 0 {
		code = outOfOrder
	}
	l.tables[0].add(code, l.restarts.Count, l.restarts.Examples...)
}

func (l *entities) brokenLink(a *await, partitions []Partition) {
	if l.get(a.entity).flags&several != 0 {
		// The event that it follows may have been read before, in another partition.
		return
	}
	s, p := l.tables[a.shard], partitions[a.partition]
	e := a.example(s, "it follows "+event.FormatID(a.link)+", which the bus does not hold")
	switch {
	case slices.ContainsFunc(l.tables, func(t *table) bool { return t.refused[a.link] }):
		e.What = "it follows " + event.FormatID(a.link) + ", which the bus refused: it is a dead letter"
		s.add(putAside, 1, e)
	case p.Expired:
		s.add(expired, 1, e)
	case p.Thinned:
		s.add(thinned, 1, e)
	default:
		s.addPast(brokenLink, 1, e, a.attempt.epoch != 0 && a.attempt.before(s.last))
	}
}
