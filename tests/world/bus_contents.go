package world

import (
	"strconv"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
)

// Heal undoes what was done to the server.
func (b *Bus) Heal(t testing.TB) {
	t.Helper()
	if b.Kafka != nil {
		b.Kafka.Heal(t)
	} else {
		b.NATS.Heal(t)
	}
}

// Remake deletes the topic or stream of a destination and makes it again, empty.
func (b *Bus) Remake(t testing.TB, name string) {
	t.Helper()
	if b.Kafka != nil {
		b.Kafka.DeleteTopic(t, name)
	} else if err := b.NATS.JetStream(t).DeleteStream(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	b.Open(t, name)
}

// Expire removes from a topic or stream all but the newest messages, as a retention does: so many
// stay in each partition, or in the stream.
func (b *Bus) Expire(t testing.TB, name string, keep int64) {
	t.Helper()
	if b.Kafka != nil {
		firsts := b.ends(t, name)
		for partition, end := range firsts {
			firsts[partition] = max(0, end-keep)
		}
		b.deleteRecords(t, name, firsts)
		return
	}
	stream, err := b.NATS.JetStream(t).Stream(t.Context(), name)
	if err == nil {
		err = stream.Purge(t.Context(), jetstream.WithPurgeKeep(uint64(keep)))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Limit bounds the messages that a topic or stream takes, in bytes; 0 is the bus's default.
func (b *Bus) Limit(t testing.TB, name string, bytes int) {
	t.Helper()
	if b.Kafka != nil {
		var limit *string
		if bytes > 0 {
			text := strconv.Itoa(bytes)
			limit = &text
		}
		b.Kafka.ConfigureTopic(t, name, map[string]*string{"max.message.bytes": limit})
		return
	}
	if bytes == 0 {
		bytes = -1
	}
	b.Configure(t, name, func(c *jetstream.StreamConfig, _ jetstream.StreamState) { c.MaxMsgSize = int32(bytes) })
}

// Snapshot returns a copy of all that the bus holds, Restore puts it back.
func (b *Bus) Snapshot(t testing.TB) string {
	t.Helper()
	if b.Kafka != nil {
		return b.Kafka.Snapshot(t)
	}
	return b.NATS.Snapshot(t)
}

// Restore has the bus hold what a snapshot holds, and nothing else.
func (b *Bus) Restore(t testing.TB, snapshot string) {
	t.Helper()
	if b.Kafka != nil {
		b.Kafka.Restore(t, snapshot)
	} else {
		b.NATS.Restore(t, snapshot)
	}
}
