package shard

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"

	"bridge/sink"
)

// Tombstones says whether a message with the key of the entity and no body follows each deleted
// event of a table: with it a compacted topic forgets the entity. Nil stands for never. It is safe
// for concurrent use.
type Tombstones struct {
	// compacted asks the bus whether the topic is compacted; nil has tombstones on always.
	compacted func(context.Context) (bool, error)
	logger    *slog.Logger
	on        atomic.Bool
	// warned says that the log was told why they are off.
	warned atomic.Bool
}

// NewTombstones returns tombstones that are on where compacted reports true, which is asked at each
// start of the shard, or always where it is nil.
func NewTombstones(compacted func(context.Context) (bool, error), logger *slog.Logger) *Tombstones {
	t := &Tombstones{compacted: compacted, logger: logger}
	t.on.Store(compacted == nil)
	return t
}

// On reports whether tombstones are published.
func (t *Tombstones) On() bool { return t != nil && t.on.Load() }

// decide asks the bus. Where that does not tell, they are off.
func (t *Tombstones) decide(ctx context.Context) error {
	if t == nil || t.compacted == nil {
		return nil
	}
	on, err := t.compacted(ctx)
	switch {
	case errors.Is(err, sink.ErrHidden):
		if !t.warned.Swap(true) {
			t.logger.Info("whether the topic is compacted does not show: deleted events are published without tombstones; "+
				"grant the right, or set KAFKA_TOMBSTONES to on or off", "error", err)
		}
	case err != nil:
		return err
	case on && !t.on.Load():
		t.logger.Info("the topic is compacted: a tombstone follows each deleted event")
	}
	t.on.Store(on && err == nil)
	return nil
}
