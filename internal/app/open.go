package app

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"

	"example.org/bridge/internal/config"
	"example.org/bridge/internal/driver"
	"example.org/bridge/internal/verify"
	"example.org/bridge/sink"
	"example.org/bridge/source"
)

const (
	// maxReads bounds the reads of all tails at the same time, each on its own connection.
	maxReads = 8
	// scanReads is how many further connections reconcile has, and keyReads those for reads by key,
	// so that they take none from the tails.
	scanReads = 1
	keyReads  = 2
)

// mostConns returns how many connections to the source there are at most.
func mostConns(cfg *config.Config) int {
	n := maxReads + scanReads + keyReads
	if cfg.Serve {
		n += serveReads
	}
	return n
}

// OpenSource opens the source of a configuration. It connects at the first read.
func OpenSource(cfg *config.Config, logger *slog.Logger) (source.Source, error) {
	return cfg.Source.Driver.Open(mostConns(cfg), logger)
}

// hooks are what a sink calls.
type hooks struct {
	fault   sink.Fault
	session func(tp string)
}

func openSink(cfg *config.Config, logger *slog.Logger, h hooks) (sink.Sink, error) {
	u := useOf(cfg, logger)
	u.Fault, u.Session = h.fault, h.session
	return cfg.Sink.Driver.Open(u)
}

// useOf returns what the bus of a configuration is used for.
func useOf(cfg *config.Config, logger *slog.Logger) driver.Use {
	u := driver.Use{Domain: cfg.DomainID, Streams: cfg.StreamNames(), Logger: logger}
	if cfg.Sink.Destinations.Topics {
		u.Topics, u.Uncompactable, u.Asked = cfg.Topics(), cfg.Uncompactable(), cfg.AskedTopics()
	} else {
		u.Subjects, u.Published, u.Readable = cfg.Subjects(), cfg.Published(), cfg.Readable()
	}
	return u
}

// Reading names what a command reads from the bus.
type Reading struct {
	driver.Reading
	// Logger is told what is waited for. Nil discards it.
	Logger *slog.Logger
}

// OpenReading opens the bus of cfg for reading, with connections of its own.
func OpenReading(ctx context.Context, cfg *config.Config, what Reading) (verify.Bus, error) {
	bus, able := cfg.Sink.Driver.(driver.Readable)
	if !able {
		return nil, fmt.Errorf("what bridge has printed cannot be read back: %s needs a sink that keeps its messages, as kafka: nats: and embedded: do", what.Command)
	}
	return bus.Read(ctx, useOf(cfg, cmp.Or(what.Logger, slog.New(slog.DiscardHandler))), what.Reading)
}
