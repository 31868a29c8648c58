package kafka_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"bridge/sink"
	"bridge/sink/kafka"
)

func TestATopicThatIsMadeAnewUnderWay(t *testing.T) {
	behind := func(t *testing.T, s *kafka.Sink, c *kfake.Cluster) {
		t.Helper()
		remake(t, c, "t", 2)
		for range 2 {
			out, err := s.Publish(deadline(t), series("t", "after", 0, 10, 4))
			if !errors.Is(err, sink.ErrBehind) || out.AllAcked() {
				t.Fatalf("Publish returns %d acknowledged, %v; want ErrBehind", out.Acked(), err)
			}
			if !strings.Contains(err.Error(), "was acknowledged, but what came after it has the offset 0") {
				t.Errorf("Publish returns %v", err)
			}
		}
	}
	t.Run("ends every Publish with ErrBehind", func(t *testing.T) {
		c := fake(t, kfake.SeedTopics(2, "t"))
		s := open(t, kafka.Options{Brokers: c.ListenAddrs()})
		publish(t, s, series("t", "before", 0, 10, 4))
		behind(t, s, c)
	})
	t.Run("is held against what Verify was told", func(t *testing.T) {
		c := fake(t, kfake.SeedTopics(2, "t"))
		first := open(t, kafka.Options{Brokers: c.ListenAddrs()})
		out := publish(t, first, series("t", "before", 0, 10, 4))
		s := open(t, kafka.Options{Brokers: c.ListenAddrs()})
		if err := s.Verify(deadline(t), out.Marks); err != nil {
			t.Fatal(err)
		}
		behind(t, s, c)
	})
	t.Run("is no loss where nothing had been published", func(t *testing.T) {
		c := fake(t, kfake.SeedTopics(2, "t"))
		s := open(t, kafka.Options{Brokers: c.ListenAddrs()})
		remake(t, c, "t", 2)
		sent := series("t", "after", 0, 10, 4)
		publish(t, s, sent)
		judge(t, sent, consume(t, "t", kgo.SeedBrokers(c.ListenAddrs()...)))
	})
}

func TestALossThatOthersFillUpWhileItIsLookedAt(t *testing.T) {
	c := fake(t, kfake.SeedTopics(1, "t"))
	first := open(t, kafka.Options{Brokers: c.ListenAddrs()})
	out := publish(t, first, series("t", "before", 0, 10, 4))
	remake(t, c, "t", 1)
	// One shard has lost its messages, another one had none on the topic and goes on.
	s := open(t, kafka.Options{Brokers: c.ListenAddrs()})
	looked, filled := make(chan struct{}), make(chan struct{})
	looks := 0
	c.ControlKey(int16(kmsg.ListOffsets), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if looks++; looks == 2 {
			close(looked)
			c.SleepControl(func() { <-filled })
		}
		return nil, nil, false
	})
	verified := make(chan error, 1)
	go func() { verified <- s.Verify(deadline(t), out.Marks) }()
	<-looked
	more, err := s.Publish(deadline(t), series("t", "after", 0, 20, 4))
	close(filled)
	if err != nil {
		t.Fatalf("Publish returns %d acknowledged, %v", more.Acked(), err)
	}
	if err := <-verified; !errors.Is(err, sink.ErrBehind) {
		t.Errorf("Verify returns %v, want ErrBehind", err)
	}
}

// remake deletes a topic and makes it anew.
func remake(t *testing.T, c *kfake.Cluster, name string, partitions int32) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	gone := kmsg.NewDeleteTopicsRequestTopic()
	gone.Topic = &name
	deletion := kmsg.NewPtrDeleteTopicsRequest()
	deletion.TimeoutMillis, deletion.TopicNames, deletion.Topics = 5000, []string{name}, append(deletion.Topics, gone)
	deleted, err := deletion.RequestWith(deadline(t), client)
	if err == nil {
		err = kerr.ErrorForCode(deleted.Topics[0].ErrorCode)
	}
	if err != nil {
		t.Fatal(err)
	}
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, partitions, 1
	creation := kmsg.NewPtrCreateTopicsRequest()
	creation.TimeoutMillis, creation.Topics = 5000, append(creation.Topics, topic)
	created, err := creation.RequestWith(deadline(t), client)
	if err == nil {
		err = kerr.ErrorForCode(created.Topics[0].ErrorCode)
	}
	if err != nil {
		t.Fatal(err)
	}
}
