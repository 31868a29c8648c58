package source

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
)

// Chunk is one part of a saved ledger, of a few KiB at most. A store keeps each under its own key, so that saving a large ledger
// writes only what changed. Together they are all of the ledger; a store must save the changes of one Changed, and the position
// that goes with them, in one transaction.
type Chunk struct {
	// Key identifies the part. 0 is the head, which every saved ledger has.
	Key uint64
	// Bytes are the part's new form, with a checksum; nil says that the part is gone. They must not be modified.
	Bytes []byte
}

// Changed returns the parts that differ from those that the last Changed returned, or the ledger was restored from, in the order
// of their keys. It costs as much as the changes, however large the ledger.
func (l *Ledger) Changed() []Chunk {
	l.missing.seal()
	chunks := make([]Chunk, 0, 1+len(l.missing.changed))
	chunks = append(chunks, Chunk{Bytes: l.head()})
	for _, key := range slices.Sorted(maps.Keys(l.missing.changed)) {
		chunk := Chunk{Key: key}
		if i := l.missing.leafOf(key); i >= 0 && l.missing.leaves[i].key == key {
			chunk.Bytes = l.missing.leaves[i].form
		}
		chunks = append(chunks, chunk)
	}
	clear(l.missing.changed)
	return chunks
}

// MergeChunks returns the changes that have the effect of older followed by newer, for a saver that leaves saves out. Both must be
// in the order of their keys, as the result is.
func MergeChunks(older, newer []Chunk) []Chunk {
	merged := make([]Chunk, 0, len(older)+len(newer))
	for len(older) > 0 && len(newer) > 0 {
		switch {
		case older[0].Key < newer[0].Key:
			merged, older = append(merged, older[0]), older[1:]
		case older[0].Key > newer[0].Key:
			merged, newer = append(merged, newer[0]), newer[1:]
		default:
			older = older[1:]
		}
	}
	return append(append(merged, older...), newer...)
}

// head returns the form of all that is not in leaves. It is, with integers as varints of encoding/binary (u unsigned, i signed):
//
//	version    1 byte, 1
//	position   u
//	noticed    u, from position
//	judged     u, from noticed downwards
//	now        i, the ledger's time
//	given      i, the owner's time at the same moment
//	leaves     u, how many there are
//	heads      count u, then each: id u (from the head before), at i
//	flights    count u, then each: first u (from the end of the flight before), last u (from first),
//	           since i, seen i, 1 if flying plus 2 if a block (1 byte)
//	checksum   CRC-32C over all before, 4 bytes, little endian
func (l *Ledger) head() []byte {
	b := []byte{ledgerVersion}
	b = binary.AppendUvarint(b, l.position)
	b = binary.AppendUvarint(b, l.noticed-l.position)
	b = binary.AppendUvarint(b, l.noticed-min(l.judged, l.noticed))
	b = binary.AppendVarint(b, l.clock.now)
	b = binary.AppendVarint(b, l.clock.given)
	b = binary.AppendUvarint(b, uint64(len(l.missing.leaves)))
	b = binary.AppendUvarint(b, uint64(len(l.heads)))
	next := uint64(0)
	for _, h := range l.heads {
		b = binary.AppendUvarint(b, h.id-next)
		b = binary.AppendVarint(b, h.at)
		next = h.id
	}
	b = binary.AppendUvarint(b, uint64(len(l.flights)))
	next = 0
	for _, f := range l.flights {
		b = binary.AppendUvarint(b, f.first-next)
		b = binary.AppendUvarint(b, f.last-f.first)
		b = binary.AppendVarint(b, f.since)
		b = binary.AppendVarint(b, f.seen)
		kind := byte(0)
		if f.flying {
			kind |= flyingBit
		}
		if f.block {
			kind |= blockBit
		}
		b = append(b, kind)
		next = f.last
	}
	return sum(b)
}

// The least bytes of a head and of a flight: they bound what a count may claim.
const (
	minHead   = 2
	minFlight = 5
)

const (
	flyingBit = 1 << iota
	blockBit
)

// RestoreLedger returns the ledger whose saved parts are chunks, in any order. It keeps their bytes. The error wraps ErrBadLedger when
// they are damaged, not all of one ledger, or do not belong to position.
func RestoreLedger(opts LedgerOptions, position uint64, chunks []Chunk) (*Ledger, error) {
	l, err := NewLedger(opts, position)
	if err != nil {
		return nil, err
	}
	chunks = slices.Clone(chunks)
	slices.SortFunc(chunks, func(a, b Chunk) int { return cmp.Compare(a.Key, b.Key) })
	if len(chunks) == 0 || chunks[0].Key != 0 {
		return nil, fmt.Errorf("%w: its head is missing", ErrBadLedger)
	}
	leaves, err := l.restoreHead(chunks[0].Bytes)
	if err != nil {
		return nil, fmt.Errorf("head: %w", err)
	}
	if l.position != position {
		return nil, fmt.Errorf("%w: it belongs to position %d, not %d", ErrBadLedger, l.position, position)
	}
	if leaves != uint64(len(chunks)-1) {
		return nil, fmt.Errorf("%w: %d parts are there, %d were saved", ErrBadLedger, len(chunks)-1, leaves)
	}
	for _, c := range chunks[1:] {
		if err := l.restoreLeaf(c); err != nil {
			return nil, fmt.Errorf("part %d: %w", c.Key, err)
		}
	}
	return l, nil
}

func (l *Ledger) restoreHead(b []byte) (leaves uint64, err error) {
	f, err := openForm(b)
	if err != nil {
		return 0, err
	}
	l.position = f.uint()
	above, below := f.uint(), f.uint()
	l.noticed = l.position + above
	if l.noticed < l.position || below > l.noticed {
		f.fail("a position out of bounds")
	}
	l.judged, l.sure = l.noticed-below, l.position
	l.clock = ledgerClock{now: f.micros(), given: f.micros(), away: l.opts.Away.Microseconds(), restored: true, started: true}
	leaves = f.uint()
	l.heads = f.heads(l.noticed)
	l.flights = f.flights(l.noticed)
	return leaves, f.end()
}

func (f *form) heads(noticed uint64) []head {
	n := f.count(minHead)
	if n > maxHeads {
		f.fail("too many heads")
		return nil
	}
	heads := make([]head, 0, n)
	for id := uint64(0); len(heads) < n; {
		distance := f.uint()
		h := head{id: id + distance, at: f.micros()}
		if f.err == nil && (h.id < id || h.id <= noticed || len(heads) > 0 && (distance == 0 || h.at < heads[len(heads)-1].at)) {
			f.fail("heads that do not ascend")
		}
		if f.err != nil {
			return nil
		}
		heads, id = append(heads, h), h.id
	}
	return heads
}

func (f *form) flights(noticed uint64) []flight {
	n := f.count(minFlight)
	if n > maxFlights {
		f.fail("too many flights")
		return nil
	}
	flights := make([]flight, 0, n)
	for last := uint64(0); len(flights) < n; {
		distance, length := f.uint(), f.uint()
		one := flight{first: last + distance, since: f.micros(), seen: f.micros()}
		one.last = one.first + length
		if f.err == nil && (distance == 0 || one.first < last || one.last < one.first || one.last > noticed || len(f.rest) == 0 || f.rest[0] > flyingBit|blockBit) {
			f.fail("flights that do not ascend")
		}
		if f.err != nil {
			return nil
		}
		one.flying, one.block = f.rest[0]&flyingBit != 0, f.rest[0]&blockBit != 0
		f.rest = f.rest[1:]
		flights, last = append(flights, one), one.last
	}
	return flights
}

func (l *Ledger) restoreLeaf(c Chunk) error {
	leaf, err := parseLeaf(c.Key, c.Bytes)
	if err != nil {
		return err
	}
	s := l.missing
	if n := len(s.leaves); n > 0 && (c.Key <= s.leaves[n-1].last || leaf.oldest < s.leaves[n-1].newest) {
		return fmt.Errorf("%w: it overlaps the part before", ErrBadLedger)
	}
	if leaf.last > l.noticed {
		return fmt.Errorf("%w: it goes beyond the position", ErrBadLedger)
	}
	s.leaves = append(s.leaves, leaf)
	s.forms += len(leaf.form)
	return nil
}

// All returns the parts of the whole ledger, for a store that has none of it, and takes them for saved.
func (l *Ledger) All() []Chunk {
	l.missing.seal()
	for i := range l.missing.leaves {
		l.missing.changed[l.missing.leaves[i].key] = struct{}{}
	}
	return slices.DeleteFunc(l.Changed(), func(c Chunk) bool { return c.Bytes == nil })
}
