package verify

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"bridge/sink"
)

// stamps are what the headers bridge-state say of all messages: which of those that the bus has
// acknowledged are not there, and which are there twice.
type stamps struct {
	// left is the memory for the sets of numbers. Once it is used up, the sets are dropped.
	left memory
	full bool
	// terms have the numbers of messages, runs the seqs of an epoch.
	terms map[termID]*term
	runs  map[uint64]*numbers
	// The term and the run of the message before.
	lastID    termID
	last      *term
	lastEpoch uint64
	lastRun   *numbers
}

// termID names a term: a time in which each number stands for one message of the shard.
type termID struct {
	shard *shard
	epoch uint64
	term  uint32
}

// term has the numbers of a shard's messages in one term that the bus has.
type term struct {
	numbers
	// The bus has acknowledged all numbers below acked. All below due must be there by now.
	acked, due uint64
}

// attempt is a time in which a shard published without a doubt: bridge begins another one once the
// bus is not as it was, or another process has taken over.
type attempt struct {
	epoch uint64
	term  uint32
}

func (a attempt) before(b attempt) bool {
	return a.epoch < b.epoch || a.epoch == b.epoch && a.term < b.term
}

// isWhole reports whether no row of a release can be gone for which an event was lost: each row has
// its event, and there is a row for each id and each event.
func (s *shard) isWhole() bool {
	return s.facts == nil || s.rows == uint64(len(s.byRow)) && s.rows == s.lastRow-s.firstRow+1
}

// newest is the message of a stream with the highest stamp.
type newest struct {
	shard      *shard
	epoch, seq uint64
	hash       uint32
	at         uint64
	partition  int
}

func newStamps(left memory) *stamps {
	return &stamps{left: left, terms: make(map[termID]*term), runs: make(map[uint64]*numbers)}
}

// stamp is what the header bridge-state says of one message.
type stamp struct {
	// epoch is 0 where the message has none, as those of older versions.
	epoch, seq uint64
	// state is all that the header says.
	state sink.State
	// again says that a message before had the same stamp.
	again bool
}

// note takes in the state of a message of a shard. That of a dead letter is the state of the event
// that it stands for.
func (l *stamps) note(s *shard, m *Message, state *sink.State, deadLetter bool) stamp {
	s.stamped++
	if this := (attempt{state.Epoch, state.Term}); s.last.before(this) {
		s.last = this
	}
	this := stamp{epoch: state.Epoch, seq: state.Seq, state: *state}
	s.head.note(s, m, state)
	if l.full {
		return this
	}
	t := l.termOf(termID{s, state.Epoch, state.Term})
	t.acked = max(t.acked, uint64(state.Acked))
	t.add(uint64(state.Acked)+uint64(state.Index), &l.left)
	if !deadLetter {
		this.again = l.runOf(state.Epoch).add(state.Seq, &l.left)
	}
	if l.left < 0 {
		l.full, l.terms, l.runs, l.last, l.lastRun = true, nil, nil, nil, nil
	}
	return this
}

func (l *stamps) termOf(id termID) *term {
	if l.last != nil && l.lastID == id {
		return l.last
	}
	t := l.terms[id]
	if t == nil {
		t = &term{numbers: *newNumbers()}
		l.terms[id] = t
		l.left -= blockBytes
	}
	l.lastID, l.last = id, t
	return t
}

func (l *stamps) runOf(epoch uint64) *numbers {
	if l.lastRun != nil && l.lastEpoch == epoch {
		return l.lastRun
	}
	run := l.runs[epoch]
	if run == nil {
		run = newNumbers()
		l.runs[epoch] = run
		l.left -= blockBytes
	}
	l.lastEpoch, l.lastRun = epoch, run
	return run
}

// note takes in a message if it is the newest.
func (n *newest) note(s *shard, m *Message, state *sink.State) {
	if n.shard == nil || cmp.Or(cmp.Compare(n.epoch, state.Epoch), cmp.Compare(n.seq, state.Seq)) < 0 {
		*n = newest{shard: s, epoch: state.Epoch, seq: state.Seq, hash: state.Hash, at: m.At, partition: m.Partition}
	}
}

// suspected reports whether numbers are missing, of which some may have come since.
func (l *stamps) suspected() bool {
	for _, t := range l.terms {
		found := false
		if t.missing(t.acked, func(uint64, uint64) { found = true }); found {
			return true
		}
	}
	return false
}

// expect says that the bus is read again: then all numbers that were acknowledged by now are there.
func (l *stamps) expect() {
	for _, t := range l.terms {
		t.due = t.acked
	}
}

// finish reports the messages that are lost.
func (l *stamps) finish(partitions []Partition, shards []*shard) {
	ids := make([]termID, 0, len(l.terms))
	for id := range l.terms {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b termID) int {
		return cmp.Or(cmp.Compare(a.shard.Name, b.shard.Name), cmp.Compare(a.epoch, b.epoch), cmp.Compare(a.term, b.term))
	})
	for _, id := range ids {
		t, s := l.terms[id], id.shard
		removes := slices.ContainsFunc(partitions, func(p Partition) bool { return (p.Expired || p.Thinned) && s.mayLie(p, shards) })
		t.missing(t.due, func(first, last uint64) {
			lost := &Lost{Epoch: strconv.FormatUint(id.epoch, 16), Term: id.term, First: first, Last: last}
			e := Example{Shard: s.Name, Lost: lost, What: lost.what(t.due), partition: -1}
			if removes {
				s.tally.doubts(Removed, last-first+1, e)
			} else {
				s.tally.pastFault(LostMessage, last-first+1, e, attempt{id.epoch, id.term}.before(s.last) && s.isWhole())
			}
		})
	}
	if l.full {
		for _, s := range shards {
			s.tally.doubts(Uncounted, s.stamped)
		}
	}
}

// finish compares the newest message of a stream with the configuration, if it is of this shard.
func (n *newest) finish(s *shard) {
	if n.shard != s || s.Hash == 0 || n.hash == s.Hash {
		return
	}
	s.tally.fault(OtherKey, Example{
		Shard: s.Name, At: n.at, partition: n.partition, Stamp: stampText(n.epoch, n.seq),
		What: fmt.Sprintf("the newest message of the stream has the hash %x, the configuration %x", n.hash, s.Hash),
	})
}

// mayLie reports whether messages of the shard may lie in a partition. One that is no destination
// of any shard has dead letters.
func (s *shard) mayLie(p Partition, shards []*shard) bool {
	return s.uses(p) || !slices.ContainsFunc(shards, func(other *shard) bool { return other.uses(p) })
}

// what says what is lost.
func (l *Lost) what(acked uint64) string {
	which := fmt.Sprintf("message %d", l.First)
	is := "is"
	if l.Last > l.First {
		which, is = fmt.Sprintf("messages %d to %d", l.First, l.Last), "are"
	}
	return fmt.Sprintf("%s of term %d of epoch %s %s not there; the bus acknowledged %d, counted from 0", which, l.Term, l.Epoch, is, acked)
}

// stampText is a stamp as the header has it.
func stampText(epoch, seq uint64) string {
	return strconv.FormatUint(epoch, 16) + " " + strconv.FormatUint(seq, 16)
}

// stampOf takes in the state of a message of the shard that its headers name. A header that cannot
// be read is a finding.
func (f *fold) stampOf(s *shard, m *Message, deadLetter bool) stamp {
	if m.Header.State == "" {
		return stamp{}
	}
	state, err := sink.ParseState(m.Header.State)
	row, _ := strconv.ParseUint(m.Header.RowID, 10, 64)
	e := Example{Shard: s.Name, Row: row, At: m.At, partition: m.Partition}
	switch {
	case errors.Is(err, sink.ErrNewerForm):
		e.What = err.Error()
		s.tally.doubt(NewerForm, e)
	case err != nil:
		e.What = err.Error()
		s.tally.fault(Altered, e)
	case state.Epoch > 0:
		return f.stamps.note(s, m, &state, deadLetter)
	}
	return stamp{}
}

// noteRepeat counts an event that was spread last, where it is a repeat. A stamp that another event
// had is a fault, unless the event is one already. resent says that a person may have asked for it.
func (s *shard) noteRepeat(m *Message, e *envelope, f finding, this *stamp, repeat, resent bool) {
	example := func(what string) Example {
		x := s.example(m, e, what)
		x.Stamp = stampText(this.epoch, this.seq)
		return x
	}
	if repeat {
		s.repeats++
	}
	if this.epoch == 0 {
		return
	}
	d := s.tally.deliveries
	d.once[this.epoch] = d.once[this.epoch] || m.Once
	repeats := func() Example { return example("it repeats the event of an earlier message") }
	switch {
	case repeat && this.again:
		d.repeat(Copy, this.epoch, rowID{s, e.row}, s.tally.most, func() Example { return example("it is a copy of an earlier message") })
	case repeat && resent:
		s.tally.repeated(Again, 1, []Example{repeats()})
	case repeat:
		d.repeat(Again, this.epoch, rowID{s, e.row}, s.tally.most, repeats)
	case this.again && f.proof != refuted && f.proof != doubted:
		s.tally.fault(Altered, example("another event has its stamp"))
	}
}
