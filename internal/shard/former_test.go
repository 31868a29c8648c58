package shard_test

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"example.org/bridge/source"
)

// expectLive waits until the events, folded in their order, say that these entities live.
func (b *bench) expectLive(t testing.TB, want ...string) {
	t.Helper()
	var live []string
	eventually(t, fmt.Sprintf("%v live", want), func() bool {
		states := make(map[string]string)
		for _, one := range b.said(t) {
			var op, name, state string
			_, _ = fmt.Sscanf(one.text, "%s %s", &op, &name)
			if op != "Deleted" {
				name, state = name[:1], name
				states[name] = state
			} else {
				delete(states, name)
			}
		}
		live = live[:0]
		for _, state := range states {
			live = append(live, state)
		}
		slices.Sort(live)
		return slices.Equal(live, want)
	})
}

// TestUpdateOfAKey updates the key of row 1, which was published as the entity a.
func TestUpdateOfAKey(t *testing.T) {
	t.Run("deletes the former entity", func(t *testing.T) {
		b := newViewBench(t, true)
		id := b.table.Insert("a", "1", "0", now())
		b.run(t)
		b.expectSaid(t, "Added a=1")
		b.table.Update(id, "b", "1", "0", now())
		all := b.expectSaid(t, "Added a=1", "Added b=1", "Deleted a")
		if last := all[2]; last.reason != "ABSENT_IN_SNAPSHOT" || last.predecessor != all[0].id || last.row != id {
			t.Errorf("the last event is %+v", last)
		}
		b.table.Update(id, "a", "1", "0", now())
		b.expectSaid(t, "Added a=1", "Added b=1", "Deleted a", "Added a=1", "Deleted b")
	})
	t.Run("in flight is seen", func(t *testing.T) {
		b := newViewBench(t, true)
		release := b.bus.Pause(0)
		id := b.table.Insert("a", "1", "0", now())
		b.run(t)
		eventually(t, "sent", func() bool { return b.bus.Publishes() == 1 })
		b.table.Update(id, "b", "1", "0", now())
		b.table.Insert("c", "1", "0", now())
		release()
		b.expectLive(t, "b=1", "c=1")
	})
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
