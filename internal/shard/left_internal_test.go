package shard

import (
	"testing"
	"time"
)

// TestWhatIsLeftSharesNoMemory: the status of the former shard may be read while the next one
// counts.
func TestWhatIsLeftSharesNoMemory(t *testing.T) {
	t.Parallel()
	now := time.Now()
	former, next := &Shard{}, &Shard{}
	former.status.traffic.publish(3, 3, now)
	former.status.traffic.putAside("too large")
	left := former.Leave()
	next.goOn(&left)
	next.status.traffic.publish(4, 7, now)
	next.status.traffic.putAside("too large")
	for _, c := range []struct {
		of    *Shard
		rows  uint64
		aside uint64
	}{{former, 3, 1}, {next, 7, 2}} {
		if shown, _ := c.of.status.traffic.at(7, now); shown.Published.Rows != c.rows || shown.DeadLetters.Count != c.aside {
			t.Errorf("%+v is shown, want %d rows and %d put aside", shown, c.rows, c.aside)
		}
	}
}
