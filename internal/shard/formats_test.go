package shard_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.org/bridge/internal/shard"
	"example.org/bridge/source"
)

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
	begin := func(t *testing.T) (b *bench, paired *pairedSource, s *shard.Shard) {
		b = newChangesBench(t, 0)
		paired = newPairedSource(b.table)
		b.source = paired
		s, _ = b.run(t)
		for _, name := range []string{"a", "b", "c"} {
			b.table.Insert(name, "1", "0", now())
		}
		b.expectSaid(t, "Added a=1", "Added b=1", "Added c=1")
		return b, paired, s
	}
	instantly(t, "an update of a key deletes its former entity alone", func(t *testing.T) {
		b, _, _ := begin(t)
		b.table.Update(2, "d", "1", "0", now())
		b.expectSaid(t, "Added a=1", "Added b=1", "Added c=1", "Added d=1", "Deleted b")
		reads := b.table.Reads()
		wait(t, time.Minute)
		b.expectSaid(t, "Added a=1", "Added b=1", "Added c=1", "Added d=1", "Deleted b")
		if n := b.table.Reads() - reads; n > 3000 {
			t.Errorf("%d reads in a minute: rows of a number nominate one another", n)
		}
		// Both keys of a number, each to that of the other.
		b.table.Update(1, "d", "1", "0", now())
		b.table.Update(2, "a", "1", "0", now())
		wait(t, time.Minute)
		b.expectSaid(t, "Added a=1", "Added b=1", "Added c=1", "Added d=1", "Deleted b")
	})
	instantly(t, "two changes of each within a second are seen", func(t *testing.T) {
		b, _, _ := begin(t)
		wait(t, 3*time.Second)
		same := time.Now().UTC().Truncate(time.Second).Format(stamp)
		for _, v := range []string{"2", "3"} {
			b.table.Update(1, "a", v, "0", same)
			wait(t, 150*time.Millisecond)
		}
		b.table.Update(2, "b", "2", "0", time.Now().UTC().Truncate(time.Second).Add(-10*time.Second).Format(stamp))
		wait(t, time.Minute)
		if said := b.news(t, 3); !slices.Contains(said, "Modified a=3") || !slices.Contains(said, "Modified b=2") {
			t.Errorf("the bus says %v", said)
		}
	})
	instantly(t, "an unfit id stops the shard until it is gone", func(t *testing.T) {
		b, paired, s := begin(t)
		paired.unfit.Store(true)
		eventually(t, "the shard stops", func() bool { return s.Status().State == shard.Stopped })
		b.table.Insert("d", "1", "0", now())
		paired.unfit.Store(false)
		b.expectSaid(t, "Added a=1", "Added b=1", "Added c=1", "Added d=1")
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
