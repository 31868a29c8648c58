package app

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"

	"example.org/bridge/internal/config"
	"example.org/bridge/internal/driver"
	"example.org/bridge/internal/verify"
	"example.org/bridge/source"
)

// maxReads bounds the reads of all tails of a source at the same time, each on its own connection,
// where the source has no bound of connections.
const maxReads = 8

// connsOf returns the connections of a source, and how many of them are for tails. The others that
// read are for reconciles, for reads by key and for entities that are asked for: none of these
// takes one from the tails, and none waits for another.
func connsOf(cfg *config.Config, of *config.Source) (conns source.Conns, tails int) {
	others := config.OtherReads(cfg.Serve)
	conns = source.Conns{Readers: maxReads + others, Most: of.Connections}
	if conns.Most > 0 {
		conns.Readers = of.Readers(conns.Most)
	}
	return conns, conns.Readers - others
}

// useOf returns what the bus of a configuration is used for. Without a logger nothing is logged.
func useOf(cfg *config.Config, logger *slog.Logger) driver.Use {
	u := driver.Use{Share: cfg.Share.Name(), Domain: cfg.DomainID, Streams: cfg.StreamNames(), Logger: cmp.Or(logger, slog.New(slog.DiscardHandler))}
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
func OpenReading(ctx context.Context, cfg *config.Config, logger *slog.Logger, what driver.Reading) (*verify.Bus, error) {
	bus, able := cfg.Sink.Driver.(driver.Readable)
	if !able {
		return nil, fmt.Errorf("what bridge has printed cannot be read back: %s needs a sink that keeps its messages, as kafka: nats: and embedded: do", what.Command)
	}
	return bus.Read(ctx, useOf(cfg, logger), what)
}
