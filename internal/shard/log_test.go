package shard_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// The warning about a stray id is for one: ids that hold a time leave a wide gap behind each row.
func TestIDsThatHoldATime(t *testing.T) {
	const (
		first = 1_820_000_000_000_000_000
		// Eight years after the epoch of Baidu's uid-generator.
		baidu = 8 * 365 * 24 * 3600 << 35
	)
	for _, c := range []struct {
		name             string
		ids              []uint64
		warned, informed int
	}{
		{"Snowflake ids from the first on", []uint64{first}, 0, 1},
		{"ids of seconds above 35 bits", []uint64{baidu, baidu + 7<<35 + 3}, 0, 1},
		{"ids of another kind that are as far apart", []uint64{1 << 40, 2 << 40, 3 << 40, 4 << 40, 5 << 40, 6 << 40}, 0, 1},
		{"one stray id", []uint64{1, 2, 3, 9_000_000_000}, 1, 0},
		{"one stray id that looks like them", []uint64{1, 2, 3, first}, 1, 0},
		{"one stray id that looks like seconds", []uint64{1, 2, 3, baidu}, 1, 0},
	} {
		instantly(t, c.name, func(t *testing.T) {
			b := newBench(t)
			var log bytes.Buffer
			b.opts.Logger = slog.New(slog.NewTextHandler(&log, nil))
			for _, id := range c.ids {
				b.table.InsertAt(id, "n", old)
			}
			_, stop := b.run(t)
			b.saved(t, c.ids[len(c.ids)-1])
			wait(t, 3*time.Second)
			stop()
			text := log.String()
			if strings.Count(text, "ids jump") != c.warned || strings.Count(text, "ids are far apart") != c.informed {
				t.Errorf("want %d warnings and %d lines:\n%s", c.warned, c.informed, text)
			}
			if got := len(b.ids(topic)); got != len(c.ids) {
				t.Errorf("%d rows, want %d", got, len(c.ids))
			}
		})
	}
}
