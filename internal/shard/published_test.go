package shard_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.org/bridge/event"
	"example.org/bridge/internal/shard"
	"example.org/bridge/reconcile"
	"example.org/bridge/sink"
	"example.org/bridge/source"
	sourcememory "example.org/bridge/source/sourcetest/memory"
	"example.org/bridge/tests/must"
)

// write inserts rows that differ, as real ones do: each with its own name and CREATED.
func write(table *sourcememory.Table, name string, first, n int) {
	for i := first; i < first+n; i++ {
		table.Insert(rowOf(name, i)...)
	}
}

func rowOf(name string, i int) []string {
	return []string{fmt.Sprint(name, "-", i), time.Date(2020, 1, 1, 0, 0, 0, i*1000+len(name), time.UTC).Format(stamp)}
}

// gate blocks the reads of a bench while it is locked: whatever happens then happens between two
// reads.
type gate struct{ sync.RWMutex }

func (g *gate) pass(source.Query) error {
	g.RLock()
	defer g.RUnlock()
	return nil
}

func (g *gate) between(happen func()) {
	g.Lock()
	defer g.Unlock()
	happen()
}

// bare is a table with nothing but ids that identifies its rows.
func bare() *sourcememory.Table {
	return sourcememory.NewTable(source.Spec{Table: "items", ID: "id"},
		source.Column{Name: "id", Kind: source.Int}, source.Column{Name: "name", Kind: source.Text}, source.Column{Name: "note", Kind: source.Text})
}

// fails over to a server that ends at a row.
func (b *bench) fails(last uint64, server string) {
	b.table.Lose(last)
	b.table.Move(server, false)
}

// newPublished has a bench publish the rows 1 to 137, and puts a gate before its reads.
func newPublished(t *testing.T, b *bench) *stage {
	s := b.play(t, "")
	b.hook = s.gate.pass
	s.play("write old 1 137; run; saved 137")
	return s
}

// otherServer answers some reads of single rows in place of the server that answers pages.
type otherServer struct {
	source.Shard
	// table is what it has, where that is another one.
	table *sourcememory.Table
	// left is how many reads it still answers, answers how many it has answered.
	left, answers atomic.Int64
}

func newFormerServer(b *bench) *otherServer {
	f := &otherServer{Shard: b.table, table: newBench(nil).table}
	write(f.table, "old", 1, 137)
	return f
}

func (f *otherServer) Read(ctx context.Context, q source.Query, p *source.Page) error {
	// It never had higher ids, as those of gaps.
	if n := len(q.Ranges); n == 0 || q.Ranges[n-1].Last > 137 || f.left.Load() <= 0 {
		return f.Shard.Read(ctx, q, p)
	}
	f.left.Add(-1)
	f.answers.Add(1)
	return f.table.Read(ctx, q, p)
}

// elsewhere has single rows come from another server than pages.
type elsewhere struct{ source.Shard }

func (e elsewhere) Read(ctx context.Context, q source.Query, p *source.Page) error {
	err := e.Shard.Read(ctx, q, p)
	if q.Ranges != nil {
		p.Server = "elsewhere"
	}
	return err
}

// TestComparisonsThatNeverFit: a proxy sends single rows to a copy, forever. Pages are published
// all the same.
func TestComparisonsThatNeverFit(t *testing.T) {
	b := newBench(t)
	b.source = elsewhere{b.table}
	s := b.play(t, "write old 1 137; run-to 137; write new 1 40")
	var log lines
	b.opts.Logger = slog.New(slog.NewTextHandler(&log, nil))
	s.play("run; saved 177; is running; polls 20")
	for _, line := range []string{"nothing is published for now: one server answers", "publishing goes on after servers differed"} {
		if n := log.count(line); n != 1 {
			t.Errorf("%d lines say %q, want one", n, line)
		}
	}
}

// TestReconcileComparesTheRowsPublishedLast: a table was restored in place and filled again between
// two polls. Only its rows show that, and nothing may be called verified.
func TestReconcileComparesTheRowsPublishedLast(t *testing.T) {
	b := newBench(t)
	s := newPublished(t, b)
	confirm := func() error {
		_, err := s.shard.Nominate(t.Context(), reconcile.Nomination{Published: true})
		return err
	}
	must.OK(t, confirm())
	s.gate.between(func() { b.table.Lose(127); write(b.table, "new", 1, 40) })
	// What would hide it: newer rows that are as they were published.
	s.play("saved 167; delete 138-167")
	if err := confirm(); err == nil {
		t.Error("nothing is found")
	}
	s.play("stopped; error bridge checkpoint set items items 127")
}

// TestIDsUsedAgainByAnOpenTransaction: the ids are used, and not committed, when the new server is
// seen first.
func TestIDsUsedAgainByAnOpenTransaction(t *testing.T) {
	for name, c := range map[string]struct {
		// rows are published before the transaction commits.
		rows    uint64
		restart bool
		// former is how often the former server still answers meanwhile.
		former int64
	}{
		"while the former server answers now and then":   {rows: 20, former: 3},
		"behind more rows than are kept":                 {rows: 200},
		"over a restart, behind more rows than are kept": {rows: 200, restart: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.opts.LostEvery, b.opts.PublishedRows = 5*time.Millisecond, 64
			former := newFormerServer(b)
			b.source = former
			s := newPublished(t, b)
			s.play("between fail-over 127 | times 20 begin new old")
			for done := 0; done < int(c.rows); done += 20 {
				s.play(fmt.Sprintf("write new %d 20; saved %d", done+1, 147+done+20))
			}
			if c.restart {
				s.play("stop; run")
			}
			former.left.Store(c.former)
			eventually(t, "the former server has answered", func() bool { return former.answers.Load() >= c.former })
			s.play("commit; stopped; error from id 128 on; error bridge checkpoint set items items 127")
		})
	}
}

// uncounted is a table whose next id is not known, as that of SQLite without AUTOINCREMENT.
type uncounted struct{ source.Shard }

func (uncounted) NextID(context.Context) (uint64, error) { return 0, nil }

// TestIDsWithoutACounterAreUsedAgain: only that the highest id falls shows that, and what the bus
// has of the rows.
func TestIDsWithoutACounterAreUsedAgain(t *testing.T) {
	const old = "row old-1 one-1; row old-2 two-2; row old-3 three-3; run; saved 3;"
	again := "stopped; error %d were others, from id %d on; error bridge checkpoint set items items %d; ids 1-3"
	for name, steps := range map[string]string{
		"a table is made again and filled past its position": old + `
			truncate; polls 5; row new-1 four-4; row new-2 five-5; row new-3 six-6; row new-4 seven-7;` + fmt.Sprintf(again, 3, 1, 0),
		"a table is made again and filled below it":   old + "truncate; row new-1 four-4; row new-2 five-5;" + fmt.Sprintf(again, 2, 1, 0),
		"the same while bridge is stopped":            old + "stop; truncate; row new-1 four-4; row new-2 five-5; run;" + fmt.Sprintf(again, 2, 1, 0),
		"the newest row is deleted, then another one": old + "delete 3; polls 5; at 3 new-3 six-6;" + fmt.Sprintf(again, 1, 3, 2),
		"rows are deleted and changed alone":          old + "delete 3; update 2 old-2 changed; polls 5; at 4 new-4 seven-7; saved 4; delete 4; polls 5; is running; ids 1-4",
		"a row is deleted before any is published": `row old-1 one-1; row old-2 two-2; set 2; run; polls 5; delete 2; polls 5;
			at 3 new-3 six-6; saved 3; at 4 new-4 seven-7; saved 4; update 4 other-4 eight-8; away 1; polls 5; is running; ids 3-4`,
		"the same, and the bus is away at first":              old + "delete 3; update 2 old-2 changed; polls 5; at 4 new-4 seven-7; saved 4; delete 4; polls 5; is running; ids 1-4",
		"all are deleted":                                     old + "delete 1-3; polls 5; at 4 new-4 seven-7; saved 4; is running; ids 1-4",
		"another one, and a newer one, while the bus is away": old + "delete 3; polls 5; between at 3 new-3 six-6 | at 4 new-4 seven-7;" + fmt.Sprintf(again, 1, 3, 2),
		"the same, of a bus that may not be read":             old + "delete 3; polls 5; between at 3 new-3 six-6 | at 4 new-4 seven-7;" + fmt.Sprintf(again, 1, 3, 2),
		"a long table is emptied, filled as it was, and then with others": `keep 1; write old 1 40; run; saved 40; truncate; polls 5; write old 1 1; polls 5; is running;
			at 2 new-2 five-5; stopped; error 1 were others, from id 2 on; error bridge checkpoint set items items 0; ids 1-40`,
		"the same while the bus is away": `keep 1; write old 1 40; run; saved 40; truncate; polls 5; at 1 new-1 four-4;
			stopped; error 1 were others, from id 1 on; ids 1-40`,
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.table = bare()
			b.source = uncounted{b.table}
			failures := 0
			b.opts.Newest = func(context.Context, []uint64) (map[uint64][]byte, error) {
				switch failures++; {
				case failures <= 20 && strings.Contains(name, "the bus is away"):
					return nil, errors.New("the bus does not answer")
				case strings.Contains(name, "may not be read"):
					return nil, sink.ErrUnreadable
				}
				newest := make(map[uint64][]byte)
				for _, m := range b.bus.Messages(topic) {
					newest[m.RowID] = m.Value
				}
				return newest, nil
			}
			s := b.play(t, "")
			b.hook = s.gate.pass
			s.play(steps)
		})
	}
}

// TestATableThatIsEmptiedAgainAndAgain has no rows to be compared, though its highest id falls.
func TestATableThatIsEmptiedAgainAndAgain(t *testing.T) {
	b := newBench(t)
	b.table = bare()
	b.source = uncounted{b.table}
	var compared atomic.Int64
	b.hook = func(q source.Query) error {
		if q.Ranges != nil && q.Limit > 1 {
			compared.Add(1)
		}
		return nil
	}
	s := b.play(t, "run")
	for i := range 20 {
		s.play(fmt.Sprintf("at %d new-%[1]d one-%[1]d; saved %[1]d; delete %[1]d; polls 3", i+1))
	}
	if s.play("is running; ids 1-20"); compared.Load() > 0 {
		t.Errorf("compared %d times", compared.Load())
	}
}

// TestAStopOutlivesARefill: a table was truncated, and is filled with more rows than before while
// the shard is stopped. Only a command has it go on, whatever the table shows by then.
func TestAStopOutlivesARefill(t *testing.T) {
	for _, kind := range []event.Kind{event.Release, event.Capability} {
		t.Run(string(kind), func(t *testing.T) {
			b := newBench(t)
			b.opts.Kind, b.table = kind, bare()
			b.play(t, "write old 1 40; run-to 40; truncate; run; stopped; stop; write new 1 60")
			s, stop := b.run(t)
			expectText(t, stopped(t, s), shard.ErrIDsReused.Error(), "the next id of items was 1, the position is 40",
				time.Now().UTC().Format("at 2006-01-02T"))
			if kind == event.Release {
				expectText(t, s.Status().LastError, "bridge checkpoint set items items 0", "CHECKPOINT_URL=bus:")
			}
			expectRun(t, b.ids(topic), 1, 40)
			if kind == event.Release {
				stop()
				b.set(t, 0)
				_, stop = b.run(t)
			} else if !s.Accept() {
				t.Fatal("a person cannot agree")
			}
			b.saved(t, 60)
			stop()
			s, _ = b.run(t)
			eventually(t, "it goes on after a restart", func() bool { return s.Status().State == shard.Running })
		})
	}
}

// TestAServerThatLags: a replica that lags answers for a while. Nothing is saved, and the stream
// goes on once the replica has the row that was published last.
func TestAServerThatLags(t *testing.T) {
	const lags = "between fail-over 127 replica; stopped; error the next id of items was 128, the position is 137; error the stream goes on by itself;"
	for name, steps := range map[string]string{
		"it catches up":                      lags + "write old 128 10; running; write old 138 3; saved 140; ids 1-140",
		"over a restart":                     lags + "stop; write old 128 10; run; running; write old 138 3; saved 140; ids 1-140",
		"another server answers again":       lags + "write old 128 10; server first; running; write old 138 3; saved 140; ids 1-140",
		"its ids are used again":             lags + "write new 1 40; wait 200ms; is stopped; ids 1-137",
		"not without the row published last": lags + "write old 128 9; wait 200ms; is stopped; ids 1-137",
	} {
		for _, kind := range []event.Kind{event.Release, event.Capability} {
			t.Run(fmt.Sprint(name, ", ", kind), func(t *testing.T) {
				b := newBench(t)
				b.opts.Kind, b.opts.Recheck = kind, 20*time.Millisecond
				newPublished(t, b).play(steps)
			})
		}
	}
}

// counterElsewhere has the next id come from a server that lags.
type counterElsewhere struct{ source.Shard }

func (counterElsewhere) NextID(context.Context) (uint64, error) { return 128, nil }

// TestTheNextIDOfAnotherServer: the highest id has fallen, and another server says what is next.
func TestTheNextIDOfAnotherServer(t *testing.T) {
	b := newBench(t)
	b.source = counterElsewhere{b.table}
	newPublished(t, b).play("delete 137; polls 5; is running; write old 138 3; saved 140; ids 1-140")
}

// TestPublishedRowsAreSavedWithTheirPosition: a restored copy of the store reads back what it
// lacks, and the ids of these rows are watched, too.
func TestPublishedRowsAreSavedWithTheirPosition(t *testing.T) {
	newBench(t).play(t, `
		write old 1 100; run-to 100; copy; write old 101 37; run-to 137; restore; fail-over 127; write new 1 40; run; stopped;
		error 10 were others, from id 128 on; error bridge checkpoint set items items 127; ids 1-137`)
}
