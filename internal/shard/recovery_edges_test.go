package shard_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"example.org/bridge/checkpoint/store"
	storememory "example.org/bridge/checkpoint/store/storetest/memory"
	"example.org/bridge/internal/form"
	"example.org/bridge/internal/shard"
	"example.org/bridge/internal/stream"
	"example.org/bridge/reconcile"
	"example.org/bridge/sink"
	"example.org/bridge/source"
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
	demand, due := s.ReconcileDue()
	if !due {
		t.Fatal("not due")
	}
	nominate(t, s, reconcile.Nomination{Rows: []source.Range{{First: 1, Last: 3}}}) // records a b c
	b.table.Insert("e", "1", "0")
	wait(t, 100*time.Millisecond) // in flight
	done := make(chan error, 1)
	go func() { done <- s.Reconciled(t.Context(), demand) }()
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

// TestCommandsOfReleaseStreams: a rebuild, a set position and a lost tail publish what is missing,
// and nothing that the bus has or that a decision left out.
func TestCommandsOfReleaseStreams(t *testing.T) {
	for name, c := range map[string]struct {
		latest bool
		// set is the position that a person sets behind 100 rows, 0 for none, more how many rows
		// come then.
		set  uint64
		more int
		// rebuild is after these, empty before them, where the bus has nothing.
		rebuild, empty bool
		// lose is how many messages the bus loses then. may is a row that may come again.
		lose int
		may  uint64
		want []uint64
	}{
		"a rebuild below the floor":             {latest: true, empty: true, more: 3, want: []uint64{101, 103}},
		"a rebuild behind a set":                {set: 90, rebuild: true, more: 5, want: []uint64{1, 100, 91, 105}},
		"a lost tail with START=latest":         {latest: true, more: 3, lose: 3, want: []uint64{101, 103}},
		"a lost tail behind a set that goes on": {set: 150, more: 50, lose: 1, may: 100, want: []uint64{1, 99}},
	} {
		instantly(t, name, func(t *testing.T) {
			b := newBench(t)
			b.opts.Start.Latest = c.latest
			b.insert(100)
			b.runTo(t, 100)
			if c.set > 0 {
				b.set(t, c.set)
			}
			if c.empty {
				b.apply(t, rebuildOf)
			}
			b.insert(c.more)
			_, stop := b.run(t)
			b.saved(t, uint64(100+c.more))
			stop()
			if c.rebuild {
				b.apply(t, rebuildOf)
			}
			b.bus.Lose(topic, c.lose)
			_, stop = b.run(t)
			b.saved(t, uint64(100+c.more))
			b.polls(t, 100)
			stop()
			var want []uint64
			for i := 0; i < len(c.want); i += 2 {
				for id := c.want[i]; id <= c.want[i+1]; id++ {
					want = append(want, id)
				}
			}
			if got := b.ids(topic); !slices.Equal(got, want) && !slices.Equal(got, append(want, c.may)) {
				t.Errorf("published %s, want %s", short(got), short(want))
			}
		})
	}
}

// rebuildOf is what `bridge checkpoint rebuild` does.
func rebuildOf(image *store.Image) *store.Batch { return stream.Rebuild(image, "items", time.Now()) }

// TestTheReconcileBehindALostTail (rule 21): the bus loses one message of a shard that runs, and
// the reconcile that is due publishes that one and none that the bus has.
func TestTheReconcileBehindALostTail(t *testing.T) {
	b := newViewBench(t, false)
	b.tick = 10 * time.Millisecond
	const entities = 3 * reconcile.MaxNominated
	for i := range entities {
		b.table.Insert(fmt.Sprintf("e%d", i), "1", "0")
	}
	s, _ := b.run(t)
	eventually(t, "all are published", func() bool { return b.count(topic) == entities && b.position(t) == entities })
	// That which is due behind a start without a store is another one.
	eventually(t, "no reconcile is due", func() bool {
		demand, due := s.ReconcileDue()
		if due {
			if err := s.Reconciled(t.Context(), demand); err != nil {
				t.Fatal(err)
			}
		}
		return !due
	})
	b.bus.Lose(topic, 1)
	eventually(t, "a reconcile is due", func() bool { _, due := s.ReconcileDue(); return due })
	for from := uint64(1); from <= entities; from += reconcile.MaxNominated {
		nominate(t, s, reconcile.Nomination{Rows: []source.Range{{First: from, Last: from + reconcile.MaxNominated - 1}}})
	}
	if n := b.count(topic); n != entities {
		t.Errorf("the bus has %d messages of %d entities", n, entities)
	}
}

// A page of the snapshot takes back in the store that a reconcile is due.
func TestSnapshotTakesADemandBack(t *testing.T) {
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

// TestNotesOfAFormerVersion: a version that put what was read of a running shard beside its
// progress was killed before its owner took that in. The offset has passed the rows: no other
// message tells of them. They are not published again, and the notes go.
func TestNotesOfAFormerVersion(t *testing.T) {
	// Rows 101 to 103 of the tail, and 50, as that version has written them.
	notes, err := hex.DecodeString("0103ca01d801e80703005a0102020102020269d101e90703005b")
	if err != nil {
		t.Fatal(err)
	}
	for _, set := range []bool{false, true} {
		name := "at a start"
		if set {
			name = "at a command"
		}
		instantly(t, name, func(t *testing.T) {
			b := newBench(t)
			b.insert(49)
			open := b.table.Open("open", old)
			b.insert(50)
			b.runTo(t, 100)
			b.table.Commit(open)
			b.insert(3)
			if err := b.store.Apply(t.Context(), &store.Batch{Shards: []store.ShardChange{{Key: key, Parts: []store.Part{
				{Kind: store.Noted, Number: 1, Bytes: form.Seal(notes)},
			}}}}); err != nil {
				t.Fatal(err)
			}
			if set {
				b.set(t, 103)
			}
			b.insert(1)
			_, stop := b.run(t)
			b.saved(t, 104)
			b.polls(t, 20)
			stop()
			if n := b.count(topic); n != 100 {
				t.Errorf("%d messages, want those of 99 rows and of the last one", n)
			}
			for range b.store.Parts(t.Context(), key, store.Noted, 0) {
				t.Error("notes are left")
			}
		})
	}
}
