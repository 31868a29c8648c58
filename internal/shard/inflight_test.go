package shard_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.org/bridge/source"
	"example.org/bridge/tests/testall"
)

// twoPolls is two polls of a quiet shard, and a little more.
const twoPolls = 2*2*100*time.Millisecond + 50*time.Millisecond

// newChangesBench is a bench with a second cursor whose look-back is a second, over n published
// rows.
func newChangesBench(t *testing.T, n int) *bench {
	b := newViewBench(t, true)
	b.opts.PollInterval, b.opts.LookBack, b.tick = 100*time.Millisecond, time.Second, time.Minute
	for i := range n {
		b.table.Insert(fmt.Sprint("e", i+1), "1", "0", now())
	}
	return b
}

// news returns what was said behind the first n events.
func (b *bench) news(t *testing.T, n int) (texts []string) {
	t.Helper()
	for _, one := range b.said(t)[n:] {
		texts = append(texts, one.text)
	}
	return texts
}

func ago(d time.Duration) string { return time.Now().UTC().Add(-d).Format(stamp) }

func TestUpdatesInFlight(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(t *testing.T, b *bench)
		// want is what is said within two polls of the return of change.
		want []string
	}{
		{"a soft delete in a transaction that is open for longer than the reach", func(t *testing.T, b *bench) {
			b.table.OpenUpdate(2, "e2", "1", "1", now())
			after(t, 15*time.Minute)
			b.table.CommitUpdate(2)
		}, []string{"Deleted e2"}},
		{"a statement that comes to its rows one after the other", func(t *testing.T, b *bench) {
			began := now()
			for id := range uint64(3) {
				after(t, 5*time.Second)
				b.table.OpenUpdate(id+1, fmt.Sprint("e", id+1), "2", "0", began)
			}
			b.table.CommitUpdate(1, 2, 3)
		}, []string{"Modified e1=2", "Modified e2=2", "Modified e3=2"}},
		{"a transaction that sets a MODIFIED of nine minutes ago", func(t *testing.T, b *bench) {
			after(t, 10*time.Minute)
			b.table.OpenUpdate(2, "e2", "2", "0", ago(9*time.Minute))
			after(t, 5*time.Second)
			b.table.CommitUpdate(2)
		}, []string{"Modified e2=2"}},
		{"what is rolled back, and what is committed beside it", func(t *testing.T, b *bench) {
			b.table.OpenUpdate(2, "e2", "2", "0", now())
			b.table.OpenUpdate(3, "e3", "2", "0", now())
			after(t, 15*time.Second)
			b.table.RollbackUpdate(2)
			b.table.CommitUpdate(3)
			after(t, time.Second)
		}, []string{"Modified e3=2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newChangesBench(t, 3)
				b.run(t)
				after(t, 30*time.Second)
				c.change(t, b)
				after(t, twoPolls)
				got := b.news(t, 3)
				slices.Sort(got)
				if !slices.Equal(got, c.want) {
					t.Errorf("said %q, want %q", got, c.want)
				}
				after(t, time.Minute)
				if n := len(b.news(t, 3)); n != len(c.want) {
					t.Errorf("%d events in the end, want %d", n, len(c.want))
				}
			})
		})
	}
}

// TestManyUpdatesInFlight has more rows in flight than fit into one lookup, and more than are
// watched one by one.
func TestManyUpdatesInFlight(t *testing.T) {
	cases := []struct {
		name     string
		remember int
		// apart gives each row a MODIFIED of its own.
		apart bool
	}{
		{"in a statement each", 1 << 18, true},
		{"more than are watched", 4000, false},
		{"in one statement", 1 << 18, false},
		{"more than are watched, in a statement each", 4000, true},
	}
	rows := testall.Pick(2100, 3000)
	for _, c := range cases[:testall.Pick(2, len(cases))] {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newChangesBench(t, rows)
				b.opts.CursorRows, b.opts.Reach = c.remember, 10*time.Second
				b.run(t)
				after(t, 12*time.Second)
				var ids []uint64
				at := now()
				for id := uint64(1); id <= uint64(rows); id++ {
					if c.apart {
						after(t, time.Millisecond)
						at = now()
					}
					b.table.OpenUpdate(id, fmt.Sprint("e", id), "2", "0", at)
					ids = append(ids, id)
				}
				// Longer than the reach: the look-back has to stay with them.
				after(t, 15*time.Second)
				b.table.CommitUpdate(ids...)
				after(t, twoPolls)
				if got := len(b.news(t, rows)); got != rows {
					t.Errorf("%d of %d updates are published two polls after their commit", got, rows)
				}
				after(t, 12*time.Second)
				if got := len(b.news(t, rows)); got != rows {
					t.Errorf("%d events, want %d", got, rows)
				}
			})
		})
	}
}

func TestUpdatesInFlightOverARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newChangesBench(t, 3)
		_, stop := b.run(t)
		after(t, time.Minute)
		b.table.OpenUpdate(2, "e2", "2", "0", now())
		b.table.OpenUpdate(3, "e3", "2", "0", now())
		after(t, 2*time.Minute)
		stop()
		b.table.CommitUpdate(2)
		after(t, time.Minute)
		_, stop = b.run(t)
		after(t, twoPolls)
		if got := b.news(t, 3); !slices.Equal(got, []string{"Modified e2=2"}) {
			t.Errorf("said %q after the restart", got)
		}
		after(t, 5*time.Minute)
		b.table.CommitUpdate(3)
		after(t, twoPolls)
		if got := b.news(t, 4); !slices.Equal(got, []string{"Modified e3=2"}) {
			t.Errorf("said %q after the commit", got)
		}
		stop()
	})
}

func TestUpdatesWhereEvidenceDoesNotCount(t *testing.T) {
	for name, perSecond := range map[string]int{"a quiet table": 0, "a busy table": 100} {
		instantly(t, name, func(t *testing.T) {
			b := newChangesBench(t, 3)
			b.opts.CursorRows = 4000
			updates := func() []string {
				return slices.DeleteFunc(b.news(t, 3), func(text string) bool { return strings.HasPrefix(text, "Added") })
			}
			b.table.Move("replica", true)
			b.run(t)
			after(t, 30*time.Second)
			b.table.OpenUpdate(1, "e1", "2", "0", now())
			after(t, 500*time.Millisecond)
			b.table.CommitUpdate(1)
			b.table.OpenUpdate(2, "e2", "2", "0", now())
			after(t, 15*time.Second)
			b.table.CommitUpdate(2)
			b.keepInserting(t, time.Minute, perSecond)
			if got := updates(); !slices.Equal(got, []string{"Modified e1=2"}) {
				t.Errorf("said %q: only what is committed within the look-back is seen there", got)
			}
			// Once evidence counts, what is within the reach is found.
			b.table.Move("memory", false)
			after(t, 5*time.Second)
			if got := updates(); !slices.Equal(got, []string{"Modified e1=2", "Modified e2=2"}) {
				t.Errorf("said %q once the writer answers", got)
			}
		})
	}
}

// keepInserting lets time pass and inserts rows meanwhile.
func (b *bench) keepInserting(t *testing.T, d time.Duration, perSecond int) {
	for tenths := range int(d / (100 * time.Millisecond)) {
		for i := range perSecond / 10 {
			b.table.Insert(fmt.Sprint("n", tenths, "-", i), "1", "0", now())
		}
		after(t, 100*time.Millisecond)
	}
}

// TestWhatABusyLookBackCosts: what a cursor remembers is more than one look-back, so that its rows
// are not read again and again.
func TestWhatABusyLookBackCosts(t *testing.T) {
	reads := make(map[int]int64)
	for _, remember := range []int{4000, 1 << 18} {
		synctest.Test(t, func(t *testing.T) {
			b := newChangesBench(t, 1)
			b.opts.CursorRows, b.opts.LookBack = remember, 10*time.Second
			counted := &countedChanges{Shard: b.table}
			b.source = counted
			_, stop := b.run(t)
			after(t, time.Second)
			b.keepInserting(t, 15*time.Second, 500)
			stop()
			reads[remember] = counted.rowReads.Load()
		})
	}
	if few, many := reads[4000], reads[1<<18]; few > many {
		t.Errorf("rows are read %d times by id where 4000 changes are remembered, %d times where 262144 are", few, many)
	}
}

// countedChanges counts the reads of changes and what they brought.
type countedChanges struct {
	source.Shard
	reads, rows, rowReads atomic.Int64
}

func (c *countedChanges) ReadChanges(ctx context.Context, q source.ChangeQuery, changes *source.Changes) error {
	err := c.Shard.ReadChanges(ctx, q, changes)
	c.reads.Add(1)
	c.rows.Add(int64(len(changes.List)))
	return err
}

func (c *countedChanges) Read(ctx context.Context, q source.Query, p *source.Page) error {
	if q.Ranges != nil {
		c.rowReads.Add(1)
	}
	return c.Shard.Read(ctx, q, p)
}

func TestWhatUpdatesInFlightCost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newChangesBench(t, 500)
		counted := &countedChanges{Shard: b.table}
		b.source = counted
		_, stop := b.run(t)
		after(t, 11*time.Minute)
		cost := func(what string, most, rows int64) {
			t.Helper()
			counted.reads.Store(0)
			counted.rows.Store(0)
			counted.rowReads.Store(0)
			// A quiet shard is polled five times a second.
			after(t, 20*time.Second)
			if got := counted.reads.Load(); got > 102*most {
				t.Errorf("%s: %d reads of changes in 100 polls", what, got)
			}
			if got := counted.rows.Load(); got > 102*rows {
				t.Errorf("%s: %d changes read in 100 polls", what, got)
			}
			if got := counted.rowReads.Load(); got > 1 {
				t.Errorf("%s: rows are read %d times", what, got)
			}
			t.Logf("%s: %d reads, %d changes in 100 polls", what, counted.reads.Load(), counted.rows.Load())
		}
		cost("idle", 2, 0)
		b.table.OpenUpdate(2, "e2", "2", "0", now())
		cost("one in flight", 4, 3)
		b.table.RollbackUpdate(2)
		after(t, time.Second)
		cost("rolled back", 2, 0)
		// To the second two changes look alike, and are read once more: not here.
		after(t, time.Millisecond)
		for id := uint64(1); id <= 500; id++ {
			b.table.Update(id, fmt.Sprint("e", id), "1", "0", now())
		}
		after(t, 11*time.Second)
		cost("500 touched within the reach", 2, 500)
		stop()
		if got := strings.Join(b.news(t, 500), " "); got != "" {
			t.Errorf("said %.100q", got)
		}
	})
}
