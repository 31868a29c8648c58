package checkpoint_test

import (
	"fmt"
	"testing"
	"time"

	"bridge/checkpoint"
	"bridge/sink"
)

// BenchmarkAppendJournal makes the form of a batch of 2,000 messages of 600 bytes, with their entries of the view.
func BenchmarkAppendJournal(b *testing.B) {
	journal := &checkpoint.Journal{}
	for i := range 2000 {
		key := fmt.Appendf(nil, "DefaultDataCenter+%032x", i)
		journal.Messages = append(journal.Messages, sink.Message{
			Destination: "orders", Key: key, Value: make([]byte, 600), ID: "01234567-89ab-5def-8123-456789abcdef", Type: "OrderAddedEvent",
			Version: "1.0.0", Stream: "orders", Shard: "orders", RowID: uint64(i + 1), Origin: sink.FromTail, Time: time.Unix(1_760_000_000, 0),
		})
		journal.After.View = append(journal.After.View, checkpoint.Change{
			Entity: key, Known: checkpoint.Known{Row: uint64(i + 1), State: [16]byte{1}, Event: [16]byte{2}, Fate: checkpoint.Live},
		})
	}
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = checkpoint.AppendJournal(buf[:0], journal)
	}
	b.SetBytes(int64(len(buf)))
}
