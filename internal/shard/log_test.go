package shard_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// TestAStartIsLogged: where a shard begins or resumes, and when it has caught up, once each.
func TestAStartIsLogged(t *testing.T) {
	log := new(lines)
	b := newBench(t)
	b.opts.Logger = slog.New(slog.NewTextHandler(log, nil))
	b.insert(3)
	_, stop := b.run(t)
	eventually(t, "caught up", func() bool { return log.count(`msg="caught up" published=3 position=3 after=`) == 1 })
	b.insert(2)
	b.saved(t, 5)
	b.polls(t, 3)
	stop()
	if log.count(`msg="stream begins" position=0`) != 1 || log.count("caught up") != 1 || log.count("resumes") != 0 {
		t.Errorf("the first start logs %s", log.b.String())
	}
	b.run(t)
	eventually(t, "caught up again", func() bool { return log.count(`msg="caught up" published=0 position=5 after=`) == 1 })
	if log.count(`msg="stream resumes" position=5`) != 1 || log.count("stream begins") != 1 {
		t.Errorf("the second start logs %s", log.b.String())
	}
}

// The warning about a stray id is for one: ids that hold a time leave a wide gap behind each row.
func TestIDsThatHoldATime(t *testing.T) {
	const first = 1_820_000_000_000_000_000
	for _, c := range []struct {
		name         string
		ids          []uint64
		warned, told int
	}{
		{"Snowflake ids from the first on", []uint64{first}, 0, 1},
		{"many of them, a second apart", []uint64{first, first + 1000<<22, first + 2000<<22 + 5, first + 3000<<22, first + 9000<<22, first + 9001<<22}, 0, 1},
		{"ids of another kind that are as far apart", []uint64{1 << 40, 2 << 40, 3 << 40, 4 << 40, 5 << 40, 6 << 40}, 0, 1},
		{"one stray id", []uint64{1, 2, 3, 9_000_000_000}, 1, 0},
		{"one stray id that looks like them", []uint64{1, 2, 3, first}, 1, 0},
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
			if strings.Count(text, "ids jump") != c.warned || strings.Count(text, "ids are far apart") != c.told {
				t.Errorf("want %d warnings and %d lines:\n%s", c.warned, c.told, text)
			}
			if got := len(b.ids(topic)); got != len(c.ids) {
				t.Errorf("%d rows, want %d", got, len(c.ids))
			}
		})
	}
}
