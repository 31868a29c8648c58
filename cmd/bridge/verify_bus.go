package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"bridge/internal/verify"
	verifyjetstream "bridge/internal/verify/jetstream"
	verifykafka "bridge/internal/verify/kafka"
	"bridge/sink"
	"bridge/sink/embedded"
)

// reading is what a command reads of the bus: whole topics, or subjects.
type reading struct {
	topics, subjects []string
	// command names it in errors.
	command string
}

// openVerifyBus opens the bus of cfg for reading.
func openVerifyBus(ctx context.Context, cfg *Config) (verify.Bus, error) {
	return openReading(ctx, cfg, reading{cfg.topics(), cfg.published(), "bridge verify"})
}

func openReading(ctx context.Context, cfg *Config, what reading) (verify.Bus, error) {
	switch cfg.Sink.Scheme {
	case "kafka":
		return verifykafka.Open(ctx, verifyKafkaOptions(cfg, what.topics))
	case "nats":
		return verifyjetstream.Open(ctx, verifyNATSOptions(cfg, what.subjects))
	case "embedded":
		return openVerifyEmbedded(ctx, cfg, what)
	default:
		return nil, fmt.Errorf("what bridge has printed cannot be read back: %s needs a sink that keeps its messages, as kafka: nats: and embedded: do", what.command)
	}
}

func verifyKafkaOptions(cfg *Config, topics []string) verifykafka.Options {
	k := cfg.Sink.Kafka
	o := verifykafka.Options{Brokers: k.Brokers, Topics: topics, Mechanism: k.Mechanism, Username: k.Username, Password: k.Password}
	if k.UseTLS {
		o.TLS = k.TLS.config()
	}
	return o
}

func verifyNATSOptions(cfg *Config, subjects []string) verifyjetstream.Options {
	n := cfg.Sink.NATS
	o := verifyjetstream.Options{Stream: n.Stream, Subjects: subjects, Password: n.Login, Creds: n.Creds, NkeySeed: n.NKey}
	for _, server := range n.Servers {
		o.URLs = append(o.URLs, "nats://"+server)
	}
	if n.TLS.given() {
		o.TLS = n.TLS.config()
	}
	return o
}

// embeddedBus reads from a server that was started for it.
type embeddedBus struct {
	verify.Bus
	server *embedded.Sink
}

func (b *embeddedBus) Close() error { return errors.Join(b.Bus.Close(), b.server.Close()) }

// unusedSink stands in the place of a sink where a server is to be read only.
type unusedSink struct{ sink.Sink }

func (unusedSink) Close() error { return nil }

// openVerifyEmbedded reads a running server through its listener, or starts the server where none runs.
func openVerifyEmbedded(ctx context.Context, cfg *Config, what reading) (verify.Bus, error) {
	e := cfg.Sink.Embedded
	o := verifyjetstream.Options{Stream: e.Stream, Subjects: what.subjects}
	if e.Listen != "" {
		o.URLs = []string{"nats://" + e.Listen}
		quick, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		if bus, err := verifyjetstream.Open(quick, o); err == nil {
			return bus, nil
		}
	}
	if _, err := os.Stat(e.Dir); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no folder %s: bridge has published nothing there yet", e.Dir)
	}
	// Without a stream and a listener: nothing is changed, and nobody is let in.
	server, err := embedded.Open(embedded.Options{Dir: e.Dir, Logger: slog.New(slog.DiscardHandler)}, func(conns embedded.Conns) (sink.Sink, error) {
		o.InProcess = conns
		return unusedSink{}, nil
	})
	if err != nil {
		return nil, fmt.Errorf("%w (where that is bridge: stop it, or let %s in with ?listen=127.0.0.1:4222 behind embedded: in BRIDGE_SINK_URL)", err, what.command)
	}
	bus, err := verifyjetstream.Open(ctx, o)
	if err != nil {
		return nil, errors.Join(err, server.Close())
	}
	return &embeddedBus{bus, server}, nil
}
