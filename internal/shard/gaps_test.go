package shard_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	storememory "example.org/bridge/checkpoint/store/storetest/memory"
	"example.org/bridge/event"
	"example.org/bridge/internal/shard"
	"example.org/bridge/reconcile"
	"example.org/bridge/sink"
	"example.org/bridge/source"
	sourcememory "example.org/bridge/source/sourcetest/memory"
)

// old is a CREATED that no window holds back.
const old = "2020-01-01 00:00:00.000000"

// polls waits until the table was read n more times.
func (b *bench) polls(t testing.TB, n int) {
	t.Helper()
	from := b.table.Reads()
	eventually(t, "polled on", func() bool { return b.table.Reads() > from+n })
}

// TestALateRowComesBeforeNewerOnes commits a row in a gap, and one behind all others, before the
// same read: also in a gap that opens with the batch before, which is still at the bus.
func TestALateRowComesBeforeNewerOnes(t *testing.T) {
	for _, held := range []bool{false, true} {
		b := newBench(t)
		b.opts.BatchRows = 2
		read := make(chan struct{})
		first := sync.OnceFunc(func() {
			b.table.InsertAt(2, "late", old)
			b.table.InsertAt(4, "behind", old)
			close(read)
		})
		var armed atomic.Bool
		armed.Store(held)
		b.hook = func(q source.Query) error {
			if q.Ranges == nil && q.After == 3 && armed.Load() {
				first()
			}
			return nil
		}
		b.table.InsertAt(1, "n", old)
		b.table.InsertAt(3, "n", old)
		if held {
			b.sink = gatedSink{b.bus, read}
			b.table.InsertAt(6, "n", old)
		}
		_, stop := b.run(t)
		if !held {
			b.saved(t, 3)
			armed.Store(true)
			b.table.InsertAt(6, "n", old)
		}
		eventually(t, "all rows are published", func() bool { return len(b.ids(topic)) == 5 })
		stop()
		if got := b.ids(topic); !slices.Equal(got, []uint64{1, 3, 2, 4, 6}) {
			t.Errorf("held %t: got rows %v", held, got)
		}
	}
}

func TestIDsWithoutOrderAreNotTailed(t *testing.T) {
	b := newBench(t)
	b.opts.IDOrder = source.OrderNone
	b.insert(5)
	s, _ := b.run(t)
	stopped(t, s)
	if got := b.ids(topic); len(got) > 0 {
		t.Errorf("published %v", got)
	}
}

// countedIDs counts the reads of late rows and of ids.
type countedIDs struct {
	source.Shard
	rows, ids atomic.Int64
}

func (c *countedIDs) Read(ctx context.Context, q source.Query, p *source.Page) error {
	if q.Ranges != nil {
		c.rows.Add(1)
	}
	return c.Shard.Read(ctx, q, p)
}

func (c *countedIDs) ReadIDs(ctx context.Context, ranges []source.Range, uncommitted bool, limit int, ids *source.IDs) error {
	c.ids.Add(1)
	return c.Shard.ReadIDs(ctx, ranges, uncommitted, limit, ids)
}

// TestALargeTransactionLands commits more rows below the position than one read brings.
func TestALargeTransactionLands(t *testing.T) {
	const late = 20_000
	b := newBench(t)
	counted := &countedIDs{Shard: b.table}
	b.source = counted
	var open []uint64
	for range late {
		open = append(open, b.table.Open("late", old))
	}
	b.insert(1)
	b.opts.PollInterval = 500 * time.Millisecond
	s, stop := b.run(t)
	eventually(t, "in flight", func() bool { return s.Status().Gaps.InFlight == late })
	release := b.bus.Pause(3000)
	defer release()
	for _, id := range open {
		b.table.Commit(id)
	}
	counted.rows.Store(0)
	counted.ids.Store(0)
	begun := time.Now()
	eventually(t, "the bus stands still among them", func() bool { return b.count(topic) >= 3000 })
	// The tail has its turn among them.
	b.insert(1)
	release()
	eventually(t, "all are published", func() bool { return b.count(topic) == late+2 })
	took := time.Since(begun)
	drained(t, s)
	stop()

	all := b.ids(topic)
	if at := slices.Index(all, late+2); at == len(all)-1 {
		t.Error("the row of the tail came behind all late ones")
	}
	slices.Sort(all)
	expectRun(t, all, 1, late+2)
	// Each poll that waits for its interval reads late rows once and evidence once; all others read
	// rows alone.
	polls := int64(took/b.opts.PollInterval) + 3
	if pages := int64(late/2048 + 1); counted.rows.Load() > pages+polls+2 {
		t.Errorf("%d reads of late rows for %d pages: some were read again", counted.rows.Load(), pages)
	}
	if counted.ids.Load() > polls {
		t.Errorf("%d reads of evidence in %s", counted.ids.Load(), took)
	}
}

func TestRowsOfALogThatDoNotMatch(t *testing.T) {
	b := newBench(t)
	b.table = sourcememory.NewTable(source.Spec{Table: "items", ID: "id", Created: "created", Filter: "name <> 'draft'"},
		source.Column{Name: "id", Kind: source.Int}, source.Column{Name: "name", Kind: source.Text},
		source.Column{Name: "created", Kind: source.DateTime, Precision: 6})
	for _, name := range []string{"a", "draft", "b"} {
		b.table.Insert(name, now())
	}
	s, stop := b.run(t)
	b.saved(t, 3)
	// Those of an open transaction come late.
	drafts := []uint64{b.table.Open("draft", now()), b.table.Open("c", now())}
	b.table.Insert("draft", now())
	b.saved(t, 6)
	for _, id := range drafts {
		b.table.Commit(id)
	}
	want := []uint64{1, 3, 5}
	eventually(t, "the late row is there, and no gap is open", func() bool { return b.count(topic) == len(want) && s.Status().OpenGaps == 0 })
	if got := b.ids(topic); !slices.Equal(got, want) {
		t.Errorf("the bus has the rows %v, want %v", got, want)
	}
	if v := nominate(t, s, reconcile.Nomination{Rows: []source.Range{{First: 1, Last: 6}}}); v != (reconcile.Verdict{}) {
		t.Errorf("a reconcile publishes %+v", v)
	}
	stop()
	// Without a store they are gaps that are found, and handled again.
	b.store = storememory.New()
	s, stop = b.run(t)
	eventually(t, "no gap is open", func() bool { return b.position(t) == 6 && s.Status().OpenGaps == 0 })
	stop()
	if got := b.ids(topic); !slices.Equal(got, want) {
		t.Errorf("without a store the bus has the rows %v, want %v", got, want)
	}
}

// TestMessagesThatAreAColumnComeInTheOrderOfTheirCommits: late rows that one poll cannot hand over,
// and young ones, have the rows behind them wait.
func TestMessagesThatAreAColumnComeInTheOrderOfTheirCommits(t *testing.T) {
	for name, c := range map[string]struct {
		late  string
		young bool
		rows  int
		set   func(*shard.Options)
	}{
		"a page of late rows that is cut": {late: strings.Repeat("x", 1000), rows: 40, set: func(o *shard.Options) { o.Limits = shard.NewLimits(64<<10, 1, 2).Stream() }},
		"late rows beyond the rate":       {late: "late", rows: 20, set: func(o *shard.Options) { o.Rate = shard.NewRate(20) }},
		"young late rows":                 {late: "late", young: true, rows: 2, set: func(o *shard.Options) { o.Window = time.Second }},
	} {
		t.Run(name, func(t *testing.T) {
			b := payloadBench(t)
			c.set(&b.opts)
			created := old
			var armed atomic.Bool
			b.hook = func(q source.Query) error {
				if q.Ranges == nil && armed.CompareAndSwap(true, false) {
					// Row 100 is of a transaction that began behind that of the late rows.
					for i := range c.rows {
						b.table.InsertAt(uint64(2+i), c.late, created)
					}
					b.table.InsertAt(100, "behind", old)
				}
				return nil
			}
			b.table.InsertAt(1, "n", old)
			b.table.InsertAt(50, "n", old)
			_, stop := b.run(t)
			b.saved(t, 50)
			if c.young {
				created = now()
			}
			armed.Store(true)
			b.table.InsertAt(99, "n", old)
			eventually(t, "all rows are published", func() bool { return len(b.ids(topic)) == c.rows+4 })
			stop()
			got := b.ids(topic)
			for _, id := range got[slices.Index(got, 100):] {
				if id < 50 {
					t.Fatalf("row %d comes behind row 100, which was committed later: %v", id, got)
				}
			}
		})
	}
	t.Run("a young row before one whose CREATED is older", func(t *testing.T) {
		b := payloadBench(t)
		b.opts.Window = time.Second
		b.table.InsertAt(1, "n", old)
		_, stop := b.run(t)
		b.saved(t, 1)
		b.table.InsertAt(2, "first", now())
		b.table.InsertAt(3, "second", ago(3*time.Second))
		eventually(t, "all rows are published", func() bool { return len(b.ids(topic)) == 3 })
		stop()
		if got := b.ids(topic); !slices.IsSorted(got) {
			t.Errorf("got rows %v", got)
		}
	})
}

// payloadBench is a stream whose messages are a column.
func payloadBench(t *testing.T) *bench {
	b := newBench(t)
	b.payload = &event.Payload{Column: "name"}
	b.format, b.opts.Format = event.FormatPayload, sink.FormatPayload
	return b
}
