package verify

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"hash/maphash"
	"math"
	"slices"
	"strconv"
	"strings"

	kafkago "github.com/segmentio/kafka-go"

	"example.org/bridge/event"
	"example.org/bridge/sink"
	"example.org/bridge/source"
)

// deletion is a deleted event that a tombstone may follow.
type deletion struct {
	id  string
	key []byte
}

// formerShard names a shard that a release stream had: bridge checkpoint move gives a table another
// name, and leaves the events that it has. The beginning of each meta.id is kept by row.
type formerShard struct{ stream, name string }

const formerBytes = 40

type orphan struct {
	shard     *table
	partition int
}

// mostDomains bounds how many other domains are named; further ones count for the empty name.
const mostDomains = 10

// doubt is what may excuse events: lossy columns, and that all events of their kind are as
// unproven.
type doubt struct {
	columns        columns
	unknownMembers *unknownMembers
}

// unknownMembers are the events of one kind that the table makes no more. An event from before a
// column was dropped, renamed or changed has company: others of its kind, or it is among the first.
// One alone, after events of the table's shape, was altered.
type unknownMembers struct {
	count uint64
	first Example
	// late says that the first of them came after an event of the table's shape, proven that its
	// meta.id fits, retyped that a member has another type than its column makes.
	late, proven, retyped bool
	// shown are the columns that proven ones tell: others with no more than these would be proven.
	shown columns
}

func (r *run) add(m *Message) error {
	r.report.Messages++
	domain, stream := m.header[sink.HeaderDomain], m.header[sink.HeaderStream]
	if r.Domain != "" && domain != "" && domain != r.Domain {
		if m.header[sink.HeaderType] == sink.DeadLetterType {
			r.report.DeadLetters++
		}
		if _, known := r.domains[domain]; !known && len(r.domains) >= mostDomains {
			domain = ""
		}
		r.domains[domain]++
		return nil
	}
	if list := m.header[sink.HeaderList]; list != "" || r.isUnfit(stream) {
		// A boundary names its stream there alone.
		if list == "" || r.at(list[strings.LastIndexByte(list, ';')+1:]) < 0 {
			r.report.Others++
		}
		return nil
	}
	var stamp stamp
	s := r.named[[2]string{stream, m.header[sink.HeaderShard]}]
	if s != nil {
		stamp = r.stamps.read(s, m)
		at, first := stamp.order(), &r.homes.first[m.partition]
		if at.epoch != 0 && (first.epoch == 0 || at.compare(*first) < 0) {
			*first = at
		}
	}
	switch {
	case m.header[sink.HeaderType] == sink.DeadLetterType:
		r.report.DeadLetters++
		r.deadLetter(m)
	case s != nil && m.Value == nil && s.Kind == event.Capability:
		r.tombstone(s, m)
	case s != nil:
		s.report.Events++
		s.asRow(m)
		if err := r.envelope.read(m, s.Kind); err != nil {
			s.alter(m, &r.envelope, err.Error())
			return nil
		}
		r.addEvent(s, m, &r.envelope, &stamp)
	default:
		r.addUnnamed(m, stream)
	}
	return nil
}

// addUnnamed takes in a message whose headers name no table that is configured. One of a configured
// stream is an event of a table that was removed or renamed, or was altered.
func (r *run) addUnnamed(m *Message, name string) {
	at := r.at(name)
	if at < 0 && name != "" {
		r.report.Others++
		return
	}
	if why := notAnEvent(m, name); why != "" {
		r.report.Foreign.add(r.Examples, 1, Example{What: why, At: m.Offset, partition: m.partition})
		return
	}
	if at < 0 {
		r.report.Others++
		return
	}
	of, named := r.streams[at], origin{}
	if m.format() != event.FormatRow {
		row := get(get(m.document(), "data"), "row")
		named = origin{string(getText(row, "source")), string(getText(row, "table"))}
	}
	for _, s := range of.origins[named] {
		if !r.hadName(s, m) {
			s.report.Events++
			s.alter(m, &r.envelope, "it is an event of the table, its header "+sink.HeaderShard+" is "+strconv.Quote(m.header[sink.HeaderShard]))
			return
		}
	}
	r.report.Others++
	if of.report.Kind == event.Capability {
		r.foldFormer(m, of)
	} else {
		r.noteFormer(m, of)
	}
}

// isFormer reports whether a table is not configured: it has no more than a name.
func (s *schema) isFormer() bool { return s.Encoder == nil }

// foldFormer takes in an event of a capability stream under the name of a shard that is not
// configured: other tables may have the entity by now.
func (r *run) foldFormer(m *Message, of *stream) {
	state, err := sink.ParseState(m.header[sink.HeaderState])
	name, e := m.header[sink.HeaderShard], &r.envelope
	at := slices.IndexFunc(r.entities, func(l *entities) bool {
		t := l.tables[0]
		return t.stream == of && !t.Apart && (t.Hash == 0 || t.Hash == state.Hash)
	})
	if at < 0 || name == "" || m.Value == nil || err != nil || state.Epoch == 0 || e.read(m, of.report.Kind) != nil {
		return
	}
	s := of.formers[name]
	if s == nil {
		s = &table{schema: schema{Shard: Shard{Stream: of.report.Stream, Name: name}, columns: new(source.Columns)}, stream: of, entities: r.entities[at]}
		of.formers[name] = s
	}
	v := verdict{reading: &reading{strange: true}, op: event.Added, key: m.Key}
	if e.reason != "" {
		v.op = event.Deleted
	}
	if v.key == nil {
		v.key = []byte(state.Key)
	}
	s.foldEntity(m, e, &v, &stamp{State: state})
}

// hadName reports whether a message whose body names the table may be its event, under the name of
// the shard in the header.
func (r *run) hadName(s *table, m *Message) bool {
	e := &r.envelope
	if e.read(m, s.Kind) != nil || m.header[sink.HeaderShard] == "" {
		return false
	}
	e.shard = m.header[sink.HeaderShard]
	proof := s.prove(m, e, &stamp{}).proof
	return proof == proven || proof == unproven
}

// noteFormer takes in an event of a release stream under the name of a shard that is not
// configured.
func (r *run) noteFormer(m *Message, of *stream) {
	row, err := strconv.ParseUint(m.header[sink.HeaderRowID], 10, 64)
	id, err2 := event.ParseID(m.header[sink.HeaderID])
	shard := formerShard{of.report.Stream, m.header[sink.HeaderShard]}
	if err != nil || err2 != nil || shard.name == "" {
		return
	}
	if r.formersLeft < formerBytes {
		of.add(uncounted, 1)
		return
	}
	r.formersLeft -= formerBytes
	if r.formers[shard] == nil {
		r.formers[shard] = make(map[uint64]uint64)
	}
	r.formers[shard][row] = short(id)
}

func (r *run) addEvent(s *table, m *Message, e *envelope, stamp *stamp) {
	v := s.prove(m, e, stamp)
	switch v.proof {
	case refuted:
		s.alter(m, e, v.why)
	case doubted:
		s.doubt(m, e, &v, nil)
	}
	s.noteShape(m, e, &v)
	if m.header[sink.HeaderOrigin] == string(sink.FromTail) {
		if _, known := s.tails[m.partition]; !known {
			s.tails[m.partition] = e.row
		}
		s.newest = max(s.newest, e.row)
	}
	if e.reason != "" {
		r.deletions[m.partition] = deletion{string(e.id), bytes.Clone(m.Key)}
	}
	if v.op == "" {
		return
	}
	of, isLast := strayID{table: s, row: e.row}, true
	switch {
	case s.facts != nil:
		s.foldFact(m, e, &v, stamp)
	case v.key != nil:
		of = strayID{}
		of.entity, isLast = s.foldEntity(m, e, &v, stamp)
	default:
		return
	}
	if isLast {
		r.homes.note(of, s, m, e, stamp.order())
	}
}

func (r *run) deadLetter(m *Message) {
	refused, err := sink.ParseDeadLetter(m.Value)
	s := r.named[[2]string{refused.Stream, refused.Shard}]
	if err != nil || s == nil {
		return
	}
	s.rejected[refused.RowID] = true
	if id, err := event.ParseID(refused.EventID); err == nil {
		s.refused[id] = true
	}
}

// tombstone judges a message without a body: it follows the deleted event of its key in its
// partition, and has the event's id.
func (r *run) tombstone(s *table, m *Message) {
	s.report.Tombstones++
	if last, ok := r.deletions[m.partition]; ok && last.id == m.header[sink.HeaderID] && bytes.Equal(last.key, m.Key) {
		return
	}
	of := orphan{s, m.partition}
	if r.orphans[of] == nil {
		r.orphans[of] = new(Finding)
	}
	r.orphans[of].add(s.most, 1, Example{Shard: s.Name, Event: m.header[sink.HeaderID], Key: string(m.Key), At: m.Offset, partition: m.partition,
		What: "it has no body, and the message before it is not the deleted event with its id and key"})
}

// finishBus reports what could be judged only at the end of the bus. Compaction removes a deleted
// event before its tombstone.
func (r *run) finishBus(partitions []Partition) {
	r.stamps.finish(partitions, r.all)
	for of, found := range r.orphans {
		if p := partitions[of.partition]; !p.Expired && !p.Thinned {
			of.shard.add(altered, found.Count, found.Examples...)
		}
	}
	for name, n := range r.domains {
		r.report.OtherDomains = append(r.report.OtherDomains, OtherDomain{Domain: name, Messages: n})
	}
	slices.SortFunc(r.report.OtherDomains, func(a, b OtherDomain) int {
		return cmp.Or(cmp.Compare(b.Messages, a.Messages), cmp.Compare(a.Domain, b.Domain))
	})
}

func (s *Shard) example(m *Message, e *envelope, v *verdict, what string) Example {
	return Example{Shard: s.Name, Row: e.row, Key: string(v.key), Event: string(e.id), At: m.Offset, What: what, partition: m.partition}
}

func (s *table) alter(m *Message, e *envelope, why string) {
	s.add(altered, 1, Example{Shard: s.Name, Row: e.row, Event: string(e.id), At: m.Offset, What: why, partition: m.partition})
}

// doubt puts an event aside: whether columns are lossy shows when the table has been read.
func (s *table) doubt(m *Message, e *envelope, v *verdict, of *unknownMembers) {
	found := s.doubts[doubt{v.doubt, of}]
	if found == nil {
		found = new(Finding)
		s.doubts[doubt{v.doubt, of}] = found
	}
	found.add(s.most, 1, s.example(m, e, v, v.why))
}

// noteShape takes in an event that may be of another shape than the table's.
func (s *table) noteShape(m *Message, e *envelope, v *verdict) {
	if v.usual && v.op != "" && e.reason == "" {
		s.usual[m.partition] = true
	}
	if v.usual || v.proof == refuted || v.form == 0 && !v.strange && !(v.retyped && v.proof == proven) ||
		v.form != 0 && s.Encoder.Payload() != nil {
		return
	}
	d := s.scratch[:0]
	for _, m := range e.members {
		if d = append(append(d, m.Name...), 0); !v.strange {
			d = append(d, m.Value[0])
		}
	}
	if v.form != 0 {
		d = binary.BigEndian.AppendUint32(d[:0], v.form)
	}
	s.scratch = d
	kind := maphash.Bytes(seed, d)
	found := s.unknownMembers[kind]
	if found == nil {
		what := "it has a member of no column"
		if !v.strange {
			what = "a member has another type than its column makes"
		}
		found = &unknownMembers{first: s.example(m, e, v, what), late: s.usual[m.partition] && v.form == 0, proven: v.proof == proven, retyped: !v.strange}
		s.unknownMembers[kind] = found
	}
	found.count++
	switch of := s.present(&v.body); {
	case v.proof == unproven && v.why != "":
		s.doubt(m, e, v, found)
	case v.proof == proven && (v.form == 0 || of&nulls == 0):
		found.shown = filled
	case v.proof == proven:
		// NULL fits whatever the name of its column.
		found.shown |= of & filled &^ bit(31, false)
	}
}

func (s *table) finish() {
	for of, found := range s.doubts {
		excused := s.lossy&of.columns != 0
		switch {
		case of.unknownMembers == nil && excused:
			s.unproven += found.Count
		case of.unknownMembers == nil:
			s.add(altered, found.Count, found.Examples...)
		case of.unknownMembers.shown != 0 && of.columns&filled&^of.unknownMembers.shown == 0 && !excused:
			s.unproven -= found.Count
			s.add(altered, found.Count, found.Examples...)
		}
	}
	for _, one := range s.unknownMembers {
		if one.count == 1 && one.late && (one.retyped || !one.proven) {
			s.add(altered, 1, one.first)
			if !one.proven {
				s.unproven--
			}
		}
	}
	s.add(notProven, s.unproven)
}

// uses reports whether events of the shard may lie in a partition.
func (s *Shard) uses(p Partition) bool {
	return p.Destination == "" || slices.Contains(s.Destinations, p.Destination)
}

// expectedFrom returns the first row that must have an event, by START and by what has expired, and
// why rows below it need none.
func (s *table) expectedFrom(partitions []Partition) (uint64, Code) {
	from, why := uint64(0), notFromBeginning
	switch {
	case s.Latest:
		from = math.MaxUint64
		for _, row := range s.tails {
			from = min(from, row)
		}
	case s.After > 0:
		from = s.After + 1
	}
	for i, p := range partitions {
		if !p.Expired || !s.uses(p) {
			continue
		}
		first, ok := s.tails[i]
		if !ok {
			first = math.MaxUint64
		}
		if first > from {
			from, why = first, expired
		}
	}
	return from, why
}

// homes find the last messages of entities and rows that lie in another partition than that of
// their key: consumers that share the partitions would see these entities in two orders.
type homes struct {
	partitions []Partition
	// numbers are the partitions of each topic, from 0 on.
	numbers map[string][]int
	// first are the lowest stamps of each partition, zero for none.
	first  []order
	strays map[strayID]stray
}

// strayID is an entity, or a row of a release stream.
type strayID struct {
	entity *entity
	table  *table
	row    uint64
}

type stray struct {
	shard     *table
	order     order
	key       []byte
	row, at   uint64
	partition int
	// gone: it says that the entity is, and lies where the event before did.
	gone bool
}

// partitionOf returns the partition that Java's producer chooses for a key.
func partitionOf(key []byte, partitions []int) int {
	return kafkago.Murmur2Balancer{Consistent: true}.Balance(kafkago.Message{Key: key}, partitions...)
}

func newHomes(partitions []Partition) homes {
	h := homes{partitions: partitions, numbers: make(map[string][]int), first: make([]order, len(partitions)), strays: make(map[strayID]stray)}
	for _, p := range partitions {
		h.numbers[p.Destination] = append(h.numbers[p.Destination], len(h.numbers[p.Destination]))
	}
	return h
}

// note takes in the last message of an entity or a row. One without a stamp is not judged.
func (h *homes) note(id strayID, s *table, m *Message, e *envelope, at order) {
	p := h.partitions[m.partition]
	if p.Destination == "" || at.epoch == 0 || partitionOf(m.Key, h.numbers[p.Destination]) == p.number {
		delete(h.strays, id)
		return
	}
	h.strays[id] = stray{shard: s, order: at, key: bytes.Clone(m.Key), row: e.row, at: m.Offset, partition: m.partition, gone: e.reason != ""}
}

// finish reports the messages that lay elsewhere when they were published, too: the topic may have
// got partitions since. It had those by then in which a message of ours with a lower stamp lies.
func (h *homes) finish() {
	for _, one := range h.strays {
		p := h.partitions[one.partition]
		least := p.number + 1
		for i, other := range h.partitions {
			if !one.gone && other.Destination == p.Destination && h.first[i].epoch != 0 && h.first[i].compare(one.order) <= 0 {
				least = max(least, other.number+1)
			}
		}
		right, explained := 0, false
		for n := least; n <= len(h.numbers[p.Destination]); n++ {
			right = partitionOf(one.key, h.numbers[p.Destination][:n])
			explained = explained || right == p.number
		}
		if !explained {
			one.shard.add(otherPartition, 1, Example{Shard: one.shard.Name, Row: one.row, At: one.at, partition: one.partition,
				What: "the partition of its key is " + strconv.Itoa(right)})
		}
	}
}
