package verify

import (
	"math/rand/v2"
	"testing"

	"example.org/bridge/checkpoint/store"
	recovery "example.org/bridge/internal/stream"
	"example.org/bridge/sink"
)

// TestOrderIsThatOfCatchUp has random messages of an entity in three partitions, in the order in
// which they are read: the last one is that which catch-up has.
func TestOrderIsThatOfCatchUp(t *testing.T) {
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 3))
		var n entity
		var entry store.Entry
		for offset := range uint64(12) {
			m := &Message{Stored: sink.Stored{Offset: offset}, partition: random.IntN(3)}
			this := order{epoch: 1 + random.Uint64N(3), seq: random.Uint64N(4)}
			followed := offset == 0 || n.follows(m, this)
			if offset == 0 {
				n.stamp = this
			}
			if followed {
				n.partition, n.at = uint16(m.partition), m.Offset
			}
			next, applied := recovery.Apply(entry, &recovery.Message{
				State: sink.State{Epoch: this.epoch, Seq: this.seq}, At: store.At{TP: uint32(m.partition) + 1, Offset: offset},
			})
			entry = next
			if followed != applied || n.stamp != (order{entry.Epoch, entry.Seq}) || n.overtaken != entry.Disputed {
				t.Fatalf("seed %d, offset %d: %v, %+v; catch-up: %v, %+v", seed, offset, followed, n, applied, entry)
			}
		}
	}
}
