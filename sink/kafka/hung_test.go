package kafka_test

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestAHungLeader takes produce requests and answers none: what goes to the others waits for it
// only as long as StalledAfter says, and is not taken for unanswered with it.
func TestAHungLeader(t *testing.T) {
	t.Parallel()
	c := fake(t, kfake.SeedTopics(1, "hung", "healthy"))
	opts := transactional(t, c.ListenAddrs())
	opts.StalledAfter = 2 * time.Second
	s := fenced(t, opts)
	hung := c.LeaderFor("hung", 0)
	if err := c.MoveTopicPartition("healthy", 0, (hung+1)%3); err != nil {
		t.Fatal(err)
	}
	end, taken := make(chan struct{}), make(chan struct{}, 1)
	t.Cleanup(func() { close(end) })
	c.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if c.CurrentNode() == hung {
			select {
			case taken <- struct{}{}:
			default:
			}
			c.SleepControl(func() { <-end })
		}
		return nil, nil, false
	})
	go func() { _, _ = s.Publish(deadline(t), series("hung", "k", 0, 3, 3)) }()
	<-taken
	// By design it takes 2.5 s at most, and 15 s without StalledAfter.
	for begun := time.Now(); time.Since(begun) < 8*time.Second; {
		at := time.Now()
		publish(t, s, series("healthy", "k", 0, 1, 1))
		if took := time.Since(at); took > 12*time.Second {
			t.Fatalf("a batch for a healthy leader took %v", took)
		}
	}
}
