package verify

import (
	"encoding/binary"
	"hash/maphash"
	"maps"
	"slices"

	"example.org/bridge/event"
)

// entities are one set of entities, folded: those of a capability stream, or of one table, see
// Shard.Apart.
type entities struct {
	tables []*table
	index  map[key]*entity
	// extra are entities that live on the bus and have no row in a table.
	extra map[*entity]bool
	// awaited are links to events that were not seen before the events that have them, unlinked
	// those that were given up when another one had to be waited for.
	awaited  map[*entity]await
	unlinked []await
	// restarts are events that begin an entity's history over a state that lives, rootless are
	// repeats of events that begin a history.
	restarts Finding
	rootless uint64
	// disorders are events in the wrong order, late the epochs of those that came behind a newer
	// one, until that is published again.
	disorders []disorder
	late      map[*entity]uint64
}

type key [16]byte

var seed2 = maphash.MakeSeed()

func keyOf(text []byte) (k key) {
	binary.BigEndian.PutUint64(k[:8], maphash.Bytes(seed, text))
	binary.BigEndian.PutUint64(k[8:], maphash.Bytes(seed2, text))
	return k
}

type entity struct {
	// row, digest, state, last, link and at are of the last message: the row, its digest by
	// bridge-state, what its members say, the beginning of its meta.id, the link, and its offset.
	row          uint64
	digest, link [16]byte
	state, last  uint64
	at           uint64
	// stamp is the highest that was met.
	stamp order
	// tip is the newest first occurrence. past are those before, the latest of them.
	tip  occurrence
	past *[]occurrence
	// shard is the table of the last message, seenBy that of the row that was seen first, seenRow
	// its id.
	shard, seenBy *table
	seenRow       uint64
	partition     uint16
	// proof is that of the last message.
	proof proof
	// dead: the last message is a deleted event; comparable: its members are what the table makes
	// of its columns now, though some may have come or been renamed since; overtaken: it has a
	// lower stamp than one before it in its partition. tipDead: the tip is a deleted event.
	dead, comparable, overtaken, tipDead bool
	// several: its events lie in several partitions.
	several bool
	// seen: a table has a row of the entity; double: several tables have; fits: one of these rows
	// is what the last event says. shared: several tables had, at some look; reported: that was
	// reported.
	seen, double, fits, shared, reported bool
}

// occurrence is an event of an entity: the beginning of its meta.id, and its table.
type occurrence struct {
	id    uint64
	shard *table
}

type disorder struct {
	shard   *table
	entity  *entity
	epoch   uint64
	example Example
	// healer says that it was published behind one of an older run that had come late.
	healer bool
}

// await is a link to an event that has not come yet, and where the event lies that has it.
type await struct {
	link      [16]byte
	row, at   uint64
	entity    *entity
	partition int
	shard     *table
	attempt   attempt
}

const (
	// mostPast bounds the ids that are remembered of an entity. What repeats is what was in flight,
	// a few batches at most.
	mostPast      = 16
	mostDisorders = 1000
)

// short begins a UUID; within one entity that tells ids apart.
func short(id [16]byte) uint64 { return binary.BigEndian.Uint64(id[:]) }

func (e *entity) knows(id uint64) bool {
	return e.tip.id == id || e.past != nil && slices.ContainsFunc(*e.past, func(o occurrence) bool { return o.id == id })
}

func (e *entity) remember(o occurrence) {
	if e.past == nil {
		e.past = new([]occurrence)
	}
	if len(*e.past) == mostPast {
		*e.past = slices.Delete(*e.past, 0, 1)
	}
	*e.past = append(*e.past, o)
}

func (e *entity) advance(o occurrence, op event.Op) {
	e.remember(e.tip)
	e.tip, e.tipDead = o, op == event.Deleted
}

// foldEntity takes in an event of a capability stream. It returns its entity, and whether it is the
// last one of that.
func (s *table) foldEntity(m *Message, e *envelope, v *verdict, stamp *stamp) (n *entity, isLast bool) {
	id, link := short(e.uuid), short(e.link)
	this := occurrence{id, s}
	k := keyOf(v.key)
	n, known := s.index[k]
	if !known {
		n = &entity{partition: uint16(m.partition), stamp: stamp.order(), tip: this, tipDead: v.op == event.Deleted}
		s.index[k] = n
	}
	// What is remembered of a long history ends somewhere; stamps do not.
	repeat := known && (n.knows(id) || stamp.again && n.past != nil && len(*n.past) == mostPast)
	if !s.isFormer() {
		s.noteRepeat(m, e, v, stamp, repeat, n.stamp.epoch < stamp.Since)
	}
	if v.proof == unproven && !repeat {
		s.unproven++
	}
	if !known {
		if link != 0 && !s.isFormer() {
			s.await(m, e, n, stamp)
		}
		s.setLast(n, m, e, v, stamp)
		return n, true
	}
	n.several = n.several || int(n.partition) != m.partition
	isLast = n.follows(m, stamp.order())
	if n.overtaken {
		s.late[n] = stamp.Epoch
	}
	switch {
	case repeat:
		if link == 0 && v.op == event.Added {
			s.rootless++
		}
	case n.several, s.isFormer():
		// The order in which partitions are read is none, so links are not judged: brokenLink
		// passes over what was awaited before. Those of former tables are nobody's.
		if isLast {
			n.advance(this, v.op)
		} else {
			n.remember(this)
		}
	default:
		s.chain(m, e, v, n, stamp)
	}
	if !n.overtaken {
		delete(s.late, n)
	}
	if isLast {
		s.setLast(n, m, e, v, stamp)
	}
	return n, isLast
}

// follows takes in the stamp of a message of an entity, and reports whether the message is the
// entity's last one. It is rule 6 of decision 17: within a partition the higher offset wins, across
// partitions the higher stamp, or the same again: dead letters do not come here. A message with a
// lower stamp behind a higher one in its partition leaves the entity overtaken, until one comes
// with that stamp or a newer one.
func (e *entity) follows(m *Message, this order) bool {
	newer := this.compare(e.stamp)
	if int(e.partition) != m.partition && newer < 0 {
		return false
	}
	if e.overtaken = newer < 0; !e.overtaken {
		e.stamp = this
	}
	return true
}

// chain judges the position of a first occurrence among the events of its entity.
func (s *table) chain(m *Message, e *envelope, v *verdict, n *entity, stamp *stamp) {
	link, this := short(e.link), occurrence{short(e.uuid), s}
	awaited, isAwaited := s.awaited[n]
	wrong := func(x Example) {
		if len(s.disorders) >= mostDisorders {
			x = Example{Shard: x.Shard, Row: x.Row, What: x.What, partition: -1}
		}
		late, ok := s.late[n]
		s.disorders = append(s.disorders, disorder{shard: s, entity: n, epoch: stamp.Epoch, example: x, healer: ok && late < stamp.Epoch})
	}
	if isAwaited && awaited.link == e.uuid {
		delete(s.awaited, n)
		wrong(awaited.example("it came before " + string(e.id) + ", which it follows"))
		// What follows it is newer, so the tip stays.
		n.remember(this)
		return
	}
	switch {
	case link != 0 && n.tip.id == link:
	case link == 0 && n.tipDead:
		// What is known of an entity that is gone is forgotten after a while.
	case n.tip.shard != s && n.followsOwn(s, link):
		s.add(moved, 1, s.example(m, e, v, "it does not follow the event before it, of the table "+n.tip.shard.Name))
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
		s.await(m, e, n, stamp)
	}
	n.advance(this, v.op)
}

// followsOwn reports whether a link leads to the last event that a table itself has published of
// the entity, among those that are remembered, or nowhere.
func (e *entity) followsOwn(s *table, link uint64) bool {
	if link == 0 || e.past == nil {
		return link == 0
	}
	for _, o := range slices.Backward(*e.past) {
		if o.shard == s {
			return o.id == link
		}
	}
	return false
}

func (s *table) await(m *Message, e *envelope, n *entity, this *stamp) {
	s.awaited[n] = await{link: e.link, row: e.row, at: m.Offset, entity: n, partition: m.partition, shard: s, attempt: this.attempt()}
}

// example names the event that has the link; the bus knows the rest.
func (a *await) example(what string) Example {
	return Example{Shard: a.shard.Name, Row: a.row, At: a.at, What: what, partition: a.partition}
}

func (s *table) setLast(n *entity, m *Message, e *envelope, v *verdict, this *stamp) {
	n.row, n.last, n.link, n.at, n.state = e.row, short(e.uuid), e.link, m.Offset, s.stateOf(&v.body)
	n.partition, n.shard, n.proof, n.digest = uint16(m.partition), s, v.proof, this.Digest
	n.dead, n.comparable = v.op == event.Deleted, v.usual || v.proof == unproven && !v.strange && !v.retyped
}

func (e *entity) isExample(x Example) bool { return x.At == e.at && x.partition == int(e.partition) }

// finish reports links that lead nowhere, histories that begin again, and events in the wrong
// order.
func (l *entities) finish(partitions []Partition) {
	for _, a := range slices.AppendSeq(l.unlinked, maps.Values(l.awaited)) {
		l.brokenLink(&a, partitions)
	}
	for _, d := range l.disorders {
		d.shard.addPast(outOfOrder, 1, d.example, !d.entity.overtaken && d.epoch != 0 && (d.healer || d.epoch < d.entity.stamp.epoch))
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
	if a.entity.several {
		// The event that it follows may have been read before, in another partition.
		return
	}
	s, p := a.shard, partitions[a.partition]
	e := a.example("it follows " + event.FormatID(a.link) + ", which the bus does not hold")
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
