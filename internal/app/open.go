package app

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"

	"example.org/bridge/internal/config"
	"example.org/bridge/internal/driver"
	"example.org/bridge/internal/verify"
)

const (
	// maxReads bounds the reads of all tails of a source at the same time, each on its own
	// connection.
	maxReads = 8
	// scanReads is how many further connections reconcile has, and keyReads those for reads by key,
	// so that they take none from the tails.
	scanReads = 1
	keyReads  = 2
)

// mostConns returns how many connections to each source there are at most.
func mostConns(cfg *config.Config) int {
	n := maxReads + scanReads + keyReads
	if cfg.Serve {
		n += serveReads
	}
	return n
}

// useOf returns what the bus of a configuration is used for. Without a logger nothing is logged.
func useOf(cfg *config.Config, logger *slog.Logger) driver.Use {
	u := driver.Use{Domain: cfg.DomainID, Streams: cfg.StreamNames(), Logger: cmp.Or(logger, slog.New(slog.DiscardHandler))}
	if cfg.Sink.Destinations.Topics {
		u.Topics, u.Uncompactable, u.Asked = cfg.Topics(), cfg.Uncompactable(), cfg.AskedTopics()
	} else {
		u.Subjects, u.Published, u.Readable = cfg.Subjects(), cfg.Published(), cfg.Readable()
	}
	return u
}

// shared returns the driver of a bus that several processes can share: the configuration has
// checked that it is one.
func shared(cfg *config.Config) driver.Shared { return cfg.Sink.Driver.(driver.Shared) }

// OpenReading opens the bus of cfg for reading, with connections of its own. logger is told what is
// waited for; nil discards it.
func OpenReading(ctx context.Context, cfg *config.Config, logger *slog.Logger, what driver.Reading) (verify.Bus, error) {
	bus, able := cfg.Sink.Driver.(driver.Readable)
	if !able {
		return nil, fmt.Errorf("what bridge has printed cannot be read back: %s needs a sink that keeps its messages, as kafka: nats: and embedded: do", what.Command)
	}
	return bus.Read(ctx, useOf(cfg, logger), what)
}
