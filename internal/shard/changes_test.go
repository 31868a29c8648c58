package shard_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
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
func (b *bench) news(t testing.TB, n int) (texts []string) {
	t.Helper()
	for _, one := range b.said(t)[n:] {
		texts = append(texts, one.text)
	}
	return texts
}

func ago(d time.Duration) string { return time.Now().UTC().Add(-d).Format(stamp) }

// threeRows has the rows e1 to e3 be published, for as long as a change may be looked for.
const threeRows = "run; pass 30s; said Added e1=1, Added e2=1, Added e3=1;"

func TestUpdatesInFlight(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		// want is what is said within two polls, and in the end.
		want string
	}{
		"a soft delete in a transaction that is open for longer than the reach": {
			"begin-update 2 e2 1 1 now; pass 15m; commit-update 2", "Deleted e2",
		},
		"a statement that comes to its rows one after the other": {`
			moment; pass 5s; begin-update 1 e1 2 0 @moment; pass 5s; begin-update 2 e2 2 0 @moment; pass 5s; begin-update 3 e3 2 0 @moment;
			commit-update 1-3`, "Modified e1=2, Modified e2=2, Modified e3=2",
		},
		"a transaction that sets a MODIFIED of nine minutes ago": {
			"pass 10m; begin-update 2 e2 2 0 ago=9m; pass 5s; commit-update 2", "Modified e2=2",
		},
		"one of before an outage longer than the reach, committed in it": {
			"away; pass 5s; update 2 e2 2 0 ago=5m; pass 20m; back; pass 1m", "Modified e2=2",
		},
		"a late one behind a clock that was set back": {`
			pass 15m; update 1 e1 2 0 now; pass 15m; update 3 e3 2 0 now; pass 5s; set-back 12m; update 2 e2 2 0 ago=17m; pass 1s`,
			"Modified e1=2, Modified e2=2, Modified e3=2",
		},
		"what is rolled back, and what is committed beside it": {`
			begin-update 2 e2 2 0 now; begin-update 3 e3 2 0 now; pass 15s; roll-back 2; commit-update 3; pass 1s`, "Modified e3=2",
		},
	} {
		instantly(t, name, func(t *testing.T) {
			says := "says " + c.want
			newChangesBench(t, 3).play(t, threeRows+c.script+"; pass 450ms;"+says+"; pass 1m;"+says)
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
	instantly(t, "of two transactions", func(t *testing.T) {
		newChangesBench(t, 3).play(t, threeRows+`
			begin-update 2 e2 2 0 now; begin-update 3 e3 2 0 now; pass 2m; stop; commit-update 2; pass 1m; run; pass 450ms;
			says Modified e2=2; pass 5m; commit-update 3; pass 450ms; says Modified e2=2, Modified e3=2; stop`)
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
			s := b.play(t, `
				server replica replica; run; pass 30s; begin-update 1 e1 2 0 now; pass 500ms; commit-update 1;
				begin-update 2 e2 2 0 now; pass 15s; commit-update 2`)
			b.keepInserting(t, time.Minute, perSecond)
			if got := updates(); !slices.Equal(got, []string{"Modified e1=2"}) {
				t.Errorf("said %q: only what is committed within the look-back is seen there", got)
			}
			// Once evidence counts, what is within the reach is found.
			s.play("server memory; pass 5s")
			if got := updates(); !slices.Equal(got, []string{"Modified e1=2", "Modified e2=2"}) {
				t.Errorf("said %q once the writer answers", got)
			}
		})
	}
}

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

// pairedSource has ids with a format: two rows of its table share a number. Pages have all rows.
type pairedSource struct {
	source.Shard
	mu      sync.Mutex
	columns map[*source.Columns]*source.Columns
	// byID says that the id is the time: that of MODIFIED.
	byID bool
	// unfit says that reads of changes meet a row that is no id.
	unfit atomic.Bool
}

func newPairedSource(table source.Shard) *pairedSource {
	return &pairedSource{Shard: table, columns: make(map[*source.Columns]*source.Columns)}
}

func rowsOfPairs(ranges []source.Range) (rows []source.Range) {
	for _, r := range ranges {
		rows = append(rows, source.Range{First: 2*max(r.First, 1) - 1, Last: 2 * min(r.Last, 1<<32)})
	}
	return rows
}

func (s *pairedSource) Read(ctx context.Context, q source.Query, p *source.Page) error {
	q.After, q.Through = 2*min(q.After, 1<<32), 2*min(q.Through, 1<<32)
	if q.Ranges != nil {
		q.Ranges = rowsOfPairs(q.Ranges)
	}
	q.Limit, q.MaxBytes = 10_000, 0
	if err := s.Shard.Read(ctx, q, p); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	formatted := s.columns[p.Columns]
	if formatted == nil {
		columns := *p.Columns
		columns.IDFormat, columns.ByID = source.ULID, s.byID
		formatted = &columns
		s.columns[p.Columns] = formatted
	}
	p.Columns, p.MaxID = formatted, (p.MaxID+1)/2
	for i := range p.Rows {
		p.Rows[i].ID = (p.Rows[i].ID + 1) / 2
	}
	return nil
}

func (s *pairedSource) ReadChanges(ctx context.Context, q source.ChangeQuery, c *source.Changes) error {
	if s.unfit.Load() {
		return fmt.Errorf("%w: the id \"zebra\" does not fit", source.ErrUnfit)
	}
	if q.Ranges != nil {
		q.Ranges = rowsOfPairs(q.Ranges)
	}
	bounds, limit := q, q.Limit
	if q.Limit = 10_000; s.byID {
		q.After, q.Through = source.Cursor{}, ""
	}
	q.After.ID *= 2
	err := s.Shard.ReadChanges(ctx, q, c)
	for i := range c.List {
		if c.List[i].Row = strconv.FormatUint(c.List[i].ID, 10); s.byID {
			c.List[i].Row = ulid(c.List[i])
			c.List[i].Modified = c.List[i].Row
		}
		c.List[i].ID = (c.List[i].ID + 1) / 2
	}
	if !s.byID || bounds.Ranges != nil {
		return err
	}
	c.List = slices.DeleteFunc(c.List, func(at source.Cursor) bool {
		return at.Row <= bounds.After.Modified || bounds.Through != "" && at.Row > bounds.Through
	})
	if c.More = len(c.List) > limit; c.More {
		c.List = c.List[:limit]
	}
	return err
}

// ulid is the text of an id that was made at the MODIFIED of a row.
func ulid(at source.Cursor) string {
	if text, known := ulids.Load(at); known {
		return text.(string)
	}
	made, _ := (source.Column{Kind: source.DateTime}).Time([]byte(at.Modified), time.UTC)
	text := source.Column{Format: source.ULID}.Text(made, nil)
	id := fmt.Sprintf("%s%016d", text[:10], at.ID)
	ulids.Store(at, id)
	return id
}

// ulids are those of ulid, which is asked for the same ones again and again.
var ulids sync.Map

func (s *pairedSource) Traits(ctx context.Context) (source.Traits, error) {
	traits, err := s.Shard.Traits(ctx)
	traits.Order = source.OrderNone
	return traits, err
}

// TestRowsThatShareANumber has the rows 1 and 2 share one, and 3 and 4.
func TestRowsThatShareANumber(t *testing.T) {
	begin := func(t *testing.T) (s *stage, paired *pairedSource) {
		b := newChangesBench(t, 0)
		paired = newPairedSource(b.table)
		b.source = paired
		return b.play(t, "run; row a 1 0 now; row b 1 0 now; row c 1 0 now; said Added a=1, Added b=1, Added c=1"), paired
	}
	instantly(t, "an update of a key deletes its former entity alone", func(t *testing.T) {
		s, _ := begin(t)
		s.play("update 2 d 1 0 now; said Added d=1, Deleted b")
		reads := s.table.Reads()
		if s.play("wait 1m; said"); s.table.Reads()-reads > 3000 {
			t.Errorf("%d reads in a minute: rows of a number nominate one another", s.table.Reads()-reads)
		}
		// Both keys of a number, each to that of the other.
		s.play("update 1 d 1 0 now; update 2 a 1 0 now; wait 1m; said")
	})
	instantly(t, "two changes of each within a second are seen", func(t *testing.T) {
		s, _ := begin(t)
		s.play("wait 3s; moment; update 1 a 2 0 @second; wait 150ms; update 1 a 3 0 @second; wait 150ms")
		s.began = s.began.Add(-10 * time.Second)
		s.play("update 2 b 2 0 @second; wait 1m")
		if said := s.news(t, 3); !slices.Contains(said, "Modified a=3") || !slices.Contains(said, "Modified b=2") {
			t.Errorf("the bus says %v", said)
		}
	})
	instantly(t, "an unfit id stops the shard until it is gone", func(t *testing.T) {
		s, paired := begin(t)
		paired.unfit.Store(true)
		s.play("stopped; row d 1 0 now")
		paired.unfit.Store(false)
		s.play("said Added d=1")
	})
}

// TestIDsOfASlowClock: an id is made before its row is inserted, by another clock. Where open rows
// are not shown, too, the reach is read again.
func TestIDsOfASlowClock(t *testing.T) {
	for name, rows := range map[string]int{"a few rows": 3, "more rows than are read together": lightRows + 1} {
		for _, replica := range []bool{false, true} {
			instantly(t, fmt.Sprintf("%s, without evidence %v", name, replica), func(t *testing.T) {
				b := newChangesBench(t, 0)
				b.table.Move("memory", replica)
				paired := newPairedSource(b.table)
				paired.byID = true
				b.source = paired
				for i := range rows {
					b.table.Insert(fmt.Sprint("e", i), "1", "0", ago(time.Minute))
				}
				b.run(t)
				after(t, 5*time.Second)
				for _, age := range []time.Duration{15 * time.Second, 9 * time.Minute} {
					b.table.Insert(age.String(), "1", "0", ago(age))
				}
				after(t, 5*time.Second)
				if got := b.news(t, rows); len(got) != 2 {
					t.Errorf("the bus says %v", got)
				}
				reads := b.table.Reads()
				after(t, time.Minute)
				if n := b.table.Reads() - reads; n > 350 {
					// A poll without a tail reads once.
					t.Errorf("%d reads of rows in a minute without news", n)
				}
			})
		}
	}
}

// lightRows is how many changes the look-back reads together.
const lightRows = 1000
