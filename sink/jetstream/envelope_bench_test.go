package jetstream

import (
	"testing"
	"time"

	"bridge/sink"
)

// BenchmarkEnvelope makes a message of NATS with its headers and its fence.
func BenchmarkEnvelope(b *testing.B) {
	m := sink.Message{
		Destination: "eiffel._.OrderPublishedEvent._.bridge", Key: []byte("region+order-1"), Value: make([]byte, 600),
		ID: "01234567-89ab-5def-8123-456789abcdef", Type: "OrderPublishedEvent", Version: "1.0.0", Stream: "orders", Shard: "orders",
		RowID: 123456789, Origin: sink.FromTail, Time: time.Unix(1_760_000_000, 0),
	}
	e := newEnvelope()
	b.ReportAllocs()
	for b.Loop() {
		m.RowID++
		e.fill(&m, "_INBOX.abcdefghijkl.1234", fence{stream: "ORDERS", sequenced: true, last: m.RowID, lastID: m.ID})
	}
}
