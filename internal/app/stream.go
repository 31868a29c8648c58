package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/event"
	"example.org/bridge/internal/config"
	"example.org/bridge/internal/panics"
	"example.org/bridge/internal/shard"
	"example.org/bridge/internal/stream"
	"example.org/bridge/sink"
	"example.org/bridge/source"
	"example.org/bridge/source/ledger"
)

// stream is what the shards of one stream share.
type appStream struct {
	*config.Stream
	// limits and announce are those of each database.
	limits          map[*database]*shard.StreamLimits
	announce        map[*database]func(source.Traits)
	deadLetterLimit *shard.DeadLetterLimit
	rate            *shard.Rate
	republishRate   *shard.Rate
	// view, movers and keys are nil for a release stream.
	view   *stream.View
	movers *stream.Movers
	keys   *keys
	feed   *stream.Feed
	// tombstones has those of tables that may have them.
	tombstones map[string]*shard.Tombstones
	// topics has those of these tables, and whether one counts as compacted where the bus does not
	// tell.
	topics map[string]bool
	// plans are shared by the encoders of the stream.
	plans event.Plans
	// shards has those that were made, by their tables. gone are tables of patterns that are gone,
	// as the status has them.
	shards map[string]*shard.Shard
	gone   []shard.Status
	// lists are where the boundaries of a full list go.
	lists []string
	// divided says that other processes may have tables of the stream.
	divided bool
}

func newStreams(cfg *config.Config, p *parts) ([]*appStream, error) {
	var streams []*appStream
	tables := countTables(cfg)
	modeOf := cfg.Tombstones()
	for i := range cfg.Streams {
		s := &appStream{
			Stream: &cfg.Streams[i], limits: make(map[*database]*shard.StreamLimits), announce: make(map[*database]func(source.Traits)),
			deadLetterLimit: p.limits[cfg.Streams[i].Name], shards: make(map[string]*shard.Shard), divided: cfg.Share.One(),
			rate: shard.NewRate(cfg.Streams[i].Rate), republishRate: shard.NewRate(0),
		}
		if s.deadLetterLimit == nil {
			s.deadLetterLimit = shard.NewDeadLetterLimit(s.Name, s.DeadLetterLimit)
		}
		for _, d := range p.sources.ofStream(s.Stream) {
			logger := config.StreamLogger(p.logger, s.Name)
			if d.Name != "" {
				logger = logger.With("source", d.Name)
			}
			s.limits[d], s.announce[d] = d.limits.Stream(), announcer(logger, s.IDFormat())
		}
		s.openTombstones(cfg, p, modeOf)
		if s.Kind == event.Capability {
			if err := s.openView(cfg, p); err != nil {
				return nil, fmt.Errorf("stream %s: %w", s.Name, err)
			}
		}
		if s.feed = s.newFeed(p, tables); s.view != nil {
			s.lists = cfg.ListDestinations(s.Stream)
		}
		_, gone := matchedTables(cfg, s.Stream, &p.image)
		for _, table := range gone {
			s.gone = append(s.gone, goneStatus(s, table, p.image.Shards[store.Key{Stream: s.Name, Shard: table}].Position))
		}
		streams = append(streams, s)
	}
	return streams, nil
}

func countTables(cfg *config.Config) int {
	n := 0
	for i := range cfg.Streams {
		n += len(cfg.Streams[i].Tables)
	}
	return n
}

func (s *appStream) openView(cfg *config.Config, p *parts) (err error) {
	if s.keys, err = newKeys(cfg, s, p.sources, func(d *database) chan struct{} { return d.keys }); err != nil {
		return err
	}
	newView := stream.NewView
	if scopeOf(s.Stream) == stream.ScopeTable {
		newView = stream.NewViewByTable
	}
	s.view = newView(s.Name, p.store, p.committer.InForce)
	outage := "keys of stream/" + s.Name
	s.movers = stream.NewMovers(s.view, stream.MoversOptions{
		Shards: s.Tables,
		Read: func(ctx context.Context, shard string, entities [][]byte) (stream.FoundRows, error) {
			reading, err := s.keys.Read(ctx, shard, entities)
			if err == nil {
				p.faults.OK(outage)
			}
			return reading, err
		},
		Publish: func(ctx context.Context, table string, moves []stream.Move) error {
			sh := s.shards[table]
			if sh == nil {
				return fmt.Errorf("%w: stream %s has no table %s", errNotPublished, s.Name, table)
			}
			if err := sh.Publish(ctx, moves); err != nil {
				return fmt.Errorf("%w: %w", errNotPublished, err)
			}
			return nil
		},
	})
	return nil
}

// shared reports whether the tables of a stream, which has several, share their entities.
func (s *appStream) shared() bool {
	return len(s.Tables) > 1 && scopeOf(s.Stream) == stream.ScopeStream
}

// scopeOf returns which rows with one key are one entity. Where the id is the key, a table has
// entities of its own.
func scopeOf(s *config.Stream) stream.Scope {
	if len(s.Key) == 0 {
		return stream.ScopeTable
	}
	return stream.ScopeStream
}

// meaningHash returns what messages of a stream say of the meaning of its keys.
func meaningHash(s *config.Stream) uint32 {
	key := s.Key
	if len(key) == 0 {
		key = []string{s.ID}
	}
	return stream.MeaningHash(string(s.Kind), key, scopeOf(s))
}

func (s *appStream) newFeed(p *parts, tables int) *stream.Feed {
	o := stream.FeedOptions{Stream: s.Name, View: s.view, Movers: s.movers, Store: p.store, Committer: p.committer, Logger: p.logger}
	for key := range p.image.Shards {
		if key.Stream == s.Name {
			o.Known = append(o.Known, key.Shard)
		}
	}
	for _, table := range s.Tables {
		o.Shards = append(o.Shards, stream.FeedShard{
			Name: table, PublishedRows: publishedRows(tables),
			Ledger: ledger.Options{GapTTL: s.GapTTL, Order: s.Order(), MaxBytes: ledgerBytes(tables)},
		})
	}
	return stream.NewFeed(o)
}

// errNotPublished is returned when the owner of a shard does not take moves now.
var errNotPublished = errors.New("the shard does not run")

func (s *appStream) stop(err error) {
	for _, sh := range s.shards {
		sh.Stop(err)
	}
}

// move publishes nominated entities from when the stream has caught up until ctx ends.
func (s *appStream) move(ctx context.Context, p *parts) error {
	if p.recovery.Wait(ctx, s.Name) != nil {
		// The shards say why the stream has stopped.
		return nil
	}
	err := panics.Guard(func() error {
		return s.movers.Run(ctx, func(err error) {
			if errors.Is(err, errNotPublished) {
				p.logger.Debug("moved entities wait", "stream", s.Name, "error", err)
				return
			}
			p.faults.Fail("keys of stream/"+s.Name, err)
		})
	})
	if panics.Is(err) {
		p.logger.Error("stream stopped", append([]any{"stream", s.Name}, panics.LogArgs(err)...)...)
		s.stop(err)
		return nil
	}
	return err
}

func (s *appStream) catchUp(cfg *config.Config, p *parts) stream.Stream {
	c := stream.Stream{
		Name: s.Name, Release: s.view == nil, Destinations: cfg.Destinations(s.Stream), Hash: meaningHash(s.Stream),
		IgnoreBelow: stream.IgnoreBelow(&p.image, s.Name, s.Tables), Feed: s.feed, Stopped: p.stopped[s.Name],
	}
	if cfg.Share.One() {
		c.Mine = func(shard string) bool { return cfg.Share.Owns(s.Stream, shard) }
	}
	if bus, ok := p.sink.(sink.Compactor); ok && s.view != nil {
		// After what time a topic removes tombstones, false where it has none (rule 30).
		c.Forgets = func(ctx context.Context, topic string) (time.Duration, bool, error) {
			hidden, has := s.topics[topic]
			if !has {
				return 0, false, nil
			}
			found, err := bus.Compaction(ctx, topic)
			if errors.Is(err, sink.ErrHidden) {
				found.On, err = hidden, nil
			}
			return found.Tombstones, found.On && found.Tombstones >= 0, err
		}
	}
	return c
}

func (s *appStream) openTombstones(cfg *config.Config, p *parts, modeOf func(*config.Stream, string) string) {
	s.tombstones, s.topics = make(map[string]*shard.Tombstones), make(map[string]bool)
	bus, asks := p.sink.(sink.Compactor)
	for _, table := range s.Tables {
		topic := cfg.Destination(s.Stream, table)
		var compacted func(context.Context) (bool, error)
		switch mode := modeOf(s.Stream, topic); {
		case mode == config.TombstonesOn:
			s.topics[topic] = true
		case mode == config.TombstonesAuto && asks:
			s.topics[topic] = false
			compacted = func(ctx context.Context) (bool, error) {
				found, err := bus.Compaction(ctx, topic)
				return found.On, err
			}
		default:
			continue
		}
		s.tombstones[table] = shard.NewTombstones(compacted, config.StreamLogger(p.logger, s.Name).With("shard", table))
	}
}

func (s *appStream) encoder(cfg *config.Config, table string) (*event.Encoder, error) {
	e, err := cfg.Encoder(s.Stream, table)
	if err != nil {
		return nil, err
	}
	e.Share(&s.plans)
	return e, nil
}
