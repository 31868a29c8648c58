package kafka

import (
	"crypto/sha256"
	"fmt"
	"testing"
	"time"

	"example.org/bridge/sink"
)

// benchMessages are n messages of about 600 bytes that differ as rows do.
func benchMessages(n int) []sink.Message {
	messages := make([]sink.Message, n)
	for i := range messages {
		key := fmt.Appendf(nil, "DefaultDataCenter+%032x", uint64(i+1)*0x9e3779b97f4a7c15)
		value := fmt.Appendf(nil, `{"meta":{"id":"01234567-89ab-5def-8123-%012x","type":"OrderPublishedEvent","version":"1.0.0","time":%d},"data":{"key":%q`, i, i, key)
		for n := 0; len(value) < 560; n++ {
			value = fmt.Appendf(value, `,"member%d":"value %x of the row"`, n, uint64(i*n+1)*0xc2b2ae3d27d4eb4f)
		}
		digest := sha256.Sum256(fmt.Append(nil, i))
		messages[i] = sink.Message{
			Destination: "orders", Key: key, Value: append(value, "}}"...), ID: fmt.Sprintf("01234567-89ab-5def-8123-%012x", i),
			Type: "OrderPublishedEvent", Version: "1.0.0", Domain: "bridge", Stream: "orders", Shard: "orders", RowID: uint64(i + 1), Origin: sink.FromTail,
			Time:  time.Unix(1_760_000_000, 0),
			State: sink.State{Epoch: 1_760_000_000_000, Seq: uint64(123456 + i), Acked: 120000, Index: uint32(i), Hash: 0x5be1c2d9, Digest: [16]byte(digest[:])},
		}
	}
	return messages
}

// BenchmarkRecords encodes, compresses and stamps what one page of 2,000 rows brings to one of
// eight partitions.
func BenchmarkRecords(b *testing.B) {
	messages := benchMessages(250)
	size := 0
	for i := range messages {
		size += len(messages[i].Value)
	}
	for _, compression := range Compressions {
		b.Run(string(compression), func(b *testing.B) {
			c, err := newCodec(compression)
			if err != nil {
				b.Fatal(err)
			}
			var memory buffers
			onBus := 0
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				memory.records.reset()
				for i := range messages {
					if !memory.records.add(&messages[i]) {
						b.Fatal("the messages do not fit into a batch")
					}
				}
				sealed, err := memory.records.seal(memory.sealed, c)
				if err != nil {
					b.Fatal(err)
				}
				if c.append != nil {
					memory.sealed = sealed
				}
				stamp(sealed, identity{producer: 1})
				onBus = len(sealed)
			}
			b.ReportMetric(float64(b.N*len(messages))/b.Elapsed().Seconds(), "msg/s")
			b.ReportMetric(float64(onBus)/float64(len(messages)), "wireB/msg")
		})
	}
}
