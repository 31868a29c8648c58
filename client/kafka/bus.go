package kafka

import (
	"cmp"
	"errors"
	"fmt"

	"example.org/bridge/client"
	"example.org/bridge/client/bus"
	"example.org/bridge/client/kafka/broker"
)

// SASL is a login by user and password, by token, or by a mechanism of your own.
type SASL = broker.SASL

// Options say how to reach Kafka. ClientID defaults to "bridge-client".
type Options = broker.Options

// Bus is a Kafka cluster.
type Bus struct{ o Options }

var _ client.Bus = (*Bus)(nil)

// New returns a bus. It does not touch the network.
func New(o Options) (*Bus, error) {
	if len(o.Brokers) == 0 {
		return nil, errors.New("client/kafka: Options.Brokers is empty: set it to host:port of one or more brokers")
	}
	o.ClientID = cmp.Or(o.ClientID, "bridge-client")
	return &Bus{o}, nil
}

// Open implements client.Bus. Reading needs DESCRIBE and READ on the topics.
func (b *Bus) Open(o client.Opening) (client.Reader, error) { return b.open(o) }

func (b *Bus) open(o client.Opening) (*broker.Reader, error) {
	for _, topic := range o.Destinations {
		if err := bus.CheckTopic(topic); err != nil {
			return nil, fmt.Errorf("kafka: %w", err)
		}
	}
	r, err := broker.Open(b.o, o.Fault)
	if err != nil {
		return nil, err
	}
	r.Follow(o.Destinations)
	return r, nil
}
