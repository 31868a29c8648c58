package checkpoint_test

import (
	"crypto/sha256"
	"fmt"
	"testing"
	"time"

	"bridge/checkpoint"
	"bridge/sink"
)

// journalOf returns the journal of a batch of n messages of some 700 bytes that differ as rows do, with their entries of the view.
func journalOf(n int) *checkpoint.Journal {
	journal := &checkpoint.Journal{}
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
			Version: "1.0.0", Stream: "orders", Shard: "orders", RowID: uint64(i + 1), Origin: sink.FromTail, Time: time.Unix(1_760_000_000, 0),
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

func TestTheFormOfAJournalIsAllocatedOnceHoweverLong(t *testing.T) {
	allocations := func(n int) float64 {
		journal := journalOf(n)
		return testing.AllocsPerRun(10, func() { _ = checkpoint.AppendJournal(nil, journal) })
	}
	if short, long := allocations(1), allocations(2000); long > short {
		t.Errorf("%v allocations for 2,000 messages, %v for one", long, short)
	}
}
