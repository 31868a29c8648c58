package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"bridge/internal/config"
	"bridge/internal/option"
	"bridge/internal/verify"
	verifyjetstream "bridge/internal/verify/jetstream"
	verifykafka "bridge/internal/verify/kafka"
	"bridge/sink"
	"bridge/sink/embedded"
)

// Reading is what a command reads of the bus: whole topics, or subjects.
type Reading struct {
	Topics, Subjects []string
	// Command names it in errors.
	Command string
}

// OpenReading opens the bus of cfg for reading.
func OpenReading(ctx context.Context, cfg *config.Config, what Reading) (verify.Bus, error) {
	switch cfg.Sink.Scheme {
	case "kafka":
		return verifykafka.Open(ctx, verifyKafkaOptions(cfg, what.Topics))
	case "nats":
		return verifyjetstream.Open(ctx, verifyNATSOptions(cfg, what.Subjects))
	case "embedded":
		return openVerifyEmbedded(ctx, cfg, what)
	default:
		return nil, fmt.Errorf("what bridge has printed cannot be read back: %s needs a sink that keeps its messages, as kafka: nats: and embedded: do", what.Command)
	}
}

func verifyKafkaOptions(cfg *config.Config, topics []string) verifykafka.Options {
	k := cfg.Sink.Kafka
	o := verifykafka.Options{Brokers: k.Brokers, Topics: topics, Mechanism: k.Mechanism, Username: k.Username, Password: k.Password}
	if k.UseTLS {
		o.TLS = k.TLS.Config()
	}
	return o
}

func verifyNATSOptions(cfg *config.Config, subjects []string) verifyjetstream.Options {
	n := cfg.Sink.NATS
	o := verifyjetstream.Options{Stream: n.Stream, Subjects: subjects, Password: n.Login, Creds: n.Creds, NkeySeed: n.NKey}
	for _, server := range n.Servers {
		o.URLs = append(o.URLs, "nats://"+server)
	}
	if n.TLS.Given() {
		o.TLS = n.TLS.Config()
	}
	return o
}

// embeddedBus reads from a server that was started for it.
type embeddedBus struct {
	verify.Bus
	server *embedded.Sink
}

func (b *embeddedBus) Close() error { return errors.Join(b.Bus.Close(), b.server.Close()) }

// unusedSink stands for a sink where a server is to be read only.
type unusedSink struct{ sink.Sink }

func (unusedSink) Close() error { return nil }

// openVerifyEmbedded reads a running server through its listener, or starts the server where none
// runs.
func openVerifyEmbedded(ctx context.Context, cfg *config.Config, what Reading) (verify.Bus, error) {
	e := cfg.Sink.Embedded
	o := verifyjetstream.Options{Stream: e.Stream, Subjects: what.Subjects}
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
		return nil, option.Errorf("%w (where that is bridge: stop it, or let %s in with ?listen=127.0.0.1:4222 in %s, after embedded:)", err, what.Command, option.SinkURL)
	}
	bus, err := verifyjetstream.Open(ctx, o)
	if err != nil {
		return nil, errors.Join(err, server.Close())
	}
	return &embeddedBus{bus, server}, nil
}
