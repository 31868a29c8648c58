package shard_test

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.org/bridge/source"
	"example.org/bridge/source/ledger"
)

// splitSource has the ids of some reads come from another server, one that shows no open rows.
type splitSource struct {
	source.Shard
	// elsewhere is how many reads of ids that still holds for; a negative number is all of them.
	elsewhere atomic.Int64
	split     atomic.Int64
}

func (s *splitSource) ReadIDs(ctx context.Context, ranges []source.Range, uncommitted bool, limit int, ids *source.IDs) error {
	if s.elsewhere.Load() == 0 || !uncommitted {
		return s.Shard.ReadIDs(ctx, ranges, uncommitted, limit, ids)
	}
	s.elsewhere.Add(-1)
	s.split.Add(1)
	err := s.Shard.ReadIDs(ctx, ranges, false, limit, ids)
	ids.Server = "elsewhere"
	return err
}

// holding is a bench under GapHold whose row 4 is in flight while row 5 is there.
func holding(t *testing.T) (b *bench, log *bytes.Buffer, open uint64) {
	b = newBench(t)
	log = new(bytes.Buffer)
	b.opts.Logger = slog.New(slog.NewTextHandler(log, nil))
	b.opts.GapPolicy, b.opts.PollInterval, b.tick = ledger.GapHold, 100*time.Millisecond, time.Minute
	b.insert(3)
	open = b.table.Open("late", old)
	b.insert(1)
	return b, log, open
}

func TestEvidenceComesBack(t *testing.T) {
	for _, c := range []struct {
		name    string
		disturb func(b *bench, s *splitSource)
		// counts are the answers whether evidence counts, one for each question.
		counts []bool
	}{
		{"a few polls read their ids from another server", func(b *bench, s *splitSource) { s.elsewhere.Store(20) }, []bool{true}},
		{"the server is read-only for five minutes", func(b *bench, s *splitSource) {
			b.table.ReadOnly(true)
			time.AfterFunc(5*time.Minute, func() { b.table.ReadOnly(false) })
		}, []bool{true, false, true}},
		{"rows and ids move to a replica for half a minute", func(b *bench, s *splitSource) {
			b.table.Move("replica", true)
			time.AfterFunc(30*time.Second, func() { b.table.Move("memory", false) })
		}, []bool{true, false, true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, log, open := holding(t)
				split := &splitSource{Shard: b.table}
				b.source = split
				var announced []bool
				b.opts.Announce = func(traits source.Traits) { announced = append(announced, traits.Evidence) }
				_, stop := b.run(t)
				after(t, 2*time.Minute)
				expectRun(t, b.ids(topic), 1, 3)
				c.disturb(b, split)
				after(t, 10*time.Minute)
				// Nothing is passed while row 4 is in flight.
				expectRun(t, b.ids(topic), 1, 3)
				b.table.Commit(open)
				after(t, time.Second)
				expectRun(t, b.ids(topic), 1, 5)
				stop()
				if got := strings.Count(log.String(), "committed and uncommitted rows"); got > 2 {
					t.Errorf("%d lines about servers:\n%s", got, log)
				}
				if !slices.Equal(announced, c.counts) {
					t.Errorf("that evidence counts was announced as %v, want %v", announced, c.counts)
				}
			})
		})
	}
}

// after lets time of a bubble pass.
func after(t *testing.T, d time.Duration) {
	t.Helper()
	wait(t, d)
	synctest.Wait()
}

func TestEvidenceThatNeverFits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _, open := holding(t)
		split := &splitSource{Shard: b.table}
		split.elsewhere.Store(-1)
		b.source = split
		b.run(t)
		after(t, time.Minute)
		expectRun(t, b.ids(topic), 1, 3)
		// Age alone decides in the end.
		after(t, 2*time.Minute)
		if got := b.ids(topic); !slices.Equal(got, []uint64{1, 2, 3, 5}) {
			t.Errorf("got rows %v behind row %d, which is in flight", got, open)
		}
	})
}

// TestServersThatTakeTurns: behind a proxy that alternates, traits are asked about ever less.
func TestServersThatTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _, _ := holding(t)
		asked := 0
		b.opts.Announce = func(source.Traits) { asked++ }
		_, stop := b.run(t)
		for range 10 * 60 * 5 {
			b.table.Move("a", false)
			after(t, 100*time.Millisecond)
			b.table.Move("b", false)
			after(t, 100*time.Millisecond)
		}
		stop()
		if asked < 5 || asked > 20 {
			t.Errorf("traits are asked about %d times in ten minutes", asked)
		}
	})
}

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
