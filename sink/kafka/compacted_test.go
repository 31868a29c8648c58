package kafka_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"bridge/sink"
	"bridge/sink/kafka"
	"bridge/tests/testenv"
)

func TestWhetherATopicIsCompacted(t *testing.T) {
	t.Parallel()
	t.Run("by its cleanup.policy, once the topic is there", func(t *testing.T) {
		t.Parallel()
		k := testenv.Kafka(t)
		missing := make(chan string, 100)
		s := open(t, kafka.Options{Brokers: k.Brokers(), Fault: func(_ string, err error) {
			select {
			case missing <- err.Error():
			default:
			}
		}})
		for topic, policy := range map[string]string{"compaction-no": "delete", "compaction-yes": "compact", "compaction-both": "compact,delete"} {
			found := make(chan bool, 1)
			go func() {
				compaction, err := s.Compaction(deadline(t), topic)
				if compaction.Tombstones != 90*time.Second || err != nil {
					t.Errorf("of %s: %+v, %v", topic, compaction, err)
				}
				found <- compaction.On && err == nil
			}()
			for !strings.Contains(<-missing, topic+" does not exist") {
				// It is that of the topic before.
			}
			stay := "90000"
			k.CreateTopic(t, topic, 1, map[string]*string{"cleanup.policy": &policy, "delete.retention.ms": &stay})
			if got := <-found; got != strings.Contains(policy, "compact") {
				t.Errorf("%s is compacted: %t", policy, got)
			}
		}
	})
	t.Run("a login that may not ask is told so", func(t *testing.T) {
		t.Parallel()
		c := fake(t, kfake.SeedTopics(1, "t"))
		c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeConfigs}, Resource: "t", Err: kerr.TopicAuthorizationFailed, Count: -1})
		s := open(t, kafka.Options{Brokers: c.ListenAddrs(), Topics: []string{"t"}, Asked: []string{"t"}})
		hidden, err := s.Compaction(deadline(t), "t")
		if hidden != (sink.Compaction{Tombstones: 24 * time.Hour}) {
			t.Errorf("got %+v", hidden)
		}
		if !errors.Is(err, sink.ErrHidden) || !strings.Contains(err.Error(), "DESCRIBE_CONFIGS on topic t") {
			t.Errorf("got %v", err)
		}
		r := s.Inspect(deadline(t))
		found := false
		for _, f := range r.Findings {
			found = found || f.Code == "topic-hidden" && strings.Contains(f.Do, "KAFKA_TOMBSTONES") && strings.Contains(f.Statement, "DescribeConfigs")
		}
		if !found {
			t.Errorf("the findings are %+v", r.Findings)
		}
	})
	t.Run("a reader gives up on a topic that does not come", func(t *testing.T) {
		t.Parallel()
		c := fake(t)
		s := open(t, kafka.Options{Brokers: c.ListenAddrs(), GiveUpAfter: 50 * time.Millisecond})
		if _, err := s.Compaction(deadline(t), "missing"); err == nil || !strings.Contains(err.Error(), "missing does not exist") {
			t.Errorf("got %v", err)
		}
	})
}
