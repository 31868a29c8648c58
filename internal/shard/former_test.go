package shard_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"example.org/bridge/source"
)

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
