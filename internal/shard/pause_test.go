package shard_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"example.org/bridge/internal/shard"
	"example.org/bridge/internal/stream"
	"example.org/bridge/reconcile"
	"example.org/bridge/source"
)

// setPause pauses the shard of a bench, or resumes it, as a command does.
func setPause(t testing.TB, b *bench, s *shard.Shard, on bool) {
	t.Helper()
	image, err := b.store.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	batch, err := stream.SetPause{Stream: "items", Table: s.Status().Shard, On: on, Now: time.Now()}.Batch(&image)
	if err == nil {
		err = b.store.Apply(t.Context(), batch)
	}
	if err != nil {
		t.Fatal(err)
	}
	since := time.Time{}
	if on {
		since = time.Now()
	}
	s.SetPaused(since)
}

// paused waits until a shard rests.
func paused(t testing.TB, s *shard.Shard) {
	t.Helper()
	eventually(t, "paused", func() bool { return s.Status().State == shard.Paused })
}

func TestPause(t *testing.T) {
	t.Run("what is in flight is published and committed, then nothing is read, and nothing is repeated", func(t *testing.T) {
		b := newBench(t)
		b.insert(1000)
		release := b.bus.Pause(450)
		s, stop := b.run(t)
		eventually(t, "the bus stands still", func() bool { return b.count(topic) == 450 })
		setPause(t, b, s, true)
		if status := s.Status(); status.State == shard.Paused || status.PausedAt.IsZero() {
			t.Errorf("with a batch in flight it is %s since %v", status.State, status.PausedAt)
		}
		release()
		paused(t, s)
		stored := b.count(topic)
		if got := b.position(t); got != uint64(stored) || stored < 450 || stored > 600 {
			t.Errorf("%d rows are on the bus, the position is %d", stored, got)
		}
		reads := b.table.Reads()
		wait(t, 50*time.Millisecond)
		if status := s.Status(); b.table.Reads() != reads || b.count(topic) != stored || status.LagSeconds != nil {
			t.Errorf("%d reads and %d messages while it is paused, its lag is %v", b.table.Reads()-reads, b.count(topic)-stored, status.LagSeconds)
		}
		if _, err := s.Nominate(t.Context(), reconcile.Nomination{Rows: []source.Range{{First: 1, Last: 1}}}); err == nil {
			t.Error("it takes a nomination")
		}
		stop()
		s, _ = b.run(t)
		paused(t, s)
		setPause(t, b, s, false)
		b.saved(t, 1000)
		expectRun(t, b.ids(topic), 1, 1000)
	})
	instantly(t, "an idle shard is paused at once, and stops for another process", func(t *testing.T) {
		b := newBench(t)
		b.opts.PollInterval, b.tick = 30*time.Minute, 10*time.Second
		b.insert(3)
		s, _ := b.run(t)
		later(t, "the rows are there", func() bool { return b.count(topic) == 3 })
		waitIdle(t, s)
		began := time.Now()
		setPause(t, b, s, true)
		paused(t, s)
		s.Stop(errors.New("another bridge"))
		stopped(t, s)
		if took := time.Since(began); took > time.Minute {
			t.Errorf("after %s", took)
		}
	})
	instantly(t, "gaps do not age", func(t *testing.T) {
		b := newBench(t)
		b.opts.GapTTL, b.opts.PollInterval, b.tick = time.Hour, 10*time.Second, time.Minute
		b.insert(2)
		b.table.InsertAt(10, "n", old)
		s, _ := b.run(t)
		b.saved(t, 10)
		setPause(t, b, s, true)
		paused(t, s)
		wait(t, 3*time.Hour)
		setPause(t, b, s, false)
		wait(t, 30*time.Minute)
		b.table.InsertAt(5, "late", old)
		wait(t, 10*time.Minute)
		if got := b.ids(topic); !slices.Equal(got, []uint64{1, 2, 10, 5}) {
			t.Errorf("got rows %v", got)
		}
	})
}
