package app

import (
	"context"
	"fmt"
	"sync"

	"bridge/internal/config"
	"bridge/reconcile"
	"bridge/source"
)

// siblings are the tables of one stream, to find out whether an entity that one of them
// has not lives in another. The readers are made when they are first asked for, and shared. It is
// safe for concurrent use.
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

// of returns what opens readers of the tables besides this one, for one goroutine; nil where there
// is none.
func (s *siblings) of(table string) (func() []reconcile.Sibling, error) {
	if len(s.stream.Tables) < 2 {
		return nil, nil
	}
	// An entity and its state are the same in every table of the stream, so that one encoder sees
	// to all of them.
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

// sharedShard is a reader that serves one goroutine at a time, as readers do, and lets the others
// wait. Only Read takes turns.
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
