package buscopy

import (
	"context"
	"fmt"
	"strings"

	"example.org/bridge/internal/natskv"
	"example.org/bridge/sink"
)

// NewTopic returns the bucket in a compacted topic of Kafka with one partition, which is not
// created: create is the command that does. bus is of this bucket alone.
func NewTopic(bus Bus, topic, create string) *Messages {
	return NewMessages(MessagesOptions{
		Bus: bus, Read: topic,
		Destination: func(string) string { return topic },
		Key:         func(m *sink.Stored) string { return string(m.Key) },
		Usable: func(tps []sink.TP) error {
			switch n := len(tps); {
			case n == 0:
				return fmt.Errorf("%w: topic %s does not exist, or DESCRIBE on it is not granted: create it: %s", ErrMissing, topic, create)
			case n > 1:
				return fmt.Errorf("%s has %d partitions, and the order of one is needed: make it again: %s", topic, n, create)
			}
			return nil
		},
	})
}

// Purger is a sink of JetStream for one stream, which it makes where that is missing.
type Purger interface {
	Bus
	// Only returns a reader over the same connection that reads a subject with wildcards alone.
	Only(subject string) sink.Reader
	// Purge removes the messages of subjects.
	Purge(ctx context.Context, stream string, subjects []string) error
}

// NewKV returns a KV bucket of JetStream. bus is of this bucket alone.
//
// The bucket is written and read like a stream: so all that was put before is read, from the
// leader, where a direct get may answer from a replica that is behind.
func NewKV(bus Purger, bucket string) *Messages {
	begin := strings.TrimSuffix(natskv.Subjects(bucket), ">")
	return NewMessages(MessagesOptions{
		Bus: bus, Read: natskv.Subjects(bucket),
		Destination: func(key string) string { return begin + key },
		Key:         func(m *sink.Stored) string { return strings.TrimPrefix(m.Destination, begin) },
		Only: func(prefix string) sink.Reader {
			return bus.Only(begin + prefix[:strings.LastIndexByte(prefix, '.')+1] + ">")
		},
		Delete: func(ctx context.Context, keys []string) error {
			subjects := make([]string, len(keys))
			for i, key := range keys {
				subjects[i] = begin + key
			}
			return bus.Purge(ctx, natskv.Stream(bucket), subjects)
		},
	})
}
