package checkpoint_test

import (
	"crypto/sha256"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime/debug"
	"testing"
	"time"

	"bridge/checkpoint"
	"bridge/checkpoint/checkpointtest"
	"bridge/sink"
)

// journalOf returns the journal of a batch of n messages of some 700 bytes that differ as rows do,
// with their entries of the view.
func journalOf(n int) *checkpoint.Journal {
	journal := &checkpoint.Journal{After: checkpointtest.State(n)}
	journal.After.Offsets = nil
	for i := range n {
		sum := sha256.Sum256(fmt.Appendf(nil, "row %d", i))
		key := fmt.Appendf(nil, "DefaultDataCenter+%x", sum[:16])
		id := fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
		value := fmt.Appendf(nil, `{"meta":{"id":%q,"type":"OrderAddedEvent","version":"1.0.0","time":1760000000000,"source":{"domainId":"bridge",`+
			`"name":"bridge","serializer":"pkg:golang/bridge/event@1.0.0","uri":"bridge://bridge/orders"}},"data":{"id":%d,`+
			`"dataCenter":"DefaultDataCenter","revision":"%x","appName":"order-center-%d","params":"protocol=bolt;zone=zone-%d;weight=%d;note=%x;`+
			`services=com.example.order.OrderFacade:1.0,com.example.order.RefundFacade:%d.0;tags=canary,stable","deleted":"0",`+
			`"gmtCreate":"2026-02-28T23:59:%02d.%03dZ","row":{"source":"orders","table":"orders","id":%d}},"links":[]}`,
			id, i+1, sum[:16], i%97, i%7, i%100, sum[12:], i%10, i/1000%60, i%1000, i+1)
		journal.Messages = append(journal.Messages, sink.Message{
			Destination: "orders", Key: key, Value: value, ID: id, Type: "OrderAddedEvent",
			Version: "1.0.0", Stream: "orders", Shard: "orders", RowID: uint64(i + 1), Origin: sink.FromTail, Time: time.Unix(1_760_000_000, 0).UTC(),
		})
		journal.After.View = append(journal.After.View, checkpoint.Change{
			Entity: key, Known: checkpoint.Known{Row: uint64(i + 1), State: [16]byte(sum[16:]), Event: [16]byte(sum[:16]), Fate: checkpoint.Live},
		})
	}
	return journal
}

// BenchmarkAppendJournal makes the form of a batch of 2,000 messages.
func BenchmarkAppendJournal(b *testing.B) {
	journal := journalOf(2000)
	size := 0
	for i := range journal.Messages {
		size += len(journal.Messages[i].Value)
	}
	var buf []byte
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for b.Loop() {
		buf = checkpoint.AppendJournal(buf[:0], journal)
	}
	b.ReportMetric(float64(len(buf))/float64(len(journal.Messages)), "B/message")
}

// leastAllocations returns how many allocations f takes when memory that is used again is there: a
// collection drops it, so that there is none meanwhile, and the race detector does at times.
func leastAllocations(f func()) float64 {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	least := math.Inf(1)
	for range 20 {
		least = min(least, testing.AllocsPerRun(1, f))
	}
	return least
}

func TestTheFormOfAJournalIsAllocatedOnceHoweverLong(t *testing.T) {
	allocations := func(n int) float64 {
		journal := journalOf(n)
		buf := checkpoint.AppendJournal(nil, journal)
		if got := leastAllocations(func() { buf = checkpoint.AppendJournal(buf[:0], journal) }); got > 0 {
			t.Errorf("%v allocations for %d messages where there is memory", got, n)
		}
		return leastAllocations(func() { _ = checkpoint.AppendJournal(nil, journal) })
	}
	if short, long := allocations(1), allocations(2000); long > short {
		t.Errorf("%v allocations for 2,000 messages, %v for one", long, short)
	}
}

func TestBehindAJournalIsRoomForTheChecksumOfAStore(t *testing.T) {
	noise := rand.NewChaCha8([32]byte{})
	for size := range 3000 {
		value := make([]byte, size)
		_, _ = noise.Read(value)
		form := checkpoint.AppendJournal(nil, &checkpoint.Journal{Messages: []sink.Message{{Value: value}}})
		if room := cap(form) - len(form); room < 4 {
			t.Fatalf("there is room for %d bytes behind a form of %d", room, len(form))
		}
	}
}
