package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"bridge/event"
	"bridge/internal/config"
	"bridge/internal/shard"
	"bridge/sink"
)

// openTombstones finds out which tables of a stream have tombstones.
func (s *stream) openTombstones(cfg *config.Config, p *parts, modeOf func(*config.Stream, string) string) error {
	s.tombstones, s.topics = make(map[string]*shard.Tombstones), make(map[string]bool)
	bus, asks := p.sink.(sink.Compactor)
	for _, table := range s.Tables {
		topic, err := cfg.Destination(s.Stream, table)
		if err != nil {
			return fmt.Errorf("stream %s: %w", s.Name, err)
		}
		var compacted func(context.Context) (bool, error)
		switch mode := modeOf(s.Stream, topic); {
		case mode == config.TombstonesOn:
			s.topics[topic] = true
		case mode == config.TombstonesAuto && asks:
			s.topics[topic] = false
			compacted = func(ctx context.Context) (bool, error) { return isCompacted(ctx, bus, topic) }
		default:
			continue
		}
		s.tombstones[table] = shard.NewTombstones(compacted, config.StreamLogger(p.logger, s.Name).With("shard", table))
	}
	return nil
}

// forgetsAfter returns after what time a topic of the stream removes tombstones, false where it has
// none (rule 30).
func (s *stream) forgetsAfter(ctx context.Context, bus sink.Compactor, topic string) (after time.Duration, does bool, err error) {
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

func isCompacted(ctx context.Context, bus sink.Compactor, topic string) (bool, error) {
	found, err := bus.Compaction(ctx, topic)
	return found.On, err
}

// encoder returns an encoder of the events of a table.
func (s *stream) encoder(cfg *config.Config, table string) (*event.Encoder, error) {
	e, err := cfg.Encoder(s.Stream, table)
	if err != nil {
		return nil, err
	}
	e.Share(&s.plans)
	return e, nil
}
