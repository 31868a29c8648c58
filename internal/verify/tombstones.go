package verify

import "bytes"

// tombstones judges messages without a body: each follows the deleted event of its key in its
// partition, and has the event's id.
type tombstones struct {
	// events are the deleted events read last, by partition.
	events map[int]deletedEvent
	// alone are tombstones that follow none: compaction removes the event first.
	alone map[whose]*Finding
}

type deletedEvent struct {
	id  string
	key []byte
}

// whose says which shard and which partition tombstones are of.
type whose struct {
	shard     *shard
	partition int
}

func newTombstones() tombstones {
	return tombstones{events: make(map[int]deletedEvent), alone: make(map[whose]*Finding)}
}

// deleted takes in a deleted event.
func (t *tombstones) deleted(m *Message, e *envelope) {
	last := t.events[m.Partition]
	t.events[m.Partition] = deletedEvent{string(e.id), append(last.key[:0], m.Key...)}
}

// note takes in a tombstone.
func (t *tombstones) note(s *shard, m *Message) {
	s.tombstones++
	if last, ok := t.events[m.Partition]; ok && last.id == m.Header.ID && bytes.Equal(last.key, m.Key) {
		return
	}
	found := t.alone[whose{s, m.Partition}]
	if found == nil {
		found = &Finding{Fault: Altered}
		t.alone[whose{s, m.Partition}] = found
	}
	if found.Count++; len(found.Examples) < s.tally.most {
		found.Examples = append(found.Examples, Example{Shard: s.Name, Event: m.Header.ID, Key: string(m.Key), At: m.At, partition: m.Partition,
			What: "it has no body, and the message before it is not the deleted event with its id and key"})
	}
}

// finish reports tombstones that follow no deleted event, where the bus removes none by its own
// rules.
func (t *tombstones) finish(partitions []Partition) {
	for of, found := range t.alone {
		if p := partitions[of.partition]; !p.Expired && !p.Thinned {
			of.shard.tally.faults(found.Fault, found.Count, found.Examples)
		}
	}
}
