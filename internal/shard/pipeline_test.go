package shard_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"example.org/bridge/checkpoint/store"
	storememory "example.org/bridge/checkpoint/store/storetest/memory"
	"example.org/bridge/event"
	"example.org/bridge/internal/outage"
	"example.org/bridge/internal/shard"
	"example.org/bridge/sink"
	sinkmemory "example.org/bridge/sink/sinktest/memory"
	"example.org/bridge/source"
	sourcememory "example.org/bridge/source/sourcetest/memory"
	"example.org/bridge/tests/must"
)

const (
	topic     = "items"
	deadTopic = "dead"
)

var key = store.Key{Stream: "items", Shard: "items"}

// bench is a shard between a table, a bus and a store in memory. Tests change opts before run.
type bench struct {
	table *sourcememory.Table
	// second is another table of the stream, nil for none. topics are those of the tables; nil
	// leaves them to opts.Route.
	second *sourcememory.Table
	topics []string
	bus    *sinkmemory.Sink
	store  store.Store
	opts   shard.Options
	// fields is FIELDS.
	fields []event.Field
	// version and format are EVENT_VERSION and EVENT_FORMAT, empty for the defaults.
	version string
	format  event.Format
	payload *event.Payload
	// badValue is what happens to a value that an event cannot hold.
	badValue event.BadValue
	// hook is called before each read of rows, sink stands before the bus; both may be nil.
	hook func(source.Query) error
	sink sink.Sink
	// reader, when not nil, reads the bus; a reaper takes its steps at reads of the tables, too.
	reader sink.Reader
	reaper *reaper
	// source, when not nil, is read in place of the table.
	source source.Shard
	// tick is how often catch-up looks at the bus.
	tick time.Duration
	// destinations are those of the stream; unread says that the bus cannot be read back.
	destinations []string
	unread       bool
	// queue bounds that of Movers; 0 is the default.
	queue int
	// turn, when not nil, is closed when it is the turn of the process to publish; fence is called
	// then.
	turn  chan struct{}
	fence func()
	// shared says that other shards use the same limits.
	shared bool
	// pollsPerSecond bounds the polls of idle shards, 0 does not.
	pollsPerSecond int
}

func newBench(t testing.TB) *bench {
	spec := source.Spec{Table: "items", ID: "id", Created: "created"}
	b := &bench{
		table: sourcememory.NewTable(spec,
			source.Column{Name: "id", Kind: source.Int},
			source.Column{Name: "name", Kind: source.Text},
			source.Column{Name: "created", Kind: source.DateTime, Precision: 6}),
		bus:   sinkmemory.New(sinkmemory.Options{MaxBytes: 10_000}),
		store: storememory.New(),
		tick:  10 * time.Millisecond,

		destinations: []string{topic, deadTopic},
	}
	// As users do: bridge creates no topics.
	b.bus.Create(topic)
	b.bus.Create(deadTopic)
	b.opts = shard.Options{
		Stream: "items", Name: "items", Kind: event.Release,
		Domain:       "bridge",
		Hash:         7,
		SourceReady:  func(context.Context) error { return nil },
		Route:        func(*event.Event) string { return topic },
		Limits:       shard.NewLimits(32<<20, 1, 2).Stream(),
		Logger:       slog.New(slog.DiscardHandler),
		Window:       0,
		Zone:         time.UTC,
		PollInterval: time.Millisecond,
		BatchRows:    100,
	}
	b.opts.Faults = outage.New(b.opts.Logger)
	b.opts.Metrics = shard.NewMetrics(prometheus.NewRegistry(), true)
	b.opts.ShutdownTimeout = 5 * time.Second
	return b
}

// run sets a new process going and returns its shard with a function that ends it in good order.
func (b *bench) run(t testing.TB) (s *shard.Shard, stop func()) {
	t.Helper()
	p := b.process(t)
	return p.shard, b.runProcess(t, p)
}

// runProcess sets a process going and returns a function that ends it in good order.
func (b *bench) runProcess(t testing.TB, p *process) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		if err := p.run(ctx); err != nil && !errors.Is(err, errDead) {
			t.Errorf("run: %v", err)
		}
	})
	stop = sync.OnceFunc(func() {
		cancel()
		done.Wait()
		if left := b.opts.Limits.InFlight(); left != 0 && !b.shared {
			t.Errorf("%d bytes are still reserved after the end", left)
		}
	})
	t.Cleanup(stop)
	return stop
}

// runTo runs a process until the store has a position, and ends it in good order.
func (b *bench) runTo(t testing.TB, position uint64) {
	t.Helper()
	_, stop := b.run(t)
	b.saved(t, position)
	stop()
}

// saved waits until the store has a position.
func (b *bench) saved(t testing.TB, position uint64) {
	t.Helper()
	eventually(t, fmt.Sprint("the position is ", position), func() bool { return b.position(t) == position })
}

// stopped waits until a shard has stopped, and returns why.
func stopped(t testing.TB, s *shard.Shard) (why string) {
	t.Helper()
	eventually(t, "the shard has stopped", func() bool { return s.Status().State == shard.Stopped })
	return string(s.Status().LastError)
}

func expectText[T ~string](t testing.TB, text T, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(string(text), want) {
			t.Errorf("%q is missing: %s", want, text)
		}
	}
}

// insert commits n rows, all of them older than any window.
func (b *bench) insert(n int) {
	for range n {
		b.table.Insert("name", "2020-01-01 00:00:00.000000")
	}
}

// ids returns the row ids on the bus, in order.
func (b *bench) ids(destination string) []uint64 {
	var ids []uint64
	for _, m := range b.bus.Messages(destination) {
		ids = append(ids, m.RowID)
	}
	return ids
}

// count returns how many messages a destination has. Unlike ids it copies none, for what polls.
func (b *bench) count(destination string) int { return b.bus.Destinations()[destination] }

func (b *bench) position(t testing.TB) uint64 { return b.progress(t).Position }

func (b *bench) positionOf(t testing.TB, name string) uint64 {
	t.Helper()
	p, _, err := b.store.Progress(context.Background(), store.Key{Stream: "items", Shard: name})
	must.OK(t, err)
	return p.Position
}

func (b *bench) progress(t testing.TB) store.Progress {
	t.Helper()
	p, _, err := b.store.Progress(context.Background(), key)
	must.OK(t, err)
	return p
}

// snapshotTaken reports whether nothing of the table as it stood is left to be recorded.
func (b *bench) snapshotTaken(t testing.TB) bool {
	t.Helper()
	p := b.progress(t)
	return p.Started && p.Snapshot == (source.Range{})
}

// instantly runs a subtest on a clock of its own, which advances as soon as everything waits:
// waiting costs no time. The clock begins after the times of the tests' rows.
func instantly(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			wait(t, time.Until(time.Date(2026, 1, 2, 3, 4, 5, 678_900_000, time.UTC)))
			test(t)
		})
	})
}

func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(4 * time.Minute)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
		<-tick.C
	}
}

// expectRun fails unless got is first, first+1, … last.
func expectRun(t testing.TB, got []uint64, first, last uint64) {
	t.Helper()
	want := first
	for _, id := range got {
		if id != want {
			t.Fatalf("got row %d where %d was expected: %s", id, want, short(got))
		}
		want++
	}
	if want != last+1 {
		t.Fatalf("ends before row %d: %s", want, short(got))
	}
}

func short(ids []uint64) string {
	if len(ids) > 20 {
		return fmt.Sprint(ids[:10], " … ", ids[len(ids)-10:])
	}
	return fmt.Sprint(ids)
}
