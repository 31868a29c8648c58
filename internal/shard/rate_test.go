package shard_test

import (
	"slices"
	"testing"
	"time"

	"example.org/bridge/internal/shard"
)

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
