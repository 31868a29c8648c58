package app

import (
	"context"
	"fmt"

	"bridge/event"
	"bridge/internal/config"
	"bridge/internal/shard"
	"bridge/sink"
)

// openTombstones finds out which tables of a stream have tombstones.
func (s *stream) openTombstones(cfg *config.Config, p *parts, modeOf func(*config.Stream, string) string) error {
	s.tombstones = make(map[string]*shard.Tombstones)
	for _, table := range s.Tables {
		topic, err := cfg.Destination(s.Stream, table)
		if err != nil {
			return fmt.Errorf("stream %s: %w", s.Name, err)
		}
		var compacted func(context.Context) (bool, error)
		switch modeOf(s.Stream, topic) {
		case config.TombstonesOn:
		case config.TombstonesAuto:
			bus, ok := p.sink.(sink.Compactor)
			if !ok {
				continue
			}
			compacted = func(ctx context.Context) (bool, error) { return bus.Compacted(ctx, topic) }
		default:
			continue
		}
		s.tombstones[table] = shard.NewTombstones(compacted, config.StreamLogger(p.logger, s.Name).With("shard", table))
	}
	return nil
}

// encoder returns an encoder of the events of a table. Where tombstones are on, the bus forgets
// deleted entities: rows that say that they are deleted are no news of one that it does not have.
func (s *stream) encoder(cfg *config.Config, table string) (*event.Encoder, error) {
	e, err := cfg.Encoder(s.Stream, table)
	if err != nil {
		return nil, err
	}
	e.Share(&s.plans)
	if t := s.tombstones[table]; t != nil {
		e.Silence(t.On)
	}
	return e, nil
}
