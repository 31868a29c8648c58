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
		ID: "01234567-89ab-5def-8123-456789abcdef", Type: "OrderPublishedEvent", Version: "1.0.0", Domain: "bridge", Stream: "orders", Shard: "orders",
		RowID: 123456789, Origin: sink.FromTail, Time: time.Unix(1_760_000_000, 0),
		State: sink.State{Epoch: 1_760_000_000_000, Seq: 123456, Acked: 120000, Index: 3456, Digest: [16]byte{1}, Hash: 0x5be1c2d9},
	}
	e := newEnvelope()
	b.ReportAllocs()
	for b.Loop() {
		m.RowID++
		e.fill(&m, "_INBOX.abcdefghijkl.1234", fence{id: m.DedupID(), stream: "ORDERS", sequenced: true, last: m.RowID, lastID: m.ID})
	}
}
