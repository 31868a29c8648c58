package client

import (
	"cmp"
	"errors"
	"log/slog"
	"time"
)

// DefaultDomain is BRIDGE_DOMAIN_ID where that is not set.
const DefaultDomain = "bridge"

// Options say which stream to consume.
type Options struct {
	// Stream is the stream's name in bridge. Messages of other streams are passed over. Required.
	Stream string
	// Domain is BRIDGE_DOMAIN_ID of the bridge that publishes. Defaults to DefaultDomain.
	Domain string
	// Destinations are all topics, or all subjects, that the stream is published to; subjects may
	// hold wildcards. Required.
	Destinations []string
	// Types has the operation of each event type that EVENT_NAMES has given a name of its own. The
	// others tell by their ending: AddedEvent, ModifiedEvent, DeletedEvent, PublishedEvent.
	// Optional.
	Types map[string]Operation
	// RefreshEvery is how often a Table looks for partitions and streams that were made later, and
	// for what the bus has lost. Defaults to 30 s.
	RefreshEvery time.Duration
	// KeepFor is for how long a Table keeps entities that a bus does not have any more, after it
	// was made again: bridge publishes them there once more. Defaults to 10 minutes.
	KeepFor time.Duration
	// Logger defaults to slog.Default().
	Logger *slog.Logger
}

// fill sets defaults and refuses what cannot work.
func (o *Options) fill() error {
	o.Domain = cmp.Or(o.Domain, DefaultDomain)
	o.RefreshEvery = cmp.Or(o.RefreshEvery, 30*time.Second)
	o.KeepFor = cmp.Or(o.KeepFor, 10*time.Minute)
	o.Logger = cmp.Or(o.Logger, slog.Default())
	switch {
	case o.Stream == "":
		return errors.New("client: Options.Stream is empty: set it to the stream's name in bridge")
	case len(o.Destinations) == 0:
		return errors.New("client: Options.Destinations is empty: set it to the topics or subjects of the stream")
	case o.RefreshEvery < 0 || o.KeepFor < 0:
		return errors.New("client: Options.RefreshEvery and Options.KeepFor must not be negative")
	}
	return nil
}
