package jetstream

import (
	"context"
	"strings"

	"example.org/bridge/internal/buscopy"
	"example.org/bridge/internal/natskv"
	"example.org/bridge/sink"
)

// Bus is a sink for one stream, which it makes where that is missing.
type Bus interface {
	buscopy.Bus
	// Purge removes the messages of subjects.
	Purge(ctx context.Context, stream string, subjects []string) error
}

// New returns a KV bucket. bus is of this bucket alone.
//
// The bucket is written and read like a stream: so all that was put before is read, from the
// leader, where a direct get may answer from a replica that is behind.
func New(bus Bus, bucket string) *buscopy.Messages {
	begin := strings.TrimSuffix(natskv.Subjects(bucket), ">")
	return buscopy.NewMessages(buscopy.MessagesOptions{
		Bus: bus, Read: natskv.Subjects(bucket),
		Destination: func(key string) string { return begin + key },
		Key:         func(m *sink.Stored) string { return strings.TrimPrefix(m.Destination, begin) },
		Delete: func(ctx context.Context, keys []string) error {
			subjects := make([]string, len(keys))
			for i, key := range keys {
				subjects[i] = begin + key
			}
			return bus.Purge(ctx, natskv.Stream(bucket), subjects)
		},
	})
}
