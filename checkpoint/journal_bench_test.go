package checkpoint_test

import (
	"fmt"
	"testing"
	"time"

	"bridge/checkpoint"
	"bridge/sink"
)

// journalOf returns the journal of a batch of n messages of 600 bytes, with their entries of the view.
func journalOf(n int) *checkpoint.Journal {
	journal := &checkpoint.Journal{}
	for i := range n {
		key := fmt.Appendf(nil, "DefaultDataCenter+%032x", i)
		journal.Messages = append(journal.Messages, sink.Message{
			Destination: "orders", Key: key, Value: make([]byte, 600), ID: "01234567-89ab-5def-8123-456789abcdef", Type: "OrderAddedEvent",
			Version: "1.0.0", Stream: "orders", Shard: "orders", RowID: uint64(i + 1), Origin: sink.FromTail, Time: time.Unix(1_760_000_000, 0),
		})
		journal.After.View = append(journal.After.View, checkpoint.Change{
			Entity: key, Known: checkpoint.Known{Row: uint64(i + 1), State: [16]byte{1}, Event: [16]byte{2}, Fate: checkpoint.Live},
		})
	}
	return journal
}

// BenchmarkAppendJournal makes the form of a batch of 2,000 messages.
func BenchmarkAppendJournal(b *testing.B) {
	journal := journalOf(2000)
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = checkpoint.AppendJournal(buf[:0], journal)
	}
	b.SetBytes(int64(len(buf)))
}

func TestTheFormOfAJournalIsAllocatedOnceHoweverLong(t *testing.T) {
	allocations := func(n int) float64 {
		journal := journalOf(n)
		return testing.AllocsPerRun(10, func() { _ = checkpoint.AppendJournal(nil, journal) })
	}
	if short, long := allocations(1), allocations(2000); long > short {
		t.Errorf("%v allocations for 2,000 messages, %v for one", long, short)
	}
}
