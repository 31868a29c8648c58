package kafka_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"bridge/sink"
	"bridge/sink/kafka"
)

// TestACallerThatLeavesBetweenTwoRequests: nothing of its batch is committed, and the batches of
// others are.
func TestACallerThatLeavesBetweenTwoRequests(t *testing.T) {
	t.Parallel()
	c := fake(t, kfake.SeedTopics(1, "one"))
	s := open(t, transactional(t, c.ListenAddrs()))
	sent := series("one", "before", 0, 3, 3)
	publish(t, s, sent)
	ctx, leave := context.WithCancel(deadline(t))
	left := make(chan error, 1)
	var requests atomic.Int32
	c.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if requests.Add(1) == 1 {
			leave()
			<-left
		}
		return nil, nil, false
	})
	// A request takes 900 KiB of a partition.
	var large []sink.Message
	for n := range 30 {
		large = append(large, message("one", "large", n, 100_000))
	}
	_, err := s.Publish(ctx, large)
	left <- err
	if err == nil {
		t.Error("the batch is acknowledged")
	}
	after := series("one", "after", 0, 3, 3)
	publish(t, s, after)
	if n := requests.Load(); n < 2 {
		t.Errorf("%d requests", n)
	}
	if n := compare(t, append(sent, after...), committed(t, "one", c.ListenAddrs())); n > 0 {
		t.Errorf("%d messages are there twice", n)
	}
}

// TestNoMarkerIsCoveredInATopicThatIsCreatedAgain where the offset behind the last batch is that of
// somebody else's message.
func TestNoMarkerIsCoveredInATopicThatIsCreatedAgain(t *testing.T) {
	t.Parallel()
	c := fake(t, kfake.SeedTopics(1, "one"))
	s := open(t, transactional(t, c.ListenAddrs()))
	publish(t, s, series("one", "k", 0, 5, 2))
	if out := publish(t, s, series("one", "k", 5, 5, 2)); !out.At[0].Marker || out.At[0].Offset != 6 {
		t.Fatalf("the first message is at %+v, want 6 behind a marker", out.At[0])
	}
	remake(t, c, "one", 1)
	// The former topic ended with 10 messages and a marker: in this one a message is at that offset.
	publish(t, open(t, kafka.Options{Brokers: c.ListenAddrs()}), series("one", "others", 0, 12, 2))
	// What is known of a topic is believed for five minutes.
	for range 6 {
		kafka.AgeTopics(s)
	}
	if out := publish(t, s, series("one", "k", 10, 5, 2)); out.At[0].Marker || out.At[0].Offset != 12 {
		t.Errorf("the first message is at %+v, want 12 and no marker", out.At[0])
	}
}
