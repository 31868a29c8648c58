package app

import (
	"context"
	"fmt"
	"sync"

	"bridge/internal/config"
	"bridge/reconcile"
	"bridge/source"
)

// siblings finds out whether an entity that is missing in one table of a stream is in another. It
// makes the readers of the tables at their first use and shares them. It is safe for concurrent
// use.
type siblings struct {
	cfg    *config.Config
	stream *config.Stream
	source source.Source

	mu      sync.Mutex
	readers map[string]source.Shard
}

func newSiblings(cfg *config.Config, s *config.Stream, from source.Source) *siblings {
	return &siblings{cfg: cfg, stream: s, source: from, readers: make(map[string]source.Shard)}
}

// of returns a function that opens readers of the other tables, for one goroutine; nil if the
// stream has no other.
func (s *siblings) of(table string) (func() []reconcile.Sibling, error) {
	if len(s.stream.Tables) < 2 {
		return nil, nil
	}
	// An entity and its digest are the same in every table of the stream, so one encoder serves
	// all.
	encoder, err := s.cfg.Encoder(s.stream, table)
	if err != nil {
		return nil, err
	}
	return func() []reconcile.Sibling {
		var others []reconcile.Sibling
		for _, other := range s.stream.Tables {
			if other != table {
				others = append(others, reconcile.Sibling{Source: s.reader(other), Encoder: encoder})
			}
		}
		return others
	}, nil
}

func (s *siblings) reader(table string) source.Shard {
	s.mu.Lock()
	defer s.mu.Unlock()
	reader, ok := s.readers[table]
	if !ok {
		reader = &sharedShard{Shard: s.source.Shard(s.stream.Spec(table)), turn: make(chan struct{}, 1)}
		s.readers[table] = reader
	}
	return reader
}

// sharedShard lets several goroutines use a reader, one at a time. Only Read takes turns.
type sharedShard struct {
	source.Shard
	turn chan struct{}
}

func (s *sharedShard) Read(ctx context.Context, q source.Query, p *source.Page) error {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("wait for another read of the table: %w", context.Cause(ctx))
	}
	defer func() { <-s.turn }()
	return s.Shard.Read(ctx, q, p)
}
