package kafka

import (
	"cmp"
	"crypto/tls"
	"errors"

	"example.org/bridge/client"
	"example.org/bridge/sink/kafka"
)

// SASL is a login by user and password, by token, or by a mechanism of your own.
type SASL = kafka.SASL

// Options say how to reach Kafka.
type Options struct {
	// Brokers are host:port of one or more brokers, from which the others are learned. Required.
	Brokers []string
	// ClientID names the program in the brokers' logs and quotas. Defaults to "bridge-client".
	ClientID string
	// TLS returns the configuration of each new connection. Nil means no TLS.
	TLS func() (*tls.Config, error)
	// SASL is the login. Nil means none.
	SASL *SASL
}

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
func (b *Bus) Open(o client.Opening) (client.Reader, error) {
	return kafka.Open(b.options(o))
}

func (b *Bus) options(o client.Opening) kafka.Options {
	return kafka.Options{
		Brokers: b.o.Brokers, ClientID: b.o.ClientID, TLS: b.o.TLS, SASL: b.o.SASL,
		Topics: o.Destinations, Logger: o.Logger, Fault: o.Fault,
	}
}
