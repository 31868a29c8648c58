package shard

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"bridge/internal/catchup"
	"bridge/sink"
	"bridge/source"
)

func TestTraffic(t *testing.T) {
	start := time.Unix(1_700_000_000, 0)
	var c traffic
	if got := c.at(0, start); got.Rows != 0 || got.Minutes != nil || c.recent != nil {
		t.Fatalf("before anything is published: %+v", got)
	}
	// A hundred rows a second, for two minutes; every second id is missing.
	now, position := start, uint64(1000)
	for range 120 {
		now = now.Add(time.Second)
		position += 200
		c.publish(100, position, now)
	}
	got := c.at(position, now)
	if got.Rows != 12_000 || got.RowsPerSecond < 95 || got.RowsPerSecond > 105 || got.IDsPerSecond < 190 || got.IDsPerSecond > 210 {
		t.Errorf("at a steady rate: %d rows, %.1f rows and %.1f ids a second", got.Rows, got.RowsPerSecond, got.IDsPerSecond)
	}
	sum := uint32(0)
	for _, n := range got.Minutes {
		sum += n
	}
	if len(got.Minutes) != 60 || sum != 12_000 || got.Minutes[58] != 6000 || got.Minutes[0] != 0 {
		t.Errorf("by minute: %v", got.Minutes)
	}
	if later := c.at(position, now.Add(time.Minute)); later.RowsPerSecond != 0 || later.Minutes[57] != 6000 || later.Minutes[59] != 0 {
		t.Errorf("a quiet minute later: %.1f rows a second, %v", later.RowsPerSecond, later.Minutes)
	}
	if later := c.at(position, now.Add(2*time.Hour)); later.Minutes != nil || later.Rows != 12_000 {
		t.Errorf("two hours later: %+v", later)
	}
	c.publish(5, position, now.Add(-time.Hour))
	if back := c.at(position, now.Add(-time.Hour)); back.Rows != 12_005 {
		t.Errorf("after the clock was set back: %+v", back)
	}
}

func TestTrafficTakesLittleMemory(t *testing.T) {
	if n := unsafe.Sizeof(recentTraffic{}); n > 500 {
		t.Errorf("a shard that publishes keeps %d bytes", n)
	}
	if n := unsafe.Sizeof(traffic{}); n > 64 {
		t.Errorf("a shard that publishes nothing keeps %d bytes", n)
	}
}

func TestReasonsOfDeadLetters(t *testing.T) {
	var c traffic
	for n := range 5 {
		c.putAside(fmt.Sprintf("the record has %d bytes, more than %d", 1000*n+n, 99))
	}
	c.putAside("invalid record")
	for n := range 20 {
		c.putAside("reason " + string(rune('a'+n)))
	}
	c.putAside(strings.Repeat("ä", 1000))
	got := c.at(0, time.Now()).DeadLetters
	if len(got) != mostReasons+1 || got[0] != (DeadLetterCount{otherReason, 15}) || got[1] != (DeadLetterCount{"the record has N bytes, more than N", 5}) {
		t.Errorf("%+v", got)
	}
}

// TestWhereABacklogBegan: at the position where the shard was last drained.
func TestWhereABacklogBegan(t *testing.T) {
	var c traffic
	for _, step := range []struct {
		position uint64
		drained  bool
		want     uint64
	}{{500, false, 500}, {600, false, 500}, {700, true, 700}, {900, false, 700}, {100, false, 100}} {
		c.save(step.position, step.drained)
		if c.drained != step.want {
			t.Errorf("at %d: %d, want %d", step.position, c.drained, step.want)
		}
	}
}

func TestCausesOfStops(t *testing.T) {
	for want, err := range map[Cause]error{
		CauseMissing: source.ErrMissing, CauseIDsReused: fmt.Errorf("look: %w", ErrIDsReused), CauseRefused: &sink.RejectedError{},
		CauseDeadLetterLimit: &deadLetterLimitError{}, CauseSuperseded: catchup.ErrSuperseded, CauseOther: fmt.Errorf("what nobody knows"),
	} {
		if got := causeOf(err); got != want {
			t.Errorf("%v has the cause %s, want %s", err, got, want)
		}
	}
	if slices.ContainsFunc(sentinels, func(s struct {
		err   error
		cause Cause
	}) bool {
		return causeOf(s.err) != s.cause
	}) {
		t.Error("an error has another cause than its own")
	}
}
