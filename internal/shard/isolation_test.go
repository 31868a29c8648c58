package shard_test

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/event"
	"example.org/bridge/internal/shard"
	"example.org/bridge/reconcile"
	"example.org/bridge/sink"
	"example.org/bridge/source"
)

// lines is a log that a test reads while it is written.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), text)
}

func TestAStuckStreamHoldsUpNoOther(t *testing.T) {
	limits := shard.NewLimits(1<<20, 2, 2)
	stuckLimits, freeLimits := limits.Stream(), limits.Stream()
	var release []func()
	for range 12 {
		stuck := newBench(t)
		stuck.shared, stuck.opts.Limits = true, stuckLimits
		stuck.opts.ShutdownTimeout = time.Millisecond
		stuck.insert(2000)
		release = append(release, stuck.bus.Pause(0))
		stuck.run(t)
	}
	b := newBench(t)
	b.shared, b.opts.Limits = true, freeLimits
	b.insert(500)
	_, stop := b.run(t)
	b.saved(t, 500)
	if used := limits.InFlight(); used > 1<<20 {
		t.Errorf("%d bytes are in flight, the bound is %d", used, 1<<20)
	}
	stop()
	for _, r := range release {
		r()
	}
}

// TestTablesThatCannotBeReadHoldUpNoOther: what is reserved for them is the others' meanwhile.
func TestTablesThatCannotBeReadHoldUpNoOther(t *testing.T) {
	limits := shard.NewLimits(1<<20, 1, 2).Stream()
	var reads atomic.Int64
	for range 12 {
		b := newBench(t)
		b.shared, b.opts.Limits = true, limits
		b.hook = func(source.Query) error { reads.Add(1); return errAway }
		b.run(t)
	}
	// Eight shares there are.
	eventually(t, "they are tried", func() bool { return reads.Load() >= 8 })
	b := newBench(t)
	b.shared, b.opts.Limits = true, limits
	b.insert(500)
	b.run(t)
	b.saved(t, 500)
}

// TestLargeRowsThatWaitHoldUpNoOther: they wait for the one that is on its way, whose bus is away,
// and what was reserved for them is the others' meanwhile. Then they wait for nothing that these
// hold.
func TestLargeRowsThatWaitHoldUpNoOther(t *testing.T) {
	instantly(t, "", func(t *testing.T) {
		limits := shard.NewLimits(64<<10, 1, 2).Stream()
		table := func(bytes int) *bench {
			b := newBench(t)
			b.shared, b.opts.Limits, b.tick, b.opts.PollInterval = true, limits, time.Minute, time.Second
			b.table.Insert(strings.Repeat("x", bytes), old)
			return b
		}
		stuck, large := table(9000), table(9000)
		goOn := stuck.bus.Pause(0)
		stuck.run(t)
		eventually(t, "the first is on its way", func() bool { return stuck.bus.Publishes() > 0 })
		large.run(t)
		for range 7 {
			table(9000).run(t)
		}
		wait(t, time.Minute)
		small := table(1)
		small.run(t)
		small.saved(t, 1)
		for range 12 {
			away := table(6000)
			defer away.bus.Pause(0)()
			away.run(t)
		}
		wait(t, time.Minute)
		goOn()
		large.saved(t, 1)
	})
}

// halfStore is a store that refuses one change of a table, and from then on cannot read the table.
type halfStore struct {
	store.Store
	refuses, unreadable atomic.Bool
	// schema is which of the next reads of its schema fails, 0 for none.
	schema atomic.Int64
}

func (s *halfStore) Apply(ctx context.Context, b *store.Batch) error {
	for i := range b.Shards {
		if b.Shards[i].Key == key && s.refuses.CompareAndSwap(true, false) {
			s.unreadable.Store(true)
			return store.ErrOutage
		}
	}
	return s.Store.Apply(ctx, b)
}

func (s *halfStore) Parts(ctx context.Context, k store.Key, kind store.Kind, from uint64) iter.Seq2[store.Part, error] {
	if k == key && (s.unreadable.Load() || kind == store.SchemaPart && s.schema.Add(-1) == 0) {
		return func(yield func(store.Part, error) bool) { yield(store.Part{}, syscall.EIO) }
	}
	return s.Store.Parts(ctx, k, kind, from)
}

// TestAnUnreadablePartStopsItsTableAlone: the table waits for what it could neither write nor read,
// the other one of the stream goes on. Nothing is lost or repeated once it can be read.
func TestAnUnreadablePartStopsItsTableAlone(t *testing.T) {
	instantly(t, "", func(t *testing.T) {
		b := newBench(t)
		kept := &halfStore{Store: b.store}
		b.store, b.second, b.topics = kept, newBench(t).table, []string{topic, "second"}
		b.destinations = append(b.destinations, "second")
		b.bus.Create("second")
		s := b.play(t, "run; insert 10; saved 10")
		kept.refuses.Store(true)
		s.play("insert 10; waiting")
		for i := range uint64(3) {
			b.second.Insert("x", old)
			eventually(t, "the other one goes on", func() bool { return b.positionOf(t, shardNames[1]) == i+1 })
		}
		s.play("is waiting; position 10")
		kept.unreadable.Store(false)
		s.play("saved 20; insert 10; saved 30; stop; ids 1-30")
	})
}

// TestAShardBeginsOnceItsPartsCanBeRead: what cannot be read at its start is waited for.
func TestAShardBeginsOnceItsPartsCanBeRead(t *testing.T) {
	instantly(t, "", func(t *testing.T) {
		b := newBench(t)
		kept := &halfStore{Store: b.store}
		b.store = kept
		s := b.play(t, "insert 10; run-to 10")
		kept.unreadable.Store(true)
		s.play("run; waiting; error " + syscall.EIO.Error() + "; insert 10")
		kept.unreadable.Store(false)
		s.play("saved 20; running; stop; ids 1-20")
		// Behind that of the feed.
		kept.schema.Store(2)
		s.play("run; insert 10; saved 30; stop")
	})
}

func TestStatusTellsTheTruth(t *testing.T) {
	t.Run("the oldest row counts, whatever stands in CREATED of those before it", func(t *testing.T) {
		b := newBench(t)
		for _, created := range []string{"0001-01-01 00:00:00.000000", "0000-00-00 00:00:00.000000", "2999-01-01 00:00:00.000000", old} {
			b.table.Insert("x", created)
		}
		b.bus.Reject(refuseAll)
		if lag := lagOf(b.play(t, "run; stopped").shard.Status()); lag < 24*time.Hour {
			t.Errorf("lag %s of a row that is years old", lag)
		}
	})
	instantly(t, "a store that cannot write shows, also while the source answers", func(t *testing.T) {
		b := newBench(t)
		s := b.play(t, "room; run; running; full; insert 10; waiting; polls 20; is waiting; error "+store.ErrOutage.Error())
		if faults := b.opts.Faults.Outages(); len(faults) != 1 || faults[0].Dependency != "checkpoint/items/items" {
			t.Errorf("faults %v", faults)
		}
		s.play("room; running; ids 1-10")
		if status, faults := s.shard.Status(), b.opts.Faults.Outages(); status.LastError != "" || len(faults) != 0 {
			t.Errorf("%q, faults %v", status.LastError, faults)
		}
	})
	t.Run("a store that only a restart resolves ends the process with an error", func(t *testing.T) {
		b := newBench(t)
		broken := &faultyStore{Store: b.store}
		b.store = broken
		p := b.process(t)
		ended := make(chan error)
		go func() { ended <- p.run(t.Context()) }()
		eventually(t, "running", func() bool { return p.shard.Status().State == shard.Running })
		broken.fail(store.ErrDamaged)
		b.insert(10)
		if err := <-ended; !errors.Is(err, store.ErrDamaged) {
			t.Errorf("it returns %v", err)
		}
	})
	instantly(t, "a shape that cannot be mapped is said once", func(t *testing.T) {
		log := new(lines)
		b := newBench(t)
		b.opts.Logger = slog.New(slog.NewTextHandler(log, nil))
		b.opts.Recheck = time.Millisecond
		b.insert(1)
		b.fields = []event.Field{{Column: "nowhere", Member: "m"}}
		s, _ := b.run(t)
		stopped(t, s)
		b.polls(t, 20)
		if n := log.count("shard stopped"); n != 1 {
			t.Errorf("%d lines say that the shard stopped", n)
		}
	})
}

func TestStartAboveTheTableIsRefusedUntilItIsThere(t *testing.T) {
	b := newBench(t)
	b.opts.Start = shard.Start{After: 10}
	b.play(t, `
		recheck 100ms; insert 5; run; stopped; error items: table unfit for the stream: START is 10, the highest id is 5;
		insert 7; saved 12; stop; ids 11-12`)
}

func refuseAll(*sink.Message) string { return "no" }

// TestARateHoldsTheTailAlone: a backlog comes as slowly as the rate says, and whole; a row that
// commits late meanwhile, below the position, does not wait for the backlog.
func TestARateHoldsTheTailAlone(t *testing.T) {
	t.Parallel()
	const perSecond, rows = 400, 1000
	b := newBench(t)
	b.opts.Rate = shard.NewRate(perSecond)
	b.insert(20)
	late := b.table.Open("late", "2020-01-01 00:00:00.000000")
	b.insert(rows)
	began := time.Now()
	s, _ := b.run(t)
	eventually(t, "the tail has passed the gap", func() bool { return b.position(t) > late+10 })
	b.table.Commit(late)
	eventually(t, "the late row is published", func() bool { return slices.Contains(b.ids(topic), late) })
	if reached := b.position(t); reached >= rows+21 {
		t.Error("the late row came behind the backlog")
	}
	b.saved(t, rows+21)
	if took, least := time.Since(began), time.Duration(rows-perSecond/4)*time.Second/perSecond; took < least {
		t.Errorf("%d rows took %s, want at least %s", rows, took, least)
	}
	if got := len(b.ids(topic)); got != rows+21 {
		t.Errorf("%d messages, want %d", got, rows+21)
	}
	if s.Status().State != shard.Running {
		t.Errorf("it is %s", s.Status().State)
	}
}

// A defect that only some rows meet: everything works up to row 150, what touches it panics.
const poisoned = 150

func defect() { panic("a defect") }

type poisonedSink struct{ sink.Sink }

func (s poisonedSink) Publish(ctx context.Context, messages []sink.Message) (sink.Outcome, error) {
	for i := range messages {
		if messages[i].RowID == poisoned {
			defect()
		}
	}
	return s.Sink.Publish(ctx, messages)
}

type poisonedStore struct{ store.Store }

func (s poisonedStore) Apply(ctx context.Context, b *store.Batch) error {
	for i := range b.Shards {
		if p := b.Shards[i].Progress; p != nil && p.Position >= poisoned {
			defect()
		}
	}
	return s.Store.Apply(ctx, b)
}

// poisonedTable panics when the page with the poisoned row is read.
func poisonedTable(q source.Query) error {
	if q.Ranges == nil && q.After < poisoned && q.After+100 >= poisoned {
		defect()
	}
	return nil
}

func TestAPanicEndsItsStreamAlone(t *testing.T) {
	for _, c := range []struct {
		name   string
		view   bool
		poison func(*bench)
	}{
		{"when the table of a capability stream is read", true, func(b *bench) { b.hook = poisonedTable }},
		{"when the event is routed", false, func(b *bench) {
			b.opts.Route = func(e *event.Event) string {
				if string(e.Key) == "150" {
					defect()
				}
				return topic
			}
		}},
		{"when the batch of a capability stream is published", true, func(b *bench) { b.sink = poisonedSink{b.bus} }},
		{"when the state is saved", false, func(b *bench) { b.store = poisonedStore{b.store} }},
		{"when the state of a capability stream is saved", true, func(b *bench) { b.store = poisonedStore{b.store} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			const maxBytes = 1 << 20
			limits := shard.NewLimits(maxBytes, 2, 2)
			log := new(lines)
			bad, good := newBench(t), newBench(t)
			if c.view {
				bad = newViewBench(t, false)
			}
			for _, b := range []*bench{bad, good} {
				b.shared, b.opts.Limits = true, limits.Stream()
			}
			bad.opts.Logger = slog.New(slog.NewTextHandler(log, nil))
			c.poison(bad)
			bad.insertRows(400, c.view)
			good.insertRows(400, false)
			s, stopBad := bad.run(t)
			eventually(t, "the stream stops", func() bool { return s.Status().State == shard.Stopped })
			expectText(t, s.Status().LastError, "panic: a defect")
			eventually(t, "the stack is in the log", func() bool { return log.count("shard_test.defect") > 0 })
			// Nothing is held that the other stream could need: all that one stream may use is
			// free.
			if left := limits.InFlight(); left != 0 {
				t.Errorf("%d bytes are still reserved", left)
			}
			// Invariant 1: what is saved is on the bus.
			if at, sent := bad.position(t), bad.count(topic); at >= poisoned || int(at) > sent {
				t.Errorf("the position is %d, with %d messages on the bus", at, sent)
			}
			if _, err := s.Nominate(t.Context(), reconcile.Nomination{Rows: []source.Range{{First: 1, Last: 1}}}); err == nil {
				t.Error("the stopped shard takes nominations")
			}
			_, stopGood := good.run(t)
			good.saved(t, 400)
			stopGood()
			stopBad()

			// With the defect fixed it goes on behind what was saved, and nothing is missing.
			bad.hook, bad.sink = nil, nil
			bad.opts.Route = func(*event.Event) string { return topic }
			if poisoned, ok := bad.store.(poisonedStore); ok {
				bad.store = poisoned.Store
			}
			bad.runTo(t, 400)
			ids := bad.ids(topic)
			slices.Sort(ids)
			if n := len(slices.Compact(ids)); n != 400 {
				t.Errorf("%d of 400 rows are on the bus", n)
			}
		})
	}
}

// panickingSink stores the messages of the first shard and panics. It tells no offsets of others.
type panickingSink struct{ sink.Sink }

func (s panickingSink) Publish(ctx context.Context, messages []sink.Message) (sink.Outcome, error) {
	out, err := silentSink(s).Publish(ctx, messages)
	if messages[0].Shard == shardNames[0] {
		defect()
	}
	return out, err
}

// TestAPanicLeavesNothingInFlight: what a shard that panicked had sent has an unknown outcome. A
// reader that meets it on behalf of another shard does not wait for it (rule 4).
func TestAPanicLeavesNothingInFlight(t *testing.T) {
	instantly(t, "of two shards", func(t *testing.T) {
		b := newViewBench(t, false)
		b.second = newViewBench(t, false).table
		b.sink = panickingSink{b.bus}
		b.table.Insert("a", "1", "0")
		s, _ := b.run(t)
		eventually(t, "the shard stops", func() bool { return s.Status().State == shard.Stopped })
		b.second.Insert("b", "1", "0")
		eventually(t, "the other one goes on", func() bool { return b.positionOf(t, shardNames[1]) == 1 })
	})
}

// insertRows commits n rows, all older than any window, of a capability stream where view says so.
func (b *bench) insertRows(n int, view bool) {
	if !view {
		b.insert(n)
		return
	}
	for i := range n {
		b.table.Insert(entityName(i), "ok", "0", "2020-01-01 00:00:00.000000")
	}
}

func entityName(i int) string {
	return "e" + strings.Repeat("x", i%7) + string(rune('a'+i%26)) + string(rune('a'+i/26))
}
