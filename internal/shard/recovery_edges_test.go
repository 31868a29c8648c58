package shard_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"bridge/checkpoint/store"
	storememory "bridge/checkpoint/store/memory"
	"bridge/internal/shard"
	"bridge/reconcile"
	"bridge/sink"
	"bridge/source"
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
	s, stop := b.run(t)
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
	eventually(t, "saved", func() bool { return b.position(t) == 6 })
	_, due = s.ReconcileDue()
	t.Logf("due in memory %t, due in the store %t", due, b.progress(t).ReconcileDue)
	if b.progress(t).ReconcileDue {
		t.Error("the store says that a reconcile is due, and it was granted")
	}
	b.table.Update(2, "B", "1", "0")
	v := nominate(t, s, reconcile.Nomination{Rows: []source.Range{{First: 2, Last: 2}}, Entities: [][]byte{entity("b")}})
	t.Logf("verdict %+v, bus %v", v, texts(b.said(t)))
	if !slices.Contains(texts(b.said(t)), "Added B=1") {
		t.Error("entity B was never published")
	}
	stop()
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
	s, stop := b.run(t)
	b.expectSaid(t, "Added a=1", "Added d=1")
	eventually(t, "recorded", func() bool { return b.snapshotTaken(t) })
	list, _ := b.store.Lookup(t.Context(), "items", store.Asks(entity("b")), nil)
	t.Logf("entry of b: %+v", list[0])
	if list[0].State != store.Recorded {
		t.Error("b is not recorded")
	}
	v := nominate(t, s, reconcile.Nomination{Rows: []source.Range{{First: 1, Last: 3}}})
	t.Logf("a reconcile publishes %+v: %v", v, texts(b.said(t)))
	stop()
}

// switched fails the reads of a table while on.
type denied struct{ on atomic.Bool }

func (d *denied) before(source.Query) error {
	if d.on.Load() {
		return source.ErrDenied
	}
	return nil
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
	var d denied
	sk := &lostAnswer{Sink: b.bus, gate: make(chan struct{})}
	b.sink = sk
	s, stop := b.runHooked(t, d.before)
	eventually(t, "on the bus", func() bool { return b.count(topic) == 50 })
	d.on.Store(true)
	wait(t, 200*time.Millisecond) // the owner ends
	close(sk.gate)
	eventually(t, "stopped", func() bool { return s.Status().State == shard.Stopped })
	d.on.Store(false)
	eventually(t, "saved", func() bool { return b.position(t) == 50 })
	stop()
	if n := b.count(topic); n != 50 {
		t.Errorf("%d messages on the bus, want 50: rule 9 was passed over", n)
	}
}

// held blocks the reads of the owner while it is on, whatever the context says, as a server that
// does not answer a cancel.
type heldReads struct {
	on   atomic.Bool
	free chan struct{}
}

func (h *heldReads) before(source.Query) error {
	if h.on.Load() {
		<-h.free
	}
	return nil
}

// Messages of an unknown outcome are read in the background before the attempt has ended.
func TestReadBackWhileTheAttemptEnds(t *testing.T) {
	b := newBench(t)
	b.insert(50)
	h := &heldReads{free: make(chan struct{})}
	sk := &lostAnswer{Sink: b.bus, gate: make(chan struct{})}
	b.sink = sk
	_, stop := b.runHooked(t, h.before)
	eventually(t, "on the bus", func() bool { return b.count(topic) == 50 })
	h.on.Store(true)
	b.insert(1)
	wait(t, 100*time.Millisecond) // the owner reads
	close(sk.gate)                // unknown
	wait(t, 300*time.Millisecond) // Run looks the end up and reads
	h.on.Store(false)
	close(h.free)
	eventually(t, "saved", func() bool { return b.position(t) == 51 })
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
	_, stop := b.run(t)
	eventually(t, "begun", func() bool { return b.position(t) == 500 })
	stop()
	b.apply(t, rebuildOf)
	t.Logf("%+v", b.progress(t))
	b.insert(1)
	_, stop = b.run(t)
	eventually(t, "saved", func() bool { return b.position(t) == 501 })
	stop()
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
	eventually(t, "saved", func() bool { return b.position(t) == 1 })
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
