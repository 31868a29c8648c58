package shard

import (
	"testing"
	"time"

	"bridge/source"
)

type headReader struct {
	source.Shard
	source.HeadReader
}

func TestNextPoll(t *testing.T) {
	const interval = 100 * time.Millisecond
	shard := func(s source.Shard, active time.Time) *owner {
		return &owner{opts: &Options{Source: s, PollInterval: interval}, pace: &pace{active, quietAfter}}
	}
	began := epoch.Add(10*interval + 7*time.Millisecond)
	plain, heads := struct{ source.Shard }{}, headReader{}

	t.Run("a busy shard polls an interval later", func(t *testing.T) {
		for _, s := range []source.Shard{plain, heads} {
			if got := shard(s, time.Now()).nextPoll(began, false); got != began.Add(interval) {
				t.Errorf("%s after the last", got.Sub(began))
			}
		}
	})
	t.Run("a quiet one half as often", func(t *testing.T) {
		if got := shard(plain, time.Time{}).nextPoll(began, false); got != began.Add(2*interval) {
			t.Errorf("%s after the last", got.Sub(began))
		}
	})
	t.Run("those that read the head do that together, no later than twice the interval", func(t *testing.T) {
		for late := time.Duration(0); late < 2*interval; late += 7 * time.Millisecond {
			at := epoch.Add(10*interval + late)
			if got := shard(heads, time.Time{}).nextPoll(at, false); got != epoch.Add(12*interval) {
				t.Errorf("after a poll %s behind the common time, the next is %s behind it", late, got.Sub(epoch)-10*interval)
			}
		}
	})
	t.Run("with a second cursor, which has reads of its own, they do not", func(t *testing.T) {
		s := shard(heads, time.Time{})
		s.changes = new(changes)
		if got := s.nextPoll(began, false); got != began.Add(2*interval) {
			t.Errorf("%s after the last", got.Sub(began))
		}
	})
	t.Run("what has more is polled at once", func(t *testing.T) {
		before := time.Now()
		if got := shard(heads, time.Time{}).nextPoll(began, true); got.Before(before) || got.After(time.Now()) {
			t.Errorf("%s from now", time.Until(got))
		}
	})
}

func TestAShardThatHasMemoryForALargePageOwesAPoll(t *testing.T) {
	s := &owner{reader: new(reader), gaps: new(gaps)}
	if s.owes() {
		t.Fatal("a shard without a ledger owes something")
	}
	s.reader.oversize = hold{big: true}
	if !s.owes() {
		t.Error("nobody takes the memory back where the page is gone")
	}
}
