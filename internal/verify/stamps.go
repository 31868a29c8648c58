package verify

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"example.org/bridge/sink"
)

var errStateless = errors.New("it has no header " + sink.HeaderState + " with an epoch")

// stamp is what the header bridge-state says of one message. Its epoch is 0 where that cannot be
// read.
type stamp struct {
	sink.State
	// again says that a message before had the same stamp.
	again bool
}

func (s *stamp) order() order     { return order{s.Epoch, s.Seq} }
func (s *stamp) attempt() attempt { return attempt{s.Epoch, s.Term} }

// order is a stamp as it orders messages.
type order struct{ epoch, seq uint64 }

func (a order) compare(b order) int {
	return cmp.Or(cmp.Compare(a.epoch, b.epoch), cmp.Compare(a.seq, b.seq))
}

func (a order) text() string {
	return strconv.FormatUint(a.epoch, 16) + " " + strconv.FormatUint(a.seq, 16)
}

// stamps are what the headers bridge-state say of all messages: which of those that the bus has
// acknowledged are not there, and which are there twice.
type stamps struct {
	// left is the memory for the sets of numbers, in bytes. Once it is used up, they are dropped.
	left int
	full bool
	// terms have the numbers of messages, runs the seqs of an epoch.
	terms map[termID]*term
	runs  map[uint64]*term
}

// termID names a term: a time in which each number stands for one message of the shard.
type termID struct {
	shard *table
	attempt
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

// read takes in the state of a message of the shard that its headers name. A header that cannot be
// read is a finding. That of a dead letter is the state of the event that it stands for.
func (l *stamps) read(s *table, m *Message) stamp {
	state, err := sink.ParseState(m.header[sink.HeaderState])
	if m.header[sink.HeaderState] == "" || err == nil && state.Epoch == 0 {
		err = errStateless
	}
	if err != nil {
		code := altered
		if errors.Is(err, sink.ErrNewerForm) {
			code = newerForm
		}
		row, _ := strconv.ParseUint(m.header[sink.HeaderRowID], 10, 64)
		s.add(code, 1, Example{Shard: s.Name, Row: row, At: m.Offset, What: err.Error(), partition: m.partition})
		return stamp{}
	}
	s.stamped++
	this := stamp{State: state}
	during := this.attempt()
	if s.last.before(during) {
		s.last = during
	}
	if s.head.shard == nil || s.head.compare(this.order()) < 0 {
		s.head = newest{order: this.order(), shard: s, hash: state.Hash, at: m.Offset, partition: m.partition}
	}
	if l.full {
		return this
	}
	t := setOf(l.terms, termID{s, during}, &l.left)
	t.acked = max(t.acked, uint64(state.Acked))
	t.add(uint64(state.Acked)+uint64(state.Index), &l.left)
	if m.header[sink.HeaderType] != sink.DeadLetterType {
		this.again = setOf(l.runs, state.Epoch, &l.left).add(state.Seq, &l.left)
	}
	if l.left < 0 {
		l.full, l.terms, l.runs = true, nil, nil
	}
	return this
}

func setOf[K comparable](sets map[K]*term, key K, left *int) *term {
	if sets[key] == nil {
		sets[key] = &term{numbers: numbers{blocks: make(map[uint64]*block)}}
		*left -= blockBytes
	}
	return sets[key]
}

// suspected reports whether numbers are missing, of which some may have come since.
func (l *stamps) suspected() (found bool) {
	for _, t := range l.terms {
		t.missing(t.acked, func(uint64, uint64) { found = true })
	}
	return found
}

// finish reports the messages that are lost. A partition that no shard publishes to has dead
// letters of all.
func (l *stamps) finish(partitions []Partition, shards []*table) {
	ids := slices.SortedFunc(maps.Keys(l.terms), func(a, b termID) int {
		return cmp.Or(cmp.Compare(a.shard.Name, b.shard.Name), cmp.Compare(a.epoch, b.epoch), cmp.Compare(a.term, b.term))
	})
	for _, id := range ids {
		t, s := l.terms[id], id.shard
		removes := slices.ContainsFunc(partitions, func(p Partition) bool {
			return (p.Expired || p.Thinned) && (s.uses(p) || !slices.ContainsFunc(shards, func(other *table) bool { return other.uses(p) }))
		})
		t.missing(t.due, func(first, last uint64) {
			gap := &Lost{Epoch: strconv.FormatUint(id.epoch, 16), Term: id.term, First: first, Last: last}
			e := Example{Shard: s.Name, Lost: gap, What: gap.describe(t.due), partition: -1}
			if removes {
				s.add(removed, last-first+1, e)
			} else {
				s.addPast(lost, last-first+1, e, id.before(s.last) && s.isWhole())
			}
		})
	}
	if l.full {
		for i, s := range shards {
			if !slices.ContainsFunc(shards[:i], func(t *table) bool { return t.stream == s.stream }) {
				s.add(uncounted, s.stamped)
			}
		}
	}
}

func (l *Lost) describe(acked uint64) string {
	which := fmt.Sprintf("message %d of term %d of epoch %s is", l.First, l.Term, l.Epoch)
	if l.Last > l.First {
		which = fmt.Sprintf("messages %d to %d of term %d of epoch %s are", l.First, l.Last, l.Term, l.Epoch)
	}
	return fmt.Sprintf("%s not there; the bus acknowledged %d, counted from 0", which, acked)
}

type newest struct {
	order
	shard     *table
	hash      uint32
	at        uint64
	partition int
}

func (n *newest) finish() {
	if n.shard != nil && n.shard.Hash != 0 && n.hash != n.shard.Hash {
		n.shard.add(otherKey, 1, Example{
			Shard: n.shard.Name, At: n.at, partition: n.partition, Stamp: n.text(),
			What: fmt.Sprintf("the newest message of the stream has the hash %x, the configuration %x", n.hash, n.shard.Hash),
		})
	}
}

// deliveries tell repeats that exactly-once rules out from those that at-least-once may make: by
// the run of the program that has published them.
type deliveries struct {
	// once says of each epoch of the stream whether it published with exactly-once.
	once map[uint64]bool
	// repeats are the ones that exactly-once rules out, unless a person may have sent them again.
	repeats map[repeatID]*repeatedRows
}

type repeatID struct {
	epoch uint64
	code  Code
}

// repeatedRows counts the repeats of each row, of at most mostRows.
type repeatedRows struct {
	Finding
	rows map[rowID]uint64
}

type rowID struct {
	shard *table
	row   uint64
}

const mostRows = 1 << 16

// noteRepeat counts an event that was spread last, where it is a repeat. A stamp that another event
// had is a fault, unless the event is one already. resent says that a person may have asked for it.
func (s *table) noteRepeat(m *Message, e *envelope, v *verdict, this *stamp, repeat, resent bool) {
	asked := repeat && !this.again && m.header[sink.HeaderOrigin] == string(sink.FromRepublish)
	switch {
	case asked:
		s.report.Republished++
	case repeat:
		s.report.Repeats++
	}
	if this.Epoch == 0 {
		return
	}
	d, code, what := s.deliveries, again, "it repeats the event of an earlier message"
	d.once[this.Epoch] = d.once[this.Epoch] || m.once
	if asked || !repeat && !this.again {
		return
	}
	if repeat && this.again {
		code, what = copied, "it is a copy of an earlier message"
	}
	x := s.example(m, e, v, what)
	x.Stamp = this.order().text()
	switch {
	case !repeat && v.proof != refuted && v.proof != doubted:
		x.What = "another event has its stamp"
		s.add(altered, 1, x)
	case !repeat:
	case resent && code == again:
		s.add(again, 1, x)
	default:
		id := repeatID{this.Epoch, code}
		found := d.repeats[id]
		if found == nil {
			found = &repeatedRows{rows: make(map[rowID]uint64)}
			d.repeats[id] = found
		}
		found.add(s.most, 1, x)
		row := rowID{s, e.row}
		if _, known := found.rows[row]; known || d.once[this.Epoch] && len(found.rows) < mostRows {
			found.rows[row]++
		}
	}
}

// finish reports the repeats. What a run with at-least-once had in flight when it was killed may be
// stored behind the start of the next one: that one may publish it again. What is true of a row
// with a dead letter is published as often as a person resends it.
func (d *deliveries) finish(t *tally) {
	before := true
	for _, epoch := range slices.Sorted(maps.Keys(d.once)) {
		for _, code := range []Code{copied, again} {
			found, once := d.repeats[repeatID{epoch, code}], d.once[epoch]
			if found == nil {
				continue
			}
			resent := uint64(0)
			for row, n := range found.rows {
				if row.shard.rejected[row.row] && code == again {
					resent += n
				}
			}
			if !once || !before && code == again {
				resent = found.Count
			}
			t.add(repeated, found.Count-resent, found.Examples...)
			t.add(code, resent, found.Examples...)
		}
		before = d.once[epoch]
	}
}

// perBlock is how many numbers a block has, blockBytes its size in memory.
const perBlock, blockBytes = 1024, 200

// numbers is a set of numbers that comes to be nearly complete, in any order: one bit for each
// number in a block, nothing for the blocks before the first one that lacks a number.
type numbers struct {
	// below is the first block that is not full.
	below  uint64
	blocks map[uint64]*block
}

type block struct {
	bits [perBlock / 64]uint64
	n    int
}

// add adds a number and reports whether it was there. It takes what it needs from left, which may
// go below zero.
func (s *numbers) add(n uint64, left *int) (was bool) {
	at := n / perBlock
	if at < s.below {
		return true
	}
	b := s.blocks[at]
	if b == nil {
		b = new(block)
		s.blocks[at] = b
		*left -= blockBytes
	}
	word, bit := n%perBlock/64, uint64(1)<<(n%64)
	if b.bits[word]&bit != 0 {
		return true
	}
	b.bits[word] |= bit
	b.n++
	for ; s.blocks[s.below] != nil && s.blocks[s.below].n == perBlock; s.below++ {
		delete(s.blocks, s.below)
		*left += blockBytes
	}
	return false
}

// missing calls each with every range of numbers below limit that are not there, in their order.
func (s *numbers) missing(limit uint64, each func(first, last uint64)) {
	first, open := uint64(0), false
	for n := s.below * perBlock; n < limit; n++ {
		b := s.blocks[n/perBlock]
		has := b != nil && b.bits[n%perBlock/64]&(1<<(n%64)) != 0
		if has && open {
			each(first, n-1)
		} else if !has && !open {
			first = n
		}
		if open = !has; b == nil {
			n |= perBlock - 1
		}
	}
	if open {
		each(first, limit-1)
	}
}
