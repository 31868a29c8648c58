package verify

import (
	"errors"
	"slices"
	"strconv"

	"bridge/event"
	"bridge/sink"
)

// fold takes in the messages of a bus.
type fold struct {
	shards []*shard
	// owners finds the shard of an event, named that of a header.
	owners      map[string]*shard
	named       map[[2]string]*shard
	foreign     *tally
	stamps      *stamps
	domain      string
	domains     domains
	messages    uint64
	others      uint64
	deadLetters uint64
	tombstones  tombstones
	homes       *homes
	unfit       []Unfit
	envelope    envelope
}

func newFold(shards []*shard, unfit []Unfit, o *Options) *fold {
	f := &fold{
		shards: shards, unfit: unfit, owners: make(map[string]*shard), named: make(map[[2]string]*shard), foreign: newTally(o.Examples),
		stamps: newStamps(memory(o.Numbers)), domain: o.Domain, tombstones: newTombstones(), homes: newHomes(o.Bus.Partitions()),
	}
	for _, s := range shards {
		s.homes = f.homes
		f.owners[identity([]byte(s.uri), []byte(s.database), []byte(s.table))] = s
		f.named[[2]string{s.Stream, s.Name}] = s
	}
	return f
}

// add takes in the next message of its partition.
func (f *fold) add(m *Message) error {
	f.messages++
	domain := m.Header.Domain
	ours := f.domain == "" || domain == "" || domain == f.domain
	var claimed *shard
	if ours && slices.ContainsFunc(f.unfit, func(u Unfit) bool { return u.Stream == m.Header.Stream }) {
		f.others++
		return nil
	}
	if ours {
		claimed = f.named[[2]string{m.Header.Stream, m.Header.Shard}]
	}
	refused := m.Header.Type == sink.DeadLetterType
	var stamp stamp
	if claimed != nil {
		stamp = f.stampOf(claimed, m, refused)
		f.homes.see(m, &stamp)
	}
	if refused {
		f.deadLetters++
		f.deadLetter(m, ours)
		return nil
	}
	if m.Value == nil && claimed != nil && claimed.Kind == event.Capability {
		f.tombstones.note(claimed, m)
		return nil
	}
	e := &f.envelope
	fault := e.read(m, claimed)
	s := f.owners[identity(e.uri, e.database, e.table)]
	switch {
	case s == nil && !ours:
		f.domains.add(domain)
	case s == nil && claimed != nil:
		claimed.events++
		claimed.alter(m, e, "its headers name the shard, but it is an event of another")
	case s == nil && (errors.Is(fault, errNoJSON) || errors.Is(fault, errNoEnvelope)):
		f.foreign.fault(Foreign, Example{What: fault.Error(), At: m.At, partition: m.Partition})
	case s == nil && fault == nil && !e.former && m.Header.Stream == "":
		f.foreign.fault(Foreign, Example{What: "nothing says its stream: neither a header bridge-stream nor meta.source.uri", At: m.At, partition: m.Partition})
	case s == nil:
		f.others++
	case fault != nil:
		s.events++
		s.alter(m, e, fault.Error())
	default:
		s.add(m, e, &stamp)
		if e.reason != "" {
			f.tombstones.deleted(m, e)
		}
	}
	return nil
}

// deadLetter remembers the row and the event of a message that the bus refused.
func (f *fold) deadLetter(m *Message, ours bool) {
	if !ours {
		f.domains.add(m.Header.Domain)
		return
	}
	refused, err := sink.ParseDeadLetter(m.Value)
	if err != nil {
		return
	}
	s := f.named[[2]string{refused.Stream, refused.Shard}]
	if s == nil {
		return
	}
	s.rejected[refused.RowID] = struct{}{}
	if id, err := event.ParseID(refused.EventID); err == nil {
		s.refused[id] = struct{}{}
	}
}

// add takes in an event of the shard.
func (s *shard) add(m *Message, e *envelope, stamp *stamp) {
	s.events++
	p := s.prove(m, e, stamp)
	switch p.proof {
	case refuted:
		s.alter(m, e, p.why)
	case doubted:
		s.doubt(m, e, p)
	}
	if p.formerKey {
		s.tally.doubt(FormerKey, s.example(m, e, "its key is "+strconv.Quote(string(m.Key))))
	}
	s.shapes.note(s, m, e, p)
	if m.Header.Origin == string(sink.FromTail) {
		s.noteTail(m.Partition, e.row)
	}
	switch {
	case p.op == "":
		// What it says is not known.
	case s.Kind == event.Release:
		s.foldFact(m, e, p, stamp)
	case p.keyed:
		s.foldEntity(m, e, p, stamp)
	}
}

// alter reports an altered event.
func (s *shard) alter(m *Message, e *envelope, why string) {
	s.tally.fault(Altered, Example{Shard: s.Name, Row: e.row, Event: string(e.id), At: m.At, What: why, partition: m.Partition})
}

// doubt puts an event aside: whether columns are lossy shows when the table has been read.
func (s *shard) doubt(m *Message, e *envelope, f finding) {
	found := s.doubted[f.doubt]
	if found == nil {
		found = new(Finding)
		s.doubted[f.doubt] = found
	}
	if found.Count++; len(found.Examples) < s.tally.most {
		found.Examples = append(found.Examples, s.example(m, e, f.why))
	}
}

// acquit withdraws the doubt about the event that was spread last, which its row has proven.
func (s *shard) acquit(id string) {
	if found := s.doubted[s.doubtOf()]; found != nil && found.Count > 0 {
		found.Count--
		found.Examples = slices.DeleteFunc(found.Examples, func(e Example) bool { return e.Event == id })
	}
}

// finish reports what could be judged only at the end of the bus.
func (s *shard) finish() {
	for doubt, found := range s.doubted {
		if found.Count == 0 {
			continue
		}
		if s.lossy.excuses(doubt) {
			s.unproven += found.Count
			continue
		}
		s.tally.faults(Altered, found.Count, found.Examples)
	}
	altered, unproven := s.shapes.altered(s.lossy)
	for _, found := range altered {
		s.tally.faults(Altered, found.Count, found.Examples)
	}
	s.unproven -= unproven
	s.tally.doubts(Unproven, s.unproven)
}
