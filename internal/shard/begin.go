package shard

import (
	"context"
	"fmt"
	"math"
	"time"

	"bridge/checkpoint/store"
	"bridge/event"
	"bridge/internal/catchup"
	"bridge/internal/option"
	"bridge/internal/progress"
	"bridge/internal/published"
	"bridge/sink"
	"bridge/source"
)

// Recovery reads from the bus what the store lacks. A catchup.CatchUp is one.
type Recovery interface {
	// Wait returns nil when a stream has caught up; the error is that which stopped the stream.
	Wait(ctx context.Context, stream string) error
	// Resolve reads what the bus holds of a stream and was not read, behind a publish of unknown
	// outcome (rule 9).
	Resolve(ctx context.Context, stream string) error
	// Register returns the number of a TP in which messages were acknowledged and that has none, 0
	// where it gets none. An error says that these messages are to be read back.
	Register(ctx context.Context, stream string, tp sink.TPRef) (uint32, error)
	// Rereading reports whether what is read again of a stream is not read yet (rule 21).
	Rereading(stream string) bool
	// Epoch is that of the process. It is there once Wait has returned nil.
	Epoch() *catchup.Epoch
}

func (o *Options) key() store.Key { return store.Key{Stream: o.Stream, Shard: o.Name} }

// recover waits until the store has what the bus holds of the stream.
func (s *Shard) recover(ctx context.Context) error {
	err := s.retrier.wait(owning, forEver, func() error {
		if err := s.opts.Recovery.Wait(ctx, s.opts.Stream); err != nil || !s.unresolved {
			return err
		}
		// Rule 9: before the next batch.
		return s.opts.Recovery.Resolve(ctx, s.opts.Stream)
	})
	if err == nil {
		s.unresolved = false
	}
	return err
}

// begin opens what is known of the shard, or decides where it begins, and returns the owner that
// goes on from there.
func (s *Shard) begin(ctx context.Context) (*owner, error) {
	if err := s.server.refresh(ctx); err != nil {
		return nil, err
	}
	p, list, err := s.opts.Feed.lend(ctx, s.opts.Name, s.gaps.options(), s.opts.PublishedRows)
	if err != nil {
		return nil, s.gaps.damaged(err)
	}
	s.gaps.open(p)
	if err := s.reader.open(ctx); err != nil {
		return nil, err
	}
	found := p.Started()
	if err := s.commitMeaning(ctx, p); err != nil {
		return nil, err
	}
	if s.fromFirst {
		if err := s.restart(ctx, p, list); err != nil {
			return nil, err
		}
	}
	if !p.Started() {
		if err := s.first(ctx); err != nil {
			return nil, err
		}
	}
	if s.opts.Decided != nil {
		err := s.retrier.wait(owning, forEver, func() error { return s.opts.Decided(ctx, p.Since()) })
		if err != nil {
			return nil, err
		}
	}
	entities := newEntities(&s.opts, s.retrier, s.gaps)
	if err := (&snapshot{opts: &s.opts, reader: s.reader, gaps: s.gaps, entities: entities}).run(ctx); err != nil {
		return nil, err
	}
	if err := s.refuseTailless(); err != nil {
		return nil, err
	}
	position := s.gaps.position()
	s.status.saved(position)
	s.arrival.begin(s.opts.Logger, position, found)
	rows := newPublished(s.server, entities, list)
	if reason := list.Stopped(); reason != "" {
		return nil, &reusedError{reason: reason, remedy: rows.remedyNow(ctx), saved: true}
	}
	return s.newOwner(entities, rows), nil
}

// commitMeaning checks what is saved of the shard against its configuration, and saves what that
// means where nothing says so.
func (s *Shard) commitMeaning(ctx context.Context, p *progress.Progress) error {
	parts, err := checkMeaning(ctx, &s.opts, p.Position())
	if err != nil || len(parts) == 0 {
		return err
	}
	return s.retrier.wait(owning, forEver, func() error {
		return s.opts.Committer.Apply(ctx, &store.Batch{Shards: []store.ShardChange{{Key: s.opts.key(), Parts: parts}}})
	})
}

// refuseTailless is the error of a release stream whose ids have no order.
func (s *Shard) refuseTailless() error {
	if !s.server.tailless() || s.opts.Kind == event.Capability {
		return nil
	}
	return option.Errorf("%w: ids without an order (%s) cannot be tailed, and a release stream is nothing but its tail: "+
		"set %s if they have one, or make it a capability stream, which reconcile alone can publish", source.ErrUnfit, s.server.traits.OrderWhy, option.IDOrder)
}

// everyID is how far a shard without a tail reaches: every row may be judged.
const everyID = math.MaxUint64

// first decides where a shard begins of which neither the store nor the bus has anything. That is
// durable before its first row is published, so that it is decided once (rules 11 and 16).
func (s *Shard) first(ctx context.Context) error {
	start := progress.Start(s.opts.Start)
	highest := start.After
	var cursor source.Cursor
	if start.Latest || start.After > 0 {
		p, err := s.reader.page(ctx, source.Query{Limit: 1})
		if err != nil {
			return err
		}
		highest = p.MaxID
		cursor = cursorAt(&s.opts, p.Columns, p.Now)
		p.free()
	}
	first, err := progress.First(s.opts.Kind, start, highest)
	if err != nil {
		return fmt.Errorf("%s: %w", s.opts.Name, err)
	}
	first.Cursor = cursor
	change, err := s.gaps.seed(ctx, first, s.opts.Recovery.Epoch().Number())
	if err != nil {
		return s.gaps.damaged(err)
	}
	return s.sync(ctx, change)
}

// restart has the shard go on from its first row with the view as it is.
func (s *Shard) restart(ctx context.Context, p *progress.Progress, list *published.Log) error {
	change, err := p.Restart(s.opts.Recovery.Epoch().Number(), time.Now())
	if err != nil {
		return s.gaps.damaged(err)
	}
	if err := s.sync(ctx, change); err != nil {
		return err
	}
	list.Clear()
	list.Stop("")
	s.fromFirst = false
	s.opts.Logger.Warn("the table is read from its first row, since its ids are used again and a person has agreed")
	return nil
}

// sync makes a change of the progress durable.
func (s *Shard) sync(ctx context.Context, change store.ShardChange) error {
	err := s.retrier.wait(owning, forEver, func() error {
		return s.opts.Committer.Sync(ctx, &store.Batch{Shards: []store.ShardChange{change}})
	})
	if err != nil && ctx.Err() == nil {
		return &storeError{err}
	}
	return err
}
