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
	"example.org/bridge/sink"
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

// halfStore is a store that refuses one change of a table, and from then on cannot read the table.
type halfStore struct {
	store.Store
	refuses, unreadable atomic.Bool
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
	if k == key && s.unreadable.Load() {
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
		s, stop := b.run(t)
		b.insert(10)
		b.saved(t, 10)
		kept.refuses.Store(true)
		b.insert(10)
		eventually(t, "the table waits", func() bool { return kept.unreadable.Load() && s.Status().State == shard.Waiting })
		for i := range uint64(3) {
			b.second.Insert("x", old)
			eventually(t, "the other one goes on", func() bool { return b.positionOf(t, shardNames[1]) == i+1 })
		}
		if status := s.Status(); status.State != shard.Waiting || b.position(t) != 10 {
			t.Errorf("the table is %s at %d: %s", status.State, b.position(t), status.LastError)
		}
		kept.unreadable.Store(false)
		b.saved(t, 20)
		b.insert(10)
		b.saved(t, 30)
		stop()
		expectRun(t, b.ids(topic), 1, 30)
	})
}

// TestAShardBeginsOnceItsPartsCanBeRead: what cannot be read at its start is waited for.
func TestAShardBeginsOnceItsPartsCanBeRead(t *testing.T) {
	instantly(t, "", func(t *testing.T) {
		b := newBench(t)
		kept := &halfStore{Store: b.store}
		b.store = kept
		b.insert(10)
		b.runTo(t, 10)
		kept.unreadable.Store(true)
		s, stop := b.run(t)
		eventually(t, "the shard waits", func() bool { return s.Status().State == shard.Waiting })
		expectText(t, s.Status().LastError, syscall.EIO.Error())
		b.insert(10)
		kept.unreadable.Store(false)
		b.saved(t, 20)
		eventually(t, "the shard runs", func() bool { return s.Status().State == shard.Running })
		stop()
		expectRun(t, b.ids(topic), 1, 20)
	})
}

func TestStatusTellsTheTruth(t *testing.T) {
	t.Run("the oldest row counts, whatever stands in CREATED of those before it", func(t *testing.T) {
		b := newBench(t)
		for _, created := range []string{"0001-01-01 00:00:00.000000", "0000-00-00 00:00:00.000000", "2999-01-01 00:00:00.000000", old} {
			b.table.Insert("x", created)
		}
		b.bus.Reject(refuseAll)
		s, _ := b.run(t)
		stopped(t, s)
		if lag := lagOf(s.Status()); lag < 24*time.Hour {
			t.Errorf("lag %s of a row that is years old", lag)
		}
	})
	instantly(t, "a store that cannot write shows, also while the source answers", func(t *testing.T) {
		b := newBench(t)
		full := &faultyStore{Store: b.store}
		b.store = full
		s, _ := b.run(t)
		eventually(t, "running", func() bool { return s.Status().State == shard.Running })
		full.fail(store.ErrOutage)
		b.insert(10)
		eventually(t, "waiting", func() bool { return s.Status().State == shard.Waiting })
		b.polls(t, 20)
		if status := s.Status(); status.State != shard.Waiting || !strings.Contains(string(status.LastError), store.ErrOutage.Error()) {
			t.Errorf("state %s, last error %q", status.State, status.LastError)
		}
		if faults := b.opts.Faults.Outages(); len(faults) != 1 || faults[0].Dependency != "checkpoint/items/items" {
			t.Errorf("faults %v", faults)
		}
		full.fail(nil)
		eventually(t, "running", func() bool { return s.Status().State == shard.Running && s.Status().LastError == "" })
		if faults := b.opts.Faults.Outages(); len(faults) != 0 {
			t.Errorf("faults %v", faults)
		}
		expectRun(t, b.ids(topic), 1, 10)
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
	b.opts.Recheck = time.Millisecond
	b.insert(5)
	s, stop := b.run(t)
	expectText(t, stopped(t, s), "items: table unfit for the stream: START is 10, the highest id is 5")
	b.insert(7)
	b.saved(t, 12)
	stop()
	expectRun(t, b.ids(topic), 11, 12)
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
