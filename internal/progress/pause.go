package progress

import (
	"context"
	"fmt"
	"strings"
	"time"

	"example.org/bridge/checkpoint/store"
)

// Pause says whether a person has paused a table.
type Pause struct {
	// Since is when the table, or its stream, was paused; zero while neither is.
	Since time.Time
	// ended is when a pause last ended, zero if none did.
	ended time.Time
}

// pausePrefix and a table, or nothing for all tables of the stream, is the name of a pause in the
// store. No table has such a name. Floor is 1 while the pause is in force, and Since, which grows
// with each command, the Unix time in milliseconds of the last one: so commands that forget a
// stream keep its pauses, and of two stores the later command holds.
const pausePrefix = "\x02\x02"

func pauseKey(stream, table string) store.Key {
	return store.Key{Stream: stream, Shard: pausePrefix + table}
}

// IsPause reports whether what the store has under the name of a shard is a pause.
func IsPause(shard string) bool { return strings.HasPrefix(shard, pausePrefix) }

// PausedTable returns the table that a pause is of, empty for all tables of the stream; false for
// what is no pause.
func PausedTable(shard string) (table string, isPause bool) {
	return strings.CutPrefix(shard, pausePrefix)
}

// LoadPause returns the pause of a table.
func LoadPause(ctx context.Context, s store.Store, table store.Key) (Pause, error) {
	var p Pause
	for _, name := range []string{"", table.Shard} {
		saved, found, err := s.Progress(ctx, pauseKey(table.Stream, name))
		if err != nil {
			return Pause{}, fmt.Errorf("load the pause of %s: %w", table.Shard, err)
		}
		switch at := time.UnixMilli(int64(saved.Since)); {
		case !found:
		case saved.Floor == 0:
			if at.After(p.ended) {
				p.ended = at
			}
		case p.Since.IsZero() || at.Before(p.Since):
			p.Since = at
		}
	}
	return p, nil
}

// Away returns by how much the gaps of a table have aged since its progress was saved: they do not
// age while it is paused.
func (p *Pause) Away(saved time.Time) time.Duration {
	if !p.Since.IsZero() {
		return 0
	}
	if p.ended.After(saved) {
		saved = p.ended
	}
	return time.Since(saved)
}

// SetPause is the command that pauses a table, or ends its pause. Sync what its Batch returns
// before the command returns.
type SetPause struct {
	Stream string
	// Table is empty for all tables of the stream, those too that are found later.
	Table string
	// On begins a pause. Else the pause ends; that of a stream ends those of its tables, too.
	On bool
	// Now is the host's time.
	Now time.Time
}

// Batch returns what changes in a store that holds image, nothing where all is as it should be.
// The error says why the pause of a table does not end.
func (c SetPause) Batch(image *store.Image) (*store.Batch, error) {
	b, all := &store.Batch{}, pauseKey(c.Stream, "")
	if !c.On && c.Table != "" && image.Shards[all].Floor > 0 {
		return nil, fmt.Errorf("all of stream %s is paused: bridge resume %s ends that", c.Stream, c.Stream)
	}
	set := func(key store.Key) {
		before := image.Shards[key]
		if on := before.Floor > 0; on == c.On {
			return
		}
		after := store.Progress{Since: max(before.Since+1, uint64(c.Now.UnixMilli())), Saved: c.Now}
		if c.On {
			after.Floor = 1
		}
		b.Shards = append(b.Shards, store.ShardChange{Key: key, Progress: &after})
	}
	set(pauseKey(c.Stream, c.Table))
	if c.On || c.Table != "" {
		return b, nil
	}
	for key := range image.Shards {
		if key.Stream == c.Stream && key != all && IsPause(key.Shard) {
			set(key)
		}
	}
	return b, nil
}
