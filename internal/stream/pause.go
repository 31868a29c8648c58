package stream

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

// pausePrefix and a table, or nothing for all tables of the stream, is the name under which the
// store has the last command about its pause. No table has such a name. Since, which grows with
// each command of the stream, is the Unix time of the command in milliseconds: of two commands,
// also of two stores, the later one holds. Floor is twice the time when the pause began, plus 1, or
// twice the time when it ended: so commands that forget a stream keep its pauses.
const pausePrefix = "\x02\x02"

func pauseKey(stream, table string) store.Key {
	return store.Key{Stream: stream, Shard: pausePrefix + table}
}

// IsPause reports whether what the store has under the name of a shard is a pause.
func IsPause(shard string) bool {
	return IsCommand(shard) && !strings.HasPrefix(shard, republishPrefix)
}

// PausedTable returns the table that a pause is of, empty for all tables of the stream; false for
// what is no pause.
func PausedTable(shard string) (table string, isPause bool) {
	table, isPause = strings.CutPrefix(shard, pausePrefix)
	return table, isPause && IsPause(shard)
}

// LoadPause returns the pause of a table.
func LoadPause(ctx context.Context, s store.Store, table store.Key) (Pause, error) {
	var last [2]store.Progress
	for i, name := range []string{"", table.Shard} {
		saved, _, err := s.Progress(ctx, pauseKey(table.Stream, name))
		if err != nil {
			return Pause{}, fmt.Errorf("load the pause of %s: %w", table.Shard, err)
		}
		last[i] = saved
	}
	return pauseBy(last[0], last[1]), nil
}

// pauseBy returns the pause of a table by the last command about its stream and about itself, zero
// where there was none.
func pauseBy(all, own store.Progress) (p Pause) {
	last, former := all, own
	if own.Since > all.Since {
		last, former = own, all
	}
	on, at := pauseState(last)
	before, since := pauseState(former)
	switch {
	case on && before && since.Before(at):
		p.Since = since
	case on:
		p.Since = at
	case before:
		// The last command did not know of the pause that it ends.
		p.ended = time.UnixMilli(int64(last.Since))
	case since.After(at):
		p.ended = since
	default:
		p.ended = at
	}
	return p
}

func pauseState(saved store.Progress) (on bool, since time.Time) {
	return saved.Floor&1 == 1, time.UnixMilli(int64(saved.Floor >> 1))
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

// Batch returns what changes in a store that holds image. Where all is as it should be already the
// command is noted all the same: it holds over an earlier one that another store has. The error
// says why the pause of a table does not end.
func (c SetPause) Batch(image *store.Image) (*store.Batch, error) {
	all := image.Shards[pauseKey(c.Stream, "")]
	if on, _ := pauseState(all); on && !c.On && c.Table != "" {
		return nil, fmt.Errorf("all of stream %s is paused: bridge resume %s ends that", c.Stream, c.Stream)
	}
	concerned, last := []store.Key{pauseKey(c.Stream, c.Table)}, uint64(0)
	for key, saved := range image.Shards {
		if key.Stream != c.Stream || !IsPause(key.Shard) {
			continue
		}
		if last = max(last, saved.Since); !c.On && c.Table == "" && key != concerned[0] {
			concerned = append(concerned, key)
		}
	}
	b := &store.Batch{}
	for _, key := range concerned {
		pause := pauseBy(all, image.Shards[key])
		since := pause.Since
		switch isPaused := !since.IsZero(); {
		case isPaused != c.On:
			since = c.Now
		case !c.On:
			since = pause.ended
		}
		after := store.Progress{Since: max(last+1, uint64(c.Now.UnixMilli())), Floor: uint64(since.UnixMilli()) << 1, Saved: c.Now}
		if c.On {
			after.Floor++
		}
		b.Shards = append(b.Shards, store.ShardChange{Key: key, Progress: &after})
	}
	return b, nil
}
