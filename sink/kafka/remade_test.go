package kafka_test

import (
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"bridge/sink"
	"bridge/sink/kafka"
)

// incarnation returns the topic's id as a reader is told it.
func incarnation(t *testing.T, s *kafka.Sink, topic string) string {
	t.Helper()
	tps, err := s.TPs(deadline(t), []string{topic})
	if err != nil || len(tps) == 0 || tps[0].Incarnation == "" {
		t.Fatalf("TPs %+v, %v", tps, err)
	}
	return tps[0].Incarnation
}

func TestATopicThatIsCreatedAgainUnderWay(t *testing.T) {
	t.Run("takes what is published where nothing had been", func(t *testing.T) {
		c := fake(t, kfake.SeedTopics(2, "t"))
		s := open(t, kafka.Options{Brokers: c.ListenAddrs()})
		remake(t, c, "t", 2)
		sent := series("t", "after", 0, 40, 4)
		publish(t, s, sent[:10])
		publish(t, s, sent[10:])
		compare(t, sent, consume(t, "t", kgo.SeedBrokers(c.ListenAddrs()...)))
	})
	t.Run("has another id in outcomes", func(t *testing.T) {
		c := fake(t, kfake.SeedTopics(1, "t"))
		var sessions atomic.Int64
		s := open(t, kafka.Options{Brokers: c.ListenAddrs(), Session: func(tp string) {
			if tp != "t/0" {
				t.Errorf("a session of %q", tp)
			}
			sessions.Add(1)
		}})
		former := incarnation(t, s, "t")
		publish(t, s, series("t", "before", 0, 10, 4))
		remake(t, c, "t", 1)
		publish(t, open(t, kafka.Options{Brokers: c.ListenAddrs()}), series("t", "other", 0, 30, 4))
		// What lies behind the others' messages shows that somebody has written there; the topic is
		// looked at then, not at every batch.
		for _, want := range []struct{ id, series string }{{former, "first"}, {incarnation(t, s, "t"), "second"}} {
			kafka.AgeTopics(s)
			sessions.Store(0)
			out := publish(t, s, series("t", want.series, 0, 1, 1))
			if ref := (sink.TPRef{Name: "t/0", Incarnation: want.id}); len(out.TPs) != 1 || out.TPs[0] != ref {
				t.Errorf("%s: the TPs are %+v, want %+v", want.series, out.TPs, ref)
			}
		}
		if former == incarnation(t, s, "t") || sessions.Load() != 1 {
			t.Errorf("%d sessions on a topic with the id %s", sessions.Load(), former)
		}
	})
}

// remake deletes a topic and creates it again.
func remake(t *testing.T, c *kfake.Cluster, name string, partitions int32) {
	t.Helper()
	if err := c.DeleteTopic(name); err != nil {
		t.Fatal(err)
	}
	if err := c.CreateTopic(name, partitions, nil); err != nil {
		t.Fatal(err)
	}
}
