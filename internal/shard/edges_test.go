package shard_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/internal/shard"
	"example.org/bridge/reconcile"
	"example.org/bridge/source"
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

// runHooked sets a shard going that calls before before each read of rows.
func (b *bench) runHooked(t testing.TB, before func(q source.Query) error) (*shard.Shard, func()) {
	t.Helper()
	b.hook = before
	return b.run(t)
}

func TestEdges(t *testing.T) {
	t.Run("a nomination that cannot be judged is not judged", func(t *testing.T) {
		b := newViewBench(t, false)
		gone := b.table.Insert("a", "1", "0")
		b.table.Insert("b", "1", "0")
		s, _ := b.runHooked(t, func(q source.Query) error {
			if len(q.Keys) > 0 {
				return source.ErrDenied
			}
			return nil
		})
		b.expectSaid(t, "Added a=1", "Added b=1")
		b.table.Delete(gone)
		eventually(t, "the shard reaches", func() bool { _, ok := s.Reach(); return ok })
		if v, err := s.Nominate(t.Context(), reconcile.Nomination{Entities: [][]byte{entity("a")}}); err == nil {
			t.Errorf("the verdict is %+v", v)
		}
	})

	t.Run("what was published while the disk was full is read back after the time limit of the shutdown", func(t *testing.T) {
		b := newViewBench(t, false)
		full := &faultyStore{Store: b.store}
		b.store = full
		b.opts.ShutdownTimeout = 20 * time.Millisecond
		b.table.Insert("a", "1", "0")
		_, stop := b.run(t)
		b.expectSaid(t, "Added a=1")
		b.saved(t, 1)
		full.fail(store.ErrOutage)
		b.table.Insert("b", "1", "0")
		b.expectSaid(t, "Added a=1", "Added b=1")
		stop()
		if got := b.position(t); got != 1 {
			t.Errorf("position %d, and the disk is full", got)
		}
		full.fail(nil)
		b.table.Insert("c", "1", "0")
		b.run(t)
		b.expectSaid(t, "Added a=1", "Added b=1", "Added c=1")
	})

	t.Run("a row in flight at START=latest is published, though it commits before the snapshot has come to it", func(t *testing.T) {
		b := newViewBench(t, false)
		b.opts.Start = shard.Start{Latest: true}
		open := b.table.Open("a", "1", "0")
		b.table.Insert("b", "1", "0")
		var once sync.Once
		b.runHooked(t, func(q source.Query) error {
			if q.Through > 0 && q.Ranges == nil {
				once.Do(func() { b.table.Commit(open) })
			}
			return nil
		})
		b.expectSaid(t, "Added a=1")
	})

	t.Run("rows that START=latest passed over are known to consumers, and one that was deleted then never was", func(t *testing.T) {
		b := newViewBench(t, false)
		b.opts.Start = shard.Start{Latest: true}
		b.table.Insert("changed", "1", "0")
		marked := b.table.Insert("marked", "1", "0")
		purged := b.table.Insert("purged", "1", "0")
		never := b.table.Insert("never", "1", "1")
		s, _ := b.run(t)
		b.saved(t, never)
		eventually(t, "running", func() bool { return s.Status().State == shard.Running })
		b.table.Update(1, "changed", "2", "0")
		b.table.Update(marked, "marked", "1", "1")
		b.table.Delete(purged)
		b.table.Delete(never)
		nominate(t, s, reconcile.Nomination{Rows: []source.Range{{First: 1, Last: never}}, Entities: [][]byte{entity("purged"), entity("never")}})
		b.expectSaid(t, "Modified changed=2", "Deleted marked", "Deleted purged")
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
	instantly(t, "a stall longer than the look-back hides no late commit", func(t *testing.T) {
		b := newViewBench(t, true)
		b.opts.LookBack = time.Second
		first := b.table.Insert("a", "1", "0", now())
		second := b.table.Insert("b", "1", "0", now())
		b.run(t)
		b.expectSaid(t, "Added a=1", "Added b=1")
		early := now()
		b.table.Update(second, "b", "2", "0", now())
		b.expectSaid(t, "Added a=1", "Added b=1", "Modified b=2")
		b.table.Fail(-1, errors.New("connection refused"))
		wait(t, 100*time.Millisecond)
		b.table.Update(first, "a", "2", "0", early)
		wait(t, 2*time.Second)
		b.table.Fail(0, nil)
		b.expectSaid(t, "Added a=1", "Added b=1", "Modified b=2", "Modified a=2")
	})

	instantly(t, "a second cursor whose column was altered begins again and holds nothing up", func(t *testing.T) {
		b := newViewBench(t, true)
		altered := &alteredSource{Shard: b.table}
		b.source = altered
		id := b.table.Insert("a", "1", "0", now())
		b.run(t)
		eventually(t, "it asks for changes again", func() bool { return altered.asked.Load() > 3 })
		b.table.Insert("b", "1", "0", now())
		b.expectSaid(t, "Added a=1", "Added b=1")
		altered.over.Store(true)
		b.table.Update(id, "a", "2", "0", now())
		b.expectSaid(t, "Added a=1", "Added b=1", "Modified a=2")
	})

	instantly(t, "two changes of a row within the same second are both seen", func(t *testing.T) {
		b := newViewBench(t, true)
		b.opts.LookBack = 3 * time.Second
		id := b.table.Insert("a", "1", "0", now())
		b.run(t)
		b.expectSaid(t, "Added a=1")
		same := time.Now().UTC().Truncate(time.Second).Format(stamp)
		wait(t, time.Second)
		b.table.Update(id, "a", "2", "0", same)
		b.expectSaid(t, "Added a=1", "Modified a=2")
		wait(t, 100*time.Millisecond)
		b.table.Update(id, "a", "3", "0", same)
		b.expectSaid(t, "Added a=1", "Modified a=2", "Modified a=3")
	})

	instantly(t, "two changes within a second are, behind one of a clock that was set back", func(t *testing.T) {
		b := newViewBench(t, true)
		b.opts.LookBack, b.opts.PollInterval = 20*time.Second, 100*time.Millisecond
		id := b.table.Insert("a", "1", "0", now())
		b.run(t)
		b.expectSaid(t, "Added a=1")
		later := time.Now().UTC().Truncate(time.Second)
		wait(t, 2*time.Second)
		b.table.Update(id, "a", "2", "0", later.Format(stamp))
		b.expectSaid(t, "Added a=1", "Modified a=2")
		wait(t, 2*time.Second)
		same := later.Add(-10 * time.Second)
		b.table.Update(id, "a", "3", "0", same.Format(stamp))
		b.expectSaid(t, "Added a=1", "Modified a=2", "Modified a=3")
		wait(t, time.Second)
		b.table.Update(id, "a", "4", "0", same.Format(stamp))
		after(t, time.Until(same.Add(b.opts.LookBack+3*time.Second)))
		if said := texts(b.said(t)); len(said) != 4 {
			t.Errorf("the bus says %v", said)
		}
	})

	instantly(t, "an index that is dropped ends the cursor, not the shard", func(t *testing.T) {
		b := newViewBench(t, true)
		b.table.Insert("a", "1", "0", now())
		s, _ := b.run(t)
		b.expectSaid(t, "Added a=1")
		b.table.DropIndex()
		b.table.Insert("b", "1", "0", now())
		b.expectSaid(t, "Added a=1", "Added b=1")
		if got := s.Status(); got.State == shard.Stopped {
			t.Errorf("stopped: %s", got.LastError)
		}
	})
}

// TestUpdateOfAKey updates the key of row 1, which was published as the entity a.
func TestUpdateOfAKey(t *testing.T) {
	t.Run("is seen again after a restart before the delete", func(t *testing.T) {
		b := newViewBench(t, true)
		b.opts.LookBack, b.opts.Reach = 20*time.Millisecond, 20*time.Millisecond
		var away atomic.Bool
		b.hook = func(q source.Query) error {
			if away.Load() && len(q.Keys) > 0 {
				return errors.New("away")
			}
			return nil
		}
		id := b.table.Insert("a", "1", "0", now())
		_, stop := b.run(t)
		b.expectSaid(t, "Added a=1")
		away.Store(true)
		b.table.Update(id, "b", "1", "0", now())
		b.expectSaid(t, "Added a=1", "Added b=1")
		wait(t, 100*time.Millisecond)
		b.table.Insert("c", "1", "0", now())
		b.expectSaid(t, "Added a=1", "Added b=1", "Added c=1")
		stop()
		away.Store(false)
		_, stop = b.run(t)
		defer stop()
		b.expectSaid(t, "Added a=1", "Added b=1", "Added c=1", "Deleted a")
	})
}
