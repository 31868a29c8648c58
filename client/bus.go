package client

import (
	"context"
	"log/slog"

	"bridge/sink"
)

// Bus is where a stream is published: a client/kafka.Bus or a client/jetstream.Bus. It holds no
// connection of its own and is safe for concurrent use.
type Bus interface {
	// Open returns a reader of destinations, which the caller closes. It does not touch the
	// network.
	Open(o Opening) (Reader, error)
	// Consume hands out the messages of s.Destinations to the processes of s.Group until ctx ends,
	// and returns nil then. It retries for ever what may heal.
	//
	// The messages of a TP come in their order, one after the other, and those of different TPs
	// side by side. Those that a process has not handled come again, to it or to another one. The
	// context of each ends when its TP is taken away; an error of each ends Consume with that
	// error.
	Consume(ctx context.Context, s Subscription, each func(ctx context.Context, tp string, m *sink.Stored) error) error
}

// Reader is a sink.Reader with connections of its own.
type Reader interface {
	sink.Reader
	Close() error
}

// Opening says what to read.
type Opening struct {
	// Destinations are topics, or subjects that may hold wildcards.
	Destinations []string
	// Logger is told of outages. Fault is called with each fault that is retried.
	Logger *slog.Logger
	Fault  sink.Fault
}

// Subscription says what a process of a group consumes.
type Subscription struct {
	Opening
	// Group is the consumer group of Kafka, or the durable consumer of JetStream.
	Group string
	// Joined is called when this process takes part in the group, and again behind a fault.
	Joined func()
	// Expired is called where the bus has removed messages of a TP before they were handed out.
	Expired func(tp string, err error)
}
