package verify

import (
	"cmp"
	"fmt"
)

// homes find the last messages of entities and rows that lie in another partition than that of
// their key: consumers that share the partitions would see these entities in two orders.
type homes struct {
	partitions []Partition
	// counts are the partitions of each topic.
	counts map[string]int
	// first are the lowest stamps of each partition, zero for none.
	first []order
}

// order is a stamp as it orders messages.
type order struct{ epoch, seq uint64 }

func (a order) compare(b order) int {
	return cmp.Or(cmp.Compare(a.epoch, b.epoch), cmp.Compare(a.seq, b.seq))
}

// strays are the messages that lie elsewhere, by entity or row.
type strays map[uint64]stray

type stray struct {
	shard     *shard
	order     order
	hash      uint32
	row, at   uint64
	partition int
}

func newHomes(partitions []Partition) *homes {
	h := &homes{partitions: partitions, counts: make(map[string]int), first: make([]order, len(partitions))}
	for _, p := range partitions {
		h.counts[p.Destination]++
	}
	return h
}

// see takes in the stamp of a message.
func (h *homes) see(m *Message, this *stamp) {
	at := order{this.epoch, this.seq}
	if first := &h.first[m.Partition]; this.epoch != 0 && (first.epoch == 0 || at.compare(*first) < 0) {
		*first = at
	}
}

// note takes in the last message of an entity or a row. One without a stamp is not judged.
func (h *homes) note(list strays, id uint64, s *shard, m *Message, row uint64, this *stamp) {
	p := h.partitions[m.Partition]
	if p.Destination == "" || this.epoch == 0 || m.Hash%uint32(h.counts[p.Destination]) == uint32(p.Number) {
		delete(list, id)
		return
	}
	list[id] = stray{shard: s, order: order{this.epoch, this.seq}, hash: m.Hash, row: row, at: m.At, partition: m.Partition}
}

// finish reports the messages that lay elsewhere when they were published, too: the topic may have
// got partitions since. It had those by then in which a message of ours with a lower stamp lies.
func (h *homes) finish(list strays) {
	for _, one := range list {
		p := h.partitions[one.partition]
		least := p.Number + 1
		for i, other := range h.partitions {
			if other.Destination == p.Destination && h.first[i].epoch != 0 && h.first[i].compare(one.order) <= 0 {
				least = max(least, other.Number+1)
			}
		}
		right, explained := 0, false
		for n := least; n <= h.counts[p.Destination]; n++ {
			right = int(one.hash % uint32(n))
			explained = explained || right == p.Number
		}
		if !explained {
			one.shard.tally.fault(OtherPartition, Example{Shard: one.shard.Name, Row: one.row, At: one.at, partition: one.partition,
				What: fmt.Sprintf("the partition of its key is %d", right)})
		}
	}
}
