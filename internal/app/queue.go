package app

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/client/backoff"
	"example.org/bridge/internal/shard"
)

// queue has the shards that had rows before a reload begin first, and then the others of each
// source a few at a time: so rows of a busy table wait for no more than a moment, however many
// tables there are. The zero value has all begin at once.
type queue struct {
	busy map[store.Key]bool
	// turns take the others of each source, each once its stream has caught up and its source was
	// compared: those of one source do not wait for one that is away.
	turns map[*database]chan store.Key
}

const (
	// beginsWithin is how long a shard may take to begin before the next one does.
	beginsWithin = 5 * time.Second
	// beginsAtOnce is how many of the others begin at once: fewer than there are reads.
	beginsAtOnce = maxReads / 2
)

func newQueue(busy map[store.Key]bool) queue { return queue{busy, make(map[*database]chan store.Key)} }

// busyShards returns the shards that have published rows in this minute or the one before.
func busyShards(shards []*shard.Shard) map[store.Key]bool {
	busy := make(map[store.Key]bool)
	for _, sh := range shards {
		minutes := sh.FullStatus().Published.LastHour
		if slices.ContainsFunc(minutes[max(0, len(minutes)-2):], func(rows uint32) bool { return rows > 0 }) {
			busy[keyOf(sh)] = true
		}
	}
	return busy
}

// queued returns the recovery of a shard, which has it begin when it may.
func (q *queue) queued(recovery shard.Recovery, key store.Key, d *database) shard.Recovery {
	if len(q.busy) == 0 || q.busy[key] {
		return recovery
	}
	if q.turns[d] == nil {
		q.turns[d] = make(chan store.Key)
	}
	return &queued{Recovery: recovery, key: key, turns: q.turns[d]}
}

// begin lets the shards begin that wait for their turn, until ctx ends.
func (q *queue) begin(ctx context.Context, shards []*shard.Shard, from *Sources) {
	all, first := make(map[store.Key]*shard.Shard, len(shards)), make(map[*database][]*shard.Shard)
	for _, sh := range shards {
		key := keyOf(sh)
		if all[key] = sh; q.busy[key] {
			d, _ := from.of(key.Shard)
			first[d] = append(first[d], sh)
		}
	}
	var lines sync.WaitGroup
	for d, turns := range q.turns {
		lines.Go(func() {
			begins := first[d]
			for most := 1; awaitFewer(ctx, &begins, most) == nil; most = beginsAtOnce {
				select {
				case key := <-turns:
					begins = append(begins, all[key])
				case <-ctx.Done():
					return
				}
			}
		})
	}
	lines.Wait()
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
	key   store.Key
	turns chan<- store.Key
	begun atomic.Bool
}

// Wait implements shard.Recovery.
func (q *queued) Wait(ctx context.Context, stream string) error {
	if err := q.Recovery.Wait(ctx, stream); err != nil || q.begun.Load() {
		return err
	}
	select {
	case q.turns <- q.key:
		q.begun.Store(true)
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
