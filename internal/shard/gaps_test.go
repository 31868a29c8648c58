package shard_test

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/event"
	"example.org/bridge/internal/shard"
	"example.org/bridge/internal/stream"
	"example.org/bridge/reconcile"
	"example.org/bridge/sink"
	"example.org/bridge/source"
	"example.org/bridge/source/ledger"
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
	newBench(t).play(t, "unordered; insert 5; run; stopped; ids")
}

// TestIDsWithoutOrderHaveNoFloor: no id tells a row from before START from one that was inserted
// since, so START is refused. Where it was not, no row is taken for one from before.
func TestIDsWithoutOrderHaveNoFloor(t *testing.T) {
	b := newViewBench(t, false)
	b.opts.Start, b.opts.IDOrder = shard.Start{Latest: true}, source.OrderStrict
	b.table.InsertAt(50, "a", "1", "0")
	_, stop := b.run(t)
	eventually(t, "the table is recorded", func() bool { return b.snapshotTaken(t) })
	stop()

	b.opts.IDOrder = source.OrderNone
	s, stop := b.run(t)
	expectText(t, stopped(t, s), "START is not beginning")
	stop()
	b.apply(t, func(image *store.Image) *store.Batch { return stream.Rebuild(image, "items", time.Now()) })
	b.opts.Start = shard.Start{}
	b.table.InsertAt(30, "b", "1", "0")
	s, _ = b.run(t)
	nominate(t, s, reconcile.Nomination{Rows: []source.Range{{First: 30, Last: 30}}})
	b.expectSaid(t, "Added b=1")
}

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
	// Those of an open transaction come late. Without a store they are gaps that are found, and
	// handled again.
	b.play(t, `
		row a now; row draft now; row b now; run; saved 3; begin draft now; begin c now; row draft now; saved 6; commit;
		count 3; gaps 0; ids 1 3 5; nominate 1-6 =; stop; lost; run; saved 6; gaps 0; stop; ids 1 3 5`)
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
		payloadBench(t).play(t, "window 1s; at 1 n old; run; saved 1; at 2 first now; at 3 next ago=3s; count 3; stop; ids 1-3")
	})
}

// payloadBench is a stream whose messages are a column.
func payloadBench(t *testing.T) *bench {
	b := newBench(t)
	b.payload = &event.Payload{Column: "name"}
	b.format, b.opts.Format = event.FormatPayload, sink.FormatPayload
	return b
}

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

// holding has a bench under GapHold whose row 4 is in flight while row 5 is there.
func holding(t *testing.T) (s *stage, log *bytes.Buffer) {
	b, log := newBench(t), new(bytes.Buffer)
	b.opts.Logger = slog.New(slog.NewTextHandler(log, nil))
	b.opts.GapPolicy = ledger.GapHold
	return b.play(t, "poll-every 100ms; look 1m; insert 3; begin late old; insert 1"), log
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
				s, log := holding(t)
				split := &splitSource{Shard: s.table}
				s.source = split
				var announced []bool
				s.opts.Announce = func(traits source.Traits) { announced = append(announced, traits.Evidence) }
				s.play("run; pass 2m; ids 1-3")
				c.disturb(s.bench, split)
				// Nothing is passed while row 4 is in flight.
				s.play("pass 10m; ids 1-3; commit; pass 1s; ids 1-5; stop")
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

// TestATransactionThatAReplicaDoesNotShow is open for longer than GAP_TTL. A replica answers
// meanwhile.
func TestATransactionThatAReplicaDoesNotShow(t *testing.T) {
	instantly(t, "late", func(t *testing.T) {
		newBench(t).play(t, `
			poll-every 1s; look 1m; ttl 10m; insert 3; begin late old; insert 1; run; pass 20m; ids 1-3 5;
			server replica replica; pass 5m; server memory; commit; pass 2s; ids 1-3 5 4`)
	})
}

func TestEvidenceThatNeverFits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := holding(t)
		split := &splitSource{Shard: s.table}
		split.elsewhere.Store(-1)
		s.source = split
		// Age alone decides in the end.
		s.play("run; pass 1m; ids 1-3; pass 2m; ids 1-3 5")
	})
}

// TestServersThatTakeTurns: behind a proxy that alternates, traits are asked about ever less.
func TestServersThatTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := holding(t)
		asked := 0
		s.opts.Announce = func(source.Traits) { asked++ }
		s.play("run; times 3000 server a | pass 100ms | server b | pass 100ms; stop")
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
