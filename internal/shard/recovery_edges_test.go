package shard_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"bridge/checkpoint/store"
	storememory "bridge/checkpoint/store/memory"
	"bridge/internal/progress"
	"bridge/internal/shard"
	"bridge/reconcile"
	"bridge/sink"
	"bridge/source"
	"bridge/tests/testall"
)

// What is granted while later batches are made is not due any more, and the floor does not apply.
func TestGrantedWhileBusy(t *testing.T) {
	b := newViewBench(t, false)
	b.opts.BatchRows = 1
	b.opts.Start = shard.Start{Latest: true}
	for _, n := range []string{"a", "b", "c"} {
		b.table.Insert(n, "1", "0")
	}
	_, stop := b.run(t)
	eventually(t, "recorded", func() bool { return b.snapshotTaken(t) })
	b.table.Insert("d", "1", "0")
	b.expectSaid(t, "Added d=1")
	stop()
	b.store = storememory.New() // lost
	gate := make(chan struct{})
	b.sink = gatedSink{b.bus, gate}
	s, _ := b.run(t)
	eventually(t, "the shard reaches", func() bool { _, ok := s.Reach(); return ok })
	wish, due := s.ReconcileDue()
	if !due {
		t.Fatal("not due")
	}
	nominate(t, s, reconcile.Nomination{Rows: []source.Range{{First: 1, Last: 3}}}) // records a b c
	b.table.Insert("e", "1", "0")
	wait(t, 100*time.Millisecond) // in flight
	done := make(chan error, 1)
	go func() { done <- s.Reconciled(t.Context(), wish) }()
	wait(t, 100*time.Millisecond) // in the channel
	b.table.Insert("f", "1", "0")
	wait(t, 100*time.Millisecond) // made
	close(gate)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	b.expectSaid(t, "Added d=1", "Added e=1", "Added f=1")
	b.saved(t, 6)
	if b.progress(t).ReconcileDue {
		t.Error("the store says that a reconcile is due, and it was granted")
	}
	b.table.Update(2, "B", "1", "0")
	nominate(t, s, reconcile.Nomination{Rows: []source.Range{{First: 2, Last: 2}}, Entities: [][]byte{entity("b")}})
	if !slices.Contains(texts(b.said(t)), "Added B=1") {
		t.Error("entity B was never published")
	}
}

// Set forward of a capability shard records what it leaves out.
func TestSetForward(t *testing.T) {
	b := newViewBench(t, false)
	b.table.Insert("a", "1", "0")
	_, stop := b.run(t)
	b.expectSaid(t, "Added a=1")
	stop()
	b.table.Insert("b", "1", "0")
	b.table.Insert("c", "1", "0")
	b.table.Insert("d", "1", "0")
	b.set(t, 3)
	s, _ := b.run(t)
	b.expectSaid(t, "Added a=1", "Added d=1")
	eventually(t, "recorded", func() bool { return b.snapshotTaken(t) })
	if v := nominate(t, s, reconcile.Nomination{Rows: []source.Range{{First: 1, Last: 3}}}); v != (reconcile.Verdict{}) {
		t.Errorf("what was left out is published by a reconcile: %+v", v)
	}
}

// lostAnswer stores the batch and tells no offsets once the gate opens.
type lostAnswer struct {
	sink.Sink
	gate chan struct{}
	once atomic.Bool
}

func (s *lostAnswer) Publish(ctx context.Context, batch []sink.Message) (sink.Outcome, error) {
	out, err := s.Sink.Publish(ctx, batch)
	if s.once.CompareAndSwap(false, true) {
		<-s.gate
		clear(out.At)
	}
	return out, err
}

// An unknown outcome beside an error of the owner is resolved before the next attempt.
func TestOwnerErrorHidesUnknown(t *testing.T) {
	b := newBench(t)
	b.opts.Recheck = 50 * time.Millisecond
	b.tick = time.Hour // the background does not help at once
	b.insert(50)
	var denied atomic.Bool
	sk := &lostAnswer{Sink: b.bus, gate: make(chan struct{})}
	b.sink = sk
	s, stop := b.runHooked(t, func(source.Query) error {
		if denied.Load() {
			return source.ErrDenied
		}
		return nil
	})
	eventually(t, "on the bus", func() bool { return b.count(topic) == 50 })
	denied.Store(true)
	wait(t, 200*time.Millisecond) // the owner ends
	close(sk.gate)
	stopped(t, s)
	denied.Store(false)
	b.saved(t, 50)
	stop()
	if n := b.count(topic); n != 50 {
		t.Errorf("%d messages on the bus, want 50: rule 9 was passed over", n)
	}
}

// Messages of an unknown outcome are read in the background before the attempt has ended.
func TestReadBackWhileTheAttemptEnds(t *testing.T) {
	b := newBench(t)
	b.insert(50)
	// Reads are blocked whatever the context says, as by a server that does not answer a cancel.
	var held atomic.Bool
	free := make(chan struct{})
	sk := &lostAnswer{Sink: b.bus, gate: make(chan struct{})}
	b.sink = sk
	_, stop := b.runHooked(t, func(source.Query) error {
		if held.Load() {
			<-free
		}
		return nil
	})
	eventually(t, "on the bus", func() bool { return b.count(topic) == 50 })
	held.Store(true)
	b.insert(1)
	wait(t, 100*time.Millisecond) // the owner reads
	close(sk.gate)                // unknown
	wait(t, 300*time.Millisecond) // Run looks the end up and reads
	held.Store(false)
	close(free)
	b.saved(t, 51)
	stop()
	if n := b.count(topic); n != 51 {
		t.Errorf("%d messages on the bus, want 51", n)
	}
}

// Rebuild of a release shard of which the bus holds nothing publishes nothing below the floor.
func TestRebuildBelowTheFloor(t *testing.T) {
	b := newBench(t)
	b.opts.Start = shard.Start{Latest: true}
	b.insert(500)
	b.runTo(t, 500)
	b.apply(t, rebuildOf)
	b.insert(1)
	b.runTo(t, 501)
	if got := b.ids(topic); len(got) != 1 {
		t.Errorf("published %s, want 501 alone", short(got))
	}
}

// readInAnOutage runs a shard that has published one row. Then the disk takes no writes, and
// catch-up reads a late copy of that row's message.
func (b *bench) readInAnOutage(t *testing.T) (s *shard.Shard, fs *faultyStore, stop func()) {
	t.Helper()
	fs = &faultyStore{Store: b.store}
	b.store = fs
	b.table.Insert("a", "1", "0")
	s, stop = b.run(t)
	b.expectSaid(t, "Added a=1")
	b.saved(t, 1)
	fs.fail(store.ErrOutage)
	m := b.bus.Messages(topic)[0]
	m.State.Epoch--
	if _, err := b.bus.Publish(t.Context(), []sink.Message{m}); err != nil {
		t.Fatal(err)
	}
	wait(t, 300*time.Millisecond)
	return s, fs, stop
}

// TestOutageUnderTheFeedsLock has catch-up read a message while the disk takes no writes.
func TestOutageUnderTheFeedsLock(t *testing.T) {
	b := newViewBench(t, false)
	b.opts.HeartbeatEvery = 10 * time.Millisecond
	s, fs, stop := b.readInAnOutage(t)
	b.table.Insert("b", "1", "0")
	begun := time.Now()
	eventually(t, "the shard shows a heartbeat: else /livez fails after a minute", func() bool { return s.Status().LastHeartbeat.After(begun) })
	fs.fail(nil)
	stop()
}

// Told to end during that outage, the process ends.
func TestShutdownInAnOutage(t *testing.T) {
	b := newViewBench(t, false)
	b.opts.ShutdownTimeout = 50 * time.Millisecond
	_, fs, stop := b.readInAnOutage(t)
	ended := make(chan struct{})
	go func() { defer close(ended); stop() }()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("does not end within a minute of a shutdown limit of 50 ms")
	}
	fs.fail(nil)
	<-ended
}

// The bus loses what a release stream with START=latest has published: the decision about START is
// kept.
func TestLostTailWithStartLatest(t *testing.T) {
	b := newBench(t)
	b.opts.Start = shard.Start{Latest: true}
	b.insert(100)
	_, stop := b.run(t)
	b.saved(t, 100)
	b.insert(3)
	b.saved(t, 103)
	stop()
	expectRun(t, b.ids(topic), 101, 103)
	b.bus.Lose(topic, 3)
	_, stop = b.run(t)
	eventually(t, "published again", func() bool { return b.count(topic) >= 3 })
	b.polls(t, 20)
	stop()
	expectRun(t, b.ids(topic), 101, 103)
}

// Checkpoint set forward, then a lost tail.
func TestLostTailAfterSet(t *testing.T) {
	b := newBench(t)
	b.insert(100)
	b.runTo(t, 100)
	b.insert(50)
	b.set(t, 150)
	b.bus.Lose(topic, 1)
	_, stop := b.run(t)
	b.saved(t, 150)
	b.polls(t, 100)
	stop()
	if n := b.count(topic); n > 100 {
		t.Errorf("%d messages: what set has left out was published", n)
	}
}

// Rebuild of a release shard that was set before.
func TestRebuildAfterSet(t *testing.T) {
	b := newBench(t)
	b.insert(100)
	b.runTo(t, 100)
	b.set(t, 90)
	_, stop := b.run(t)
	eventually(t, "again", func() bool { return b.count(topic) == 110 && b.position(t) == 100 })
	b.insert(5)
	eventually(t, "more", func() bool { return b.count(topic) == 115 && b.position(t) == 105 })
	stop()
	b.apply(t, rebuildOf)
	_, stop = b.run(t)
	b.saved(t, 105)
	b.polls(t, 100)
	stop()
	if n := b.count(topic); n != 115 {
		t.Errorf("%d messages, want 115: a rebuild has published rows again that the bus has", n)
	}
}

// rebuildOf is what `bridge checkpoint rebuild` does.
func rebuildOf(image *store.Image) *store.Batch { return progress.Rebuild(image, "items", time.Now()) }

// TestTheReconcileBehindALostTail (rule 21): the bus loses one message of a shard that runs, and
// the reconcile that is due publishes that one and none that the bus has.
func TestTheReconcileBehindALostTail(t *testing.T) {
	b := newViewBench(t, false)
	b.tick = 10 * time.Millisecond
	entities := testall.Pick(6000, 30_000)
	for i := range entities {
		b.table.Insert(fmt.Sprintf("e%d", i), "1", "0")
	}
	s, _ := b.run(t)
	eventually(t, "all are published", func() bool { return b.count(topic) == entities && b.position(t) == uint64(entities) })
	// That which is due behind a start without a store is another one.
	eventually(t, "no reconcile is due", func() bool {
		wish, due := s.ReconcileDue()
		if due {
			if err := s.Reconciled(t.Context(), wish); err != nil {
				t.Fatal(err)
			}
		}
		return !due
	})
	b.bus.Lose(topic, 1)
	eventually(t, "a reconcile is due", func() bool { _, due := s.ReconcileDue(); return due })
	for from := uint64(1); from <= uint64(entities); from += reconcile.MaxNominated {
		n := reconcile.Nomination{Rows: []source.Range{{First: from, Last: min(from+reconcile.MaxNominated-1, uint64(entities))}}}
		if _, err := s.Nominate(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	if n := b.count(topic); n != entities {
		t.Errorf("the bus has %d messages of %d entities", n, entities)
	}
}

// A page of the snapshot takes back in the store that a reconcile is due.
func TestSnapshotTakesAWishBack(t *testing.T) {
	b := newViewBench(t, false)
	b.table.Insert("z", "1", "0")
	_, stop := b.run(t)
	b.expectSaid(t, "Added z=1")
	stop()
	for range 9 {
		b.table.Insert(entityName(int(b.table.Reads())), "1", "0")
	}
	b.opts.BatchRows = 2
	b.set(t, 10)
	var pages atomic.Int32
	var before, after atomic.Bool
	done := make(chan struct{})
	_, stop = b.runHooked(t, func(q source.Query) error {
		if q.Through == 0 || q.Keys != nil {
			return nil
		}
		switch pages.Add(1) {
		case 2:
			b.bus.Lose(topic, 1) // rule 21
			for range 6000 {
				if b.progress(t).ReconcileDue {
					before.Store(true)
					break
				}
				wait(t, 10*time.Millisecond)
			}
		case 3:
			after.Store(b.progress(t).ReconcileDue)
			close(done)
		}
		return nil
	})
	select {
	case <-done:
		if !before.Load() {
			t.Error("no reconcile is due: the test proves nothing")
		} else if !after.Load() {
			t.Error("a kill here forgets the reconcile that rule 21 needs")
		}
	case <-time.After(2 * time.Minute):
		t.Errorf("after %d pages there is no other one", pages.Load())
	}
	stop()
}
