package app

import (
	"cmp"
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
	"bridge/internal/verify/bus"
	"bridge/sink"
	"bridge/sink/embedded"
	"bridge/sink/jetstream"
	"bridge/sink/kafka"
)

// Reading names what a command reads from the bus: whole topics, or subjects.
type Reading struct {
	Topics, Subjects []string
	// Command is the name of the command in errors.
	Command string
	// Logger is told what is waited for. Nil discards it.
	Logger *slog.Logger
}

// giveUpAfter is how long a command waits for a bus that does not answer.
const giveUpAfter = 30 * time.Second

// OpenReading opens the bus of cfg for reading, with connections of its own.
func OpenReading(ctx context.Context, cfg *config.Config, what Reading) (verify.Bus, error) {
	switch cfg.Sink.Scheme {
	case "kafka":
		return openReadingKafka(ctx, cfg, what)
	case "nats":
		return openReadingNATS(ctx, natsOptions(cfg, what.Logger, hooks{}), what)
	case "embedded":
		return openReadingEmbedded(ctx, cfg, what)
	default:
		return nil, fmt.Errorf("what bridge has printed cannot be read back: %s needs a sink that keeps its messages, as kafka: nats: and embedded: do", what.Command)
	}
}

func openReadingKafka(ctx context.Context, cfg *config.Config, what Reading) (verify.Bus, error) {
	o := kafkaOptions(cfg, cmp.Or(what.Logger, slog.New(slog.DiscardHandler)), hooks{})
	o.ClientID, o.Topics, o.GiveUpAfter = "bridge-verify", what.Topics, giveUpAfter
	reader, err := kafka.Open(o)
	if err != nil {
		return nil, err
	}
	return bus.Open(ctx, bus.Options{Reader: reader, Topics: what.Topics})
}

// openReadingNATS reads what the options name the streams of.
func openReadingNATS(ctx context.Context, o jetstream.Options, what Reading) (verify.Bus, error) {
	o.Name, o.GiveUpAfter, o.CreateStream = "bridge verify", giveUpAfter, false
	o.Published, o.Readable = what.Subjects, what.Subjects
	reader, err := jetstream.Open(o)
	if err != nil {
		return nil, err
	}
	return bus.Open(ctx, bus.Options{Reader: reader, Subjects: what.Subjects, Stream: o.Stream})
}

// embeddedBus reads from a server that was started for it.
type embeddedBus struct {
	verify.Bus
	server *embedded.Sink
}

func (b *embeddedBus) Close() error { return errors.Join(b.Bus.Close(), b.server.Close()) }

// unusedSink is the sink of a server that is only read.
type unusedSink struct{ sink.Sink }

func (unusedSink) Close() error { return nil }

// openReadingEmbedded reads from a running server through its listener, or starts a server if none
// runs.
func openReadingEmbedded(ctx context.Context, cfg *config.Config, what Reading) (verify.Bus, error) {
	e := cfg.Sink.Embedded
	o := jetstream.Options{Stream: e.Stream}
	if e.Listen != "" {
		o.URLs = []string{"nats://" + e.Listen}
		quick, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		if running, err := openReadingNATS(quick, o, what); err == nil {
			return running, nil
		}
	}
	if _, err := os.Stat(e.Dir); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no folder %s: bridge has published nothing there yet", e.Dir)
	}
	// Without a stream and a listener, nothing is changed and nobody else can connect.
	server, err := embedded.Open(embedded.Options{Dir: e.Dir, Logger: slog.New(slog.DiscardHandler)}, func(conns embedded.Conns) (sink.Sink, error) {
		o.InProcess = conns
		return unusedSink{}, nil
	})
	if err != nil {
		return nil, option.Errorf("%w (where that is bridge: stop it, or let %s in with ?listen=127.0.0.1:4222 in %s, after embedded:)", err, what.Command, option.SinkURL)
	}
	own, err := openReadingNATS(ctx, o, what)
	if errors.Is(err, bus.ErrNothing) {
		err = fmt.Errorf("the server in %s has no stream %s: bridge has published nothing there yet", e.Dir, e.Stream)
	}
	if err != nil {
		return nil, errors.Join(err, server.Close())
	}
	return &embeddedBus{own, server}, nil
}
