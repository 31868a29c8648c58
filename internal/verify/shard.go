package verify

import (
	"math"
	"slices"

	"bridge/event"
)

// shard is one table with what the bus says of it.
type shard struct {
	schema
	tally *tally
	// head is the newest message of the stream.
	head *newest

	// scope is that of a capability shard, which is table number number there.
	scope  *scope
	number uint16
	*entities
	*facts
	counters
	// tails holds the first row that the tail published in each partition, newest the highest of
	// all.
	tails  map[int]uint64
	newest uint64
	// rejected are rows in the dead letters.
	rejected map[uint64]struct{}
	// refused are the events in the dead letters.
	refused map[[16]byte]struct{}
	// doubted are the events that lossy columns may explain; behind counts missing rows above
	// newest.
	doubted map[doubtful]*Finding
	behind  uint64
	shapes  shapes
	// last is the last attempt to run the shard, firstRow and lastRow are the ids of its rows.
	last              attempt
	firstRow, lastRow uint64
	homes             *homes
}

// counters count what a shard has: its events, those that are repeats, those with a stamp, those
// whose meta.id proves nothing, the rows that were read from the table, and messages without a
// body.
type counters struct{ events, repeats, stamped, unproven, rows, tombstones uint64 }

func newShard(o Shard, domain string, t *tally, n *newest) *shard {
	s := &shard{
		schema: newSchema(o, domain), tally: t, head: n,
		tails: make(map[int]uint64), rejected: make(map[uint64]struct{}), refused: make(map[[16]byte]struct{}), doubted: make(map[doubtful]*Finding),
	}
	if o.Kind == event.Release {
		s.facts = newFacts()
	}
	return s
}

// example begins an example about an event.
func (s *shard) example(m *Message, e *envelope, what string) Example {
	return Example{Shard: s.Name, Row: e.row, Key: s.keyText(e.row), Event: string(e.id), At: m.At, What: what, partition: m.Partition}
}

// uses reports whether events of the shard may lie in a partition.
func (s *shard) uses(p Partition) bool {
	return p.Destination == "" || slices.Contains(s.Destinations, p.Destination)
}

// noteTail remembers where the tail was when the bus began.
func (s *shard) noteTail(partition int, row uint64) {
	if _, known := s.tails[partition]; !known {
		s.tails[partition] = row
	}
	s.newest = max(s.newest, row)
}

// expectedFrom returns the first row that must have an event, by START and by what has expired, and
// why rows below it need none.
func (s *shard) expectedFrom(partitions []Partition) (uint64, Unjudged) {
	from, why := uint64(0), NotFromBeginning
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
			from, why = first, Expired
		}
	}
	return from, why
}
