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
	"example.org/bridge/internal/form"
	"example.org/bridge/internal/shard"
	"example.org/bridge/internal/stream"
	"example.org/bridge/reconcile"
	"example.org/bridge/sink"
	"example.org/bridge/source"
	"example.org/bridge/tests/must"
)

// alteredSource is a source whose MODIFIED is another column than the shard knows, until over is
// set.
type alteredSource struct {
	source.Shard
	asked atomic.Int64
	over  atomic.Bool
}

func (a *alteredSource) ReadChanges(ctx context.Context, q source.ChangeQuery, c *source.Changes) error {
	a.asked.Add(1)
	if !a.over.Load() {
		return source.ErrAltered
	}
	return a.Shard.ReadChanges(ctx, q, c)
}

func TestEdges(t *testing.T) {
	viewScripts(t, false, map[string]string{
		"what was published while the disk was full is read back after the time limit of the shutdown": `
			room; shutdown 20ms; row a 1 0; run; said Added a=1; saved 1;
			full; row b 1 0; said Added b=1; stop; position 1; room; row c 1 0; run; said Added c=1`,
		"rows that START=latest passed over are known to consumers, and one that was deleted then never was": `
			latest; row changed 1 0; row marked 1 0; row purged 1 0; row never 1 1; run; saved 4; running;
			update 1 changed 2 0; update 2 marked 1 1; delete 3 4; nominate 1-4 purged never;
			said Modified changed=2, Deleted marked, Deleted purged`,
		"also where the last page of them is full": `
			latest; batch 2; row a 1 0; row b 1 0; row c 1 0; row d 1 0; run; recorded; saved 4; replace a 1 0; replace b 2 0; said Modified b=2`,
		"and where it is not": `
			latest; batch 2; row a 1 0; row b 1 0; row c 1 0; run; recorded; saved 3; replace a 1 0; replace b 2 0; said Modified b=2`,
		"one of them that is another entity since, as its key was updated while a reconcile is due behind a lost store": `
			latest; row a 1 0; row b 1 0; row c 1 0; run; recorded; row d 1 0; said Added d=1; stop; lost; run; reaches;
			nominate 1-3; update 2 B 1 0; nominate 1-3; says Added B=1; nominate b; says Added B=1, Deleted b; stop`,
	})
	viewScripts(t, true, map[string]string{
		"a row that START=latest passed over and that changes while a reconcile is due behind a lost store is published": `
			latest; row a 1 0 old; row b 1 0 old; run; recorded; row d 1 0 old; said Added d=1; stop; lost; run; reaches;
			update 1 a 2 0 now; said Added a=2; nominate 2-2; stop; said`,
		"what changed shortly before START=latest is not": `
			latest; row a 1 0 now; row b 1 0 now; run; recorded; row c 1 0 old; said Added c=1; wait 300s; stop; lost; run; reaches; wait 20s; stop; said`,
	})
	instantly(t, "a nomination that cannot be judged is not judged", func(t *testing.T) {
		b := newViewBench(t, false)
		b.hook = func(q source.Query) error {
			if len(q.Keys) > 0 {
				return source.ErrDenied
			}
			return nil
		}
		b.play(t, "row a 1 0; row b 1 0; run; said Added a=1, Added b=1; delete 1; reaches; nominate-fails a")
	})

	instantly(t, "a row in flight at START=latest is published, though it commits before the snapshot has come to it", func(t *testing.T) {
		b := newViewBench(t, false)
		s := b.play(t, "latest; begin a 1 0; row b 1 0")
		b.hook = func(q source.Query) error {
			if q.Through > 0 && q.Ranges == nil {
				s.onTable("commit", nil)
			}
			return nil
		}
		s.play("run; said Added a=1")
	})

	t.Run("an agreement holds for the accident that it was asked for", func(t *testing.T) {
		b := newViewBench(t, false)
		for i := range 5 {
			b.table.Insert(fmt.Sprint("e", i), "1", "0")
		}
		starts, free := make(chan struct{}, 9), make(chan struct{}, 9)
		b.opts.Announce = func(source.Traits) {
			starts <- struct{}{}
			<-free
		}
		free <- struct{}{}
		s, _ := b.run(t)
		<-starts
		b.saved(t, 5)
		b.table.Truncate()
		b.table.Insert("e0", "2", "0")
		b.table.Insert("e1", "2", "0")
		stopped(t, s)
		if !s.Accept() {
			t.Fatal("it does not take the agreement")
		}
		<-starts
		s.Accept()
		free <- struct{}{}
		eventually(t, "goes on", func() bool { return b.position(t) == 2 && s.Status().State == shard.Running })
		b.table.Truncate()
		b.table.Insert("x", "restored", "0")
		stopped(t, s)
		select {
		case <-starts:
			free <- struct{}{}
			t.Error("nobody has agreed and it begins again")
		case <-time.After(300 * time.Millisecond):
		}
	})
}

func TestLookBack(t *testing.T) {
	viewScripts(t, true, map[string]string{
		"a stall longer than the look-back hides no late commit": `
			look-back 1s; row a 1 0 now; row b 1 0 now; run; said Added a=1, Added b=1; moment; update 2 b 2 0 now; said Modified b=2;
			away; wait 100ms; update 1 a 2 0 @moment; wait 2s; back; said Modified a=2`,
		"two changes of a row within the same second are both seen": `
			look-back 3s; row a 1 0 now; run; said Added a=1; moment; wait 1s; update 1 a 2 0 @second; said Modified a=2;
			wait 100ms; update 1 a 3 0 @second; said Modified a=3`,
		"an index that is dropped ends the cursor, not the shard, until there is one again": `
			row a 1 0 now; run; said Added a=1; drop-index; row b 1 0 now; said Added b=1; is running; wait 2s;
			update 1 a 2 0 now; wait 1m; said; make-index; said Modified a=2`,
	})

	instantly(t, "a second cursor whose column was altered begins again and holds nothing up", func(t *testing.T) {
		b := newViewBench(t, true)
		altered := &alteredSource{Shard: b.table}
		b.source = altered
		s := b.play(t, "row a 1 0 now; run")
		eventually(t, "it asks for changes again", func() bool { return altered.asked.Load() > 3 })
		s.play("row b 1 0 now; said Added a=1, Added b=1")
		altered.over.Store(true)
		s.play("update 1 a 2 0 now; said Modified a=2")
	})

	instantly(t, "two changes within a second are, behind one of a clock that was set back", func(t *testing.T) {
		b := newViewBench(t, true)
		s := b.play(t, "look-back 20s; poll-every 100ms; row a 1 0 now; run; said Added a=1; moment; wait 2s; update 1 a 2 0 @second; said Modified a=2; wait 2s")
		s.began = s.began.Add(-10 * time.Second)
		s.play("update 1 a 3 0 @second; said Modified a=3; wait 1s; update 1 a 4 0 @second")
		after(t, time.Until(s.began.Truncate(time.Second).Add(b.opts.LookBack+3*time.Second)))
		s.play("says Modified a=4")
	})
}

// What is granted while later batches are made is not due any more, and the floor does not apply.
func TestGrantedWhileBusy(t *testing.T) {
	b := newViewBench(t, false)
	stage := b.play(t, "batch 1; latest; row a 1 0; row b 1 0; row c 1 0; run; recorded; row d 1 0; said Added d=1; stop; lost")
	gate := make(chan struct{})
	b.sink = gatedSink{b.bus, gate}
	stage.play("run; reaches")
	s := stage.shard
	demand, due := s.ReconcileDue()
	if !due {
		t.Fatal("not due")
	}
	stage.play("nominate 1-3; row e 1 0; wait 100ms") // it records a, b and c; e is in flight
	done := make(chan error, 1)
	go func() { done <- s.Reconciled(t.Context(), demand) }()
	wait(t, 100*time.Millisecond)       // in the channel
	stage.play("row f 1 0; wait 100ms") // made
	close(gate)
	must.OK(t, <-done)
	stage.play("said Added e=1, Added f=1; saved 6")
	if b.progress(t).ReconcileDue {
		t.Error("the store says that a reconcile is due, and it was granted")
	}
	if stage.play("update 2 B 1 0; nominate 2-2 b"); !slices.Contains(texts(b.said(t)), "Added B=1") {
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
	var denied atomic.Bool
	sk := &lostAnswer{Sink: b.bus, gate: make(chan struct{})}
	b.sink = sk
	b.hook = func(source.Query) error {
		if denied.Load() {
			return source.ErrDenied
		}
		return nil
	}
	// The background does not help at once.
	s := b.play(t, "recheck 50ms; look 1h; insert 50; run; count 50")
	denied.Store(true)
	s.play("wait 200ms") // the owner ends
	close(sk.gate)
	s.play("stopped")
	denied.Store(false)
	s.play("saved 50; stop; ids 1-50")
}

// TestCommandsOfReleaseStreams: a rebuild, a set position and a lost tail publish what is missing,
// and nothing that the bus has or that a decision left out.
func TestCommandsOfReleaseStreams(t *testing.T) {
	rowScripts(t, map[string]string{
		// The bus has nothing then.
		"a rebuild below the floor":     "latest; insert 100; run-to 100; rebuild; insert 3; run-to 103; run; saved 103; polls 100; stop; ids 101-103",
		"a rebuild behind a set":        "insert 100; run-to 100; set 90; insert 5; run-to 105; rebuild; run; saved 105; polls 100; stop; ids 1-100 91-105",
		"a lost tail with START=latest": "latest; insert 100; run-to 100; insert 3; run-to 103; lose 3; run; saved 103; polls 100; stop; ids 101-103",
	})
	instantly(t, "a lost tail behind a set that goes on", func(t *testing.T) {
		b := newBench(t)
		b.play(t, "insert 100; run-to 100; set 150; insert 50; run-to 150; lose 1; run; saved 150; polls 100; stop")
		// The row that the bus has lost may come again.
		if got := b.ids(topic); len(got) == 99 {
			expectRun(t, got, 1, 99)
		} else {
			expectRun(t, got, 1, 100)
		}
	})
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
			must.OK(t, s.Reconciled(t.Context(), demand))
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
	b.play(t, "run; said Added z=1; stop")
	for range 9 {
		b.table.Insert(entityName(int(b.table.Reads())), "1", "0")
	}
	b.play(t, "batch 2; set 10")
	var pages atomic.Int32
	var before, after atomic.Bool
	done := make(chan struct{})
	b.hook = func(q source.Query) error {
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
	}
	_, stop := b.run(t)
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
	notes := must.Get(hex.DecodeString("0103ca01d801e80703005a0102020102020269d101e90703005b"))(t)
	for _, set := range []bool{false, true} {
		name := "at a start"
		if set {
			name = "at a command"
		}
		instantly(t, name, func(t *testing.T) {
			b := newBench(t)
			s := b.play(t, "insert 49; begin open old; insert 50; run-to 100; commit; insert 3")
			must.OK(t, b.store.Apply(t.Context(), &store.Batch{Shards: []store.ShardChange{{Key: key, Parts: []store.Part{
				{Kind: store.Noted, Number: 1, Bytes: form.Seal(notes)},
			}}}}))
			if set {
				b.set(t, 103)
			}
			// The bus has those of 99 rows and of the last one.
			s.play("insert 1; run; saved 104; polls 20; stop; ids 1-49 51-100 104")
			for range b.store.Parts(t.Context(), key, store.Noted, 0) {
				t.Error("notes are left")
			}
		})
	}
}
