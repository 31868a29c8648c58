package kafka_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"bridge/sink"
	"bridge/sink/kafka"
)

func TestATopicThatIsCreatedAgainUnderWay(t *testing.T) {
	behind := func(t *testing.T, s *kafka.Sink, c *kfake.Cluster) {
		t.Helper()
		remake(t, c, "t", 2)
		for range 2 {
			out, err := s.Publish(deadline(t), series("t", "after", 0, 10, 4))
			if !errors.Is(err, sink.ErrBehind) || out.AllAcked() {
				t.Fatalf("Publish returns %d acknowledged, %v; want ErrBehind", out.Acked(), err)
			}
			if !strings.Contains(err.Error(), "was acknowledged, but what came after it has the offset 0") &&
				!strings.Contains(err.Error(), "was acknowledged, but the topic was recreated") {
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
		if err := s.Verify(deadline(t), out.Offsets); err != nil {
			t.Fatal(err)
		}
		behind(t, s, c)
	})
	t.Run("nothing is lost where nothing had been published", func(t *testing.T) {
		c := fake(t, kfake.SeedTopics(2, "t"))
		s := open(t, kafka.Options{Brokers: c.ListenAddrs()})
		remake(t, c, "t", 2)
		sent := series("t", "after", 0, 10, 4)
		publish(t, s, sent)
		compare(t, sent, consume(t, "t", kgo.SeedBrokers(c.ListenAddrs()...)))
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
	go func() { verified <- s.Verify(deadline(t), out.Offsets) }()
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

// remake deletes a topic and creates it again.
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

// TestATopicThatWasCreatedAgainAndGrew: others have filled the new topic up past the former end
// before bridge starts again.
func TestATopicThatWasCreatedAgainAndGrew(t *testing.T) {
	grown := func(t *testing.T, opts ...kfake.Opt) (*kfake.Cluster, sink.Offset) {
		t.Helper()
		c := fake(t, append(opts, kfake.SeedTopics(1, "t"))...)
		first := open(t, kafka.Options{Brokers: c.ListenAddrs()})
		offsets := publish(t, first, series("t", "before", 0, 10, 4)).Offsets
		if len(offsets) != 1 || offsets[0].Last != 9 || offsets[0].ID != "before+1-9" {
			t.Fatalf("offsets %+v", offsets)
		}
		remake(t, c, "t", 1)
		publish(t, open(t, kafka.Options{Brokers: c.ListenAddrs()}), series("t", "other", 0, 30, 4))
		return c, offsets[0]
	}
	verify := func(t *testing.T, c *kfake.Cluster, m sink.Offset) error {
		t.Helper()
		return open(t, kafka.Options{Brokers: c.ListenAddrs()}).Verify(deadline(t), []sink.Offset{m})
	}
	// Before topic ids, Metadata had at most version 9.
	old := kversion.V2_7_0()
	t.Run("is told by the topic's id", func(t *testing.T) {
		c, offset := grown(t)
		offset.ID = ""
		if err := verify(t, c, offset); !errors.Is(err, sink.ErrBehind) || !strings.Contains(err.Error(), offset.Incarnation) {
			t.Errorf("Verify returns %v, want ErrBehind", err)
		}
	})
	t.Run("is told by the record at the offset, where a broker knows no ids of topics", func(t *testing.T) {
		c, offset := grown(t, kfake.MaxVersions(old))
		if offset.Incarnation != "" {
			t.Fatalf("offset %+v", offset)
		}
		if err := verify(t, c, offset); !errors.Is(err, sink.ErrBehind) || !strings.Contains(err.Error(), "other+1-9 instead of before+1-9") {
			t.Errorf("Verify returns %v, want ErrBehind", err)
		}
	})
	t.Run("holds nothing to read back", func(t *testing.T) {
		c, offset := grown(t)
		if got, err := recalled(t, open(t, kafka.Options{Brokers: c.ListenAddrs()}), offset); err != nil || len(got) > 0 {
			t.Errorf("read back %q, %v", got, err)
		}
	})
	t.Run("is adopted by an offset of a version that knew neither", func(t *testing.T) {
		c, offset := grown(t)
		if err := verify(t, c, sink.Offset{TP: offset.TP, Last: offset.Last}); err != nil {
			t.Error(err)
		}
	})
}

// TestAMissingRecordProvesNothing: what has expired or was compacted away, and what may not be
// read.
func TestAMissingRecordProvesNothing(t *testing.T) {
	c := fake(t, kfake.SeedTopics(1, "t"))
	s := open(t, kafka.Options{Brokers: c.ListenAddrs()})
	offset := publish(t, s, series("t", "k", 0, 10, 4)).Offsets[0]
	publish(t, s, series("t", "k", 10, 10, 4))
	if err := s.Verify(deadline(t), []sink.Offset{offset}); err != nil {
		t.Fatalf("Verify of the record that is there: %v", err)
	}
	t.Run("deleted", func(t *testing.T) {
		client, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...))
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		topic, partition := kmsg.NewDeleteRecordsRequestTopic(), kmsg.NewDeleteRecordsRequestTopicPartition()
		topic.Topic, partition.Offset = "t", 15
		topic.Partitions = append(topic.Partitions, partition)
		request := kmsg.NewPtrDeleteRecordsRequest()
		request.Topics, request.TimeoutMillis = append(request.Topics, topic), 5000
		if _, err := request.RequestWith(deadline(t), client); err != nil {
			t.Fatal(err)
		}
		if err := s.Verify(deadline(t), []sink.Offset{offset}); err != nil {
			t.Error(err)
		}
	})
	t.Run("without READ", func(t *testing.T) {
		other := offset
		other.ID = "another"
		c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.TopicAuthorizationFailed, Count: 10})
		if err := s.Verify(deadline(t), []sink.Offset{other}); err != nil {
			t.Error(err)
		}
	})
}

func TestATopicThatIsCreatedAgainAndGrowsUnderWay(t *testing.T) {
	c := fake(t, kfake.SeedTopics(1, "t"))
	s := open(t, kafka.Options{Brokers: c.ListenAddrs()})
	publish(t, s, series("t", "before", 0, 10, 4))
	remake(t, c, "t", 1)
	publish(t, open(t, kafka.Options{Brokers: c.ListenAddrs()}), series("t", "other", 0, 30, 4))
	// What comes behind the others' messages shows that somebody has written there; the topic is
	// looked at then, not at every batch.
	kafka.AgeTopics(s)
	publish(t, s, series("t", "first", 0, 1, 4))
	out, err := s.Publish(deadline(t), series("t", "second", 0, 10, 4))
	if !errors.Is(err, sink.ErrBehind) || out.Acked() > 0 || !strings.Contains(err.Error(), "recreated") {
		t.Errorf("Publish returns %d acknowledged, %v; want ErrBehind", out.Acked(), err)
	}
}
