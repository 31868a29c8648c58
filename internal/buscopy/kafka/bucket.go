package kafka

import (
	"fmt"

	"example.org/bridge/internal/buscopy"
	"example.org/bridge/sink"
)

// New returns the bucket in a topic, which is to be compacted and is not created: create is the
// command that does. bus is of this bucket alone.
func New(bus buscopy.Bus, topic, create string) *buscopy.Messages {
	return buscopy.NewMessages(buscopy.MessagesOptions{
		Bus: bus, Read: topic,
		Destination: func(string) string { return topic },
		Key:         func(m *sink.Stored) string { return string(m.Key) },
		Usable: func(tps []sink.TP) error {
			switch n := len(tps); {
			case n == 0:
				return fmt.Errorf("%w: topic %s does not exist, or DESCRIBE on it is not granted: create it: %s", buscopy.ErrMissing, topic, create)
			case n > 1:
				return fmt.Errorf("%s has %d partitions, and the order of one is needed: make it again: %s", topic, n, create)
			}
			return nil
		},
	})
}
