package app

import (
	"context"
	"slices"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/client/backoff"
	"example.org/bridge/internal/shard"
)

// queue has the shards that had rows before a reload begin first, and the others a few at a time:
// so rows of a busy table wait for no more than a moment, however many tables there are. The zero
// value has all begin at once.
type queue struct {
	busy map[store.Key]bool
	// turns are of the others, closed when they may begin.
	turns map[store.Key]chan struct{}
}

const (
	// beginsWithin is how long a shard may take to begin before the next one does.
	beginsWithin = 5 * time.Second
	// beginsAtOnce is how many of the others begin at once: fewer than there are reads.
	beginsAtOnce = maxReads / 2
)

func newQueue(busy map[store.Key]bool) queue { return queue{busy, make(map[store.Key]chan struct{})} }

// busyShards returns the shards that have published rows in this minute or the one before.
func busyShards(shards []*shard.Shard) map[store.Key]bool {
	busy := make(map[store.Key]bool)
	for _, sh := range shards {
		minutes := sh.Traffic().Minutes
		if slices.ContainsFunc(minutes[max(0, len(minutes)-2):], func(rows uint32) bool { return rows > 0 }) {
			busy[keyOf(sh)] = true
		}
	}
	return busy
}

// queued returns the recovery of a shard, which has it begin when it may.
func (q *queue) queued(recovery shard.Recovery, key store.Key) shard.Recovery {
	if len(q.busy) == 0 || q.busy[key] {
		return recovery
	}
	turn := make(chan struct{})
	q.turns[key] = turn
	return queued{recovery, turn}
}

// begin lets the shards begin that wait for their turn.
func (q *queue) begin(ctx context.Context, shards []*shard.Shard) {
	var begins []*shard.Shard
	for _, sh := range shards {
		if q.turns[keyOf(sh)] == nil {
			begins = append(begins, sh)
		}
	}
	if len(q.turns) == 0 || awaitFewer(ctx, &begins, 1) != nil {
		return
	}
	for _, sh := range shards {
		turn := q.turns[keyOf(sh)]
		if turn == nil {
			continue
		}
		if awaitFewer(ctx, &begins, beginsAtOnce) != nil {
			return
		}
		close(turn)
		begins = append(begins, sh)
	}
}

// awaitFewer waits until fewer than so many shards of a list begin, for a while at most, and drops
// the others from the list.
func awaitFewer(ctx context.Context, begins *[]*shard.Shard, most int) error {
	for began := time.Now(); ; {
		*begins = slices.DeleteFunc(*begins, func(sh *shard.Shard) bool { return sh.Status().State != shard.Starting })
		if len(*begins) < most {
			return nil
		}
		if time.Since(began) > beginsWithin {
			*begins = nil
			return nil
		}
		if err := backoff.Pause(ctx, 2*time.Millisecond); err != nil {
			return err
		}
	}
}

func keyOf(sh *shard.Shard) store.Key {
	s := sh.Status()
	return store.Key{Stream: s.Stream, Shard: s.Shard}
}

// queued is the recovery of a shard that begins when it is its turn.
type queued struct {
	shard.Recovery
	turn <-chan struct{}
}

// Wait implements shard.Recovery.
func (q queued) Wait(ctx context.Context, stream string) error {
	select {
	case <-q.turn:
		return q.Recovery.Wait(ctx, stream)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
