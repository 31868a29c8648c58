package shard

import (
	"container/heap"
	"testing"
	"time"
)

// TestIdleShardsArePolledInTurn takes them out of the queue: those that were woken first, the
// others by when they are due, no more at once than are read together.
func TestIdleShardsArePolledInTurn(t *testing.T) {
	now := time.Unix(1000, 0)
	p := NewScheduler(1000)
	var all []*Shard
	for i := range 3 * pollsAtOnce {
		s := new(Shard)
		s.scheduled.due = now.Add(-time.Duration(i) * time.Millisecond)
		all = append(all, s)
		heap.Push(&p.idle, s)
	}
	late := all[0]
	for what, c := range map[string]struct{ now, free time.Time }{
		"while others are polled": {now, now.Add(time.Second)}, "before any is due": {now.Add(-time.Hour), now.Add(-2 * time.Hour)},
	} {
		if due, _, _ := p.popDue(c.now, c.free); len(due) != 0 {
			t.Errorf("%s: %d shards", what, len(due))
		}
	}
	p.wake(late)
	if due, polls, next := p.popDue(now, now.Add(time.Second)); len(due) != 1 || polls != 0 || due[0] != late || next != all[len(all)-1].scheduled.due {
		t.Errorf("woken: %d shards, then at %s", len(due), next)
	}
	due, _, _ := p.popDue(now, now)
	if len(due) != pollsAtOnce || due[0] != all[len(all)-1] {
		t.Errorf("due: %d shards", len(due))
	}
	for _, s := range append(due, late) {
		if s.scheduled.kept {
			t.Error("a shard that runs is kept")
		}
	}
	if p.wake(late); !late.scheduled.woken {
		t.Error("one that runs does not learn that it was woken")
	}
	if n := len(p.idle); n != 2*pollsAtOnce-1 {
		t.Errorf("%d are left", n)
	}
}
