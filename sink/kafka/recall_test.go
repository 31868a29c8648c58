package kafka_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"bridge/sink"
	"bridge/sink/kafka"
)

// recalled returns the ids of what lies behind marks.
func recalled(t testing.TB, s *kafka.Sink, marks ...sink.Offset) (ids []string, err error) {
	t.Helper()
	_, err = s.Recall(deadline(t), marks, func(m *sink.Message) error {
		ids = append(ids, m.ID)
		return nil
	})
	return ids, err
}

func ids(batch []sink.Message) (ids []string) {
	for _, m := range batch {
		ids = append(ids, m.ID)
	}
	return ids
}

func TestRecall(t *testing.T) {
	for _, codec := range []kafka.Compression{kafka.None, kafka.LZ4} {
		t.Run(fmt.Sprintf("begins in the middle of a batch, with %s", codec), func(t *testing.T) {
			c := fake(t, kfake.SeedTopics(1, "t"))
			s := open(t, kafka.Options{Brokers: c.ListenAddrs(), Compression: codec})
			batch := series("t", "k", 0, 50, 3)
			publish(t, s, batch)
			got, err := recalled(t, s, sink.Offset{TP: "t/0", Last: 29})
			if want := ids(batch[30:]); err != nil || !slices.Equal(got, want) {
				t.Errorf("got %v, %v, want %v", got, err, want)
			}
		})
	}
	t.Run("reads a partition without a mark from its beginning", func(t *testing.T) {
		c := fake(t, kfake.SeedTopics(8, "t"))
		s := open(t, kafka.Options{Brokers: c.ListenAddrs()})
		out := publish(t, s, series("t", "k", 0, 400, 40))
		if len(out.Offsets) < 2 {
			t.Fatalf("marks %v", out.Offsets)
		}
		got, err := recalled(t, s, out.Offsets[0])
		if want := 400 - int(out.Offsets[0].Last+1); err != nil || len(got) != want {
			t.Errorf("%d messages, %v, want %d", len(got), err, want)
		}
	})
	t.Run("goes on where it was after a cut connection", func(t *testing.T) {
		c := fake(t, kfake.SeedTopics(1, "t"))
		s := openQuiet(t, kafka.Options{Brokers: c.ListenAddrs()})
		batch := series("t", "k", 0, 20, 3)
		publish(t, s, batch)
		var fetches atomic.Int64
		c.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
			c.KeepControl()
			if fetches.Add(1) < 3 {
				return nil, errors.New("cut"), true
			}
			return nil, nil, false
		})
		got, err := recalled(t, s, sink.Offset{TP: "t/0", Last: 4})
		if err != nil || !slices.Equal(got, ids(batch[5:])) {
			t.Errorf("got %v, %v", got, err)
		}
	})
	t.Run("names the right that lacks", func(t *testing.T) {
		c := fake(t, kfake.SeedTopics(1, "t"))
		s := open(t, kafka.Options{Brokers: c.ListenAddrs()})
		publish(t, s, series("t", "k", 0, 20, 3))
		c.ControlKey(int16(kmsg.Fetch), func(r kmsg.Request) (kmsg.Response, error, bool) {
			c.KeepControl()
			answer := r.ResponseKind().(*kmsg.FetchResponse)
			topic, partition := kmsg.NewFetchResponseTopic(), kmsg.NewFetchResponseTopicPartition()
			topic.Topic, partition.ErrorCode = "t", 29
			topic.Partitions = append(topic.Partitions, partition)
			answer.Topics = append(answer.Topics, topic)
			return answer, nil, true
		})
		_, err := recalled(t, s, sink.Offset{TP: "t/0", Last: 4})
		if !errors.Is(err, sink.ErrUnreadable) || !strings.Contains(err.Error(), "grant READ on topic t") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("passes over markers and what was aborted, to the end", func(t *testing.T) {
		c := fake(t, kfake.SeedTopics(1, "t"))
		s := open(t, kafka.Options{Brokers: c.ListenAddrs()})
		publish(t, s, series("t", "k", 0, 5, 1))
		client := newClient(t, c.ListenAddrs(), kgo.DefaultProduceTopic("t"), kgo.TransactionalID("t"))
		transact(t, client, kgo.TryAbort, "x")
		publish(t, s, series("t", "k", 5, 5, 1))
		transact(t, client, kgo.TryCommit, "y")
		ends, err := s.Recall(deadline(t), []sink.Offset{{TP: "t/0", Last: 3}}, func(*sink.Message) error { return nil })
		if err != nil || len(ends) != 1 || ends[0].Last != 13 || ends[0].ID != "" {
			t.Errorf("ends %+v, %v", ends, err)
		}
		if got, err := recalled(t, s, sink.Offset{TP: "t/0", Last: 3}); err != nil || len(got) != 7 || got[6] != "y" {
			t.Errorf("got %v, %v", got, err)
		}
	})
	t.Run("tells nothing of a topic that is not there, nor of another bus", func(t *testing.T) {
		c := fake(t, kfake.SeedTopics(1, "t"))
		s := open(t, kafka.Options{Brokers: c.ListenAddrs()})
		if got, err := recalled(t, s, sink.Offset{TP: "gone/0", Last: 4}, sink.Offset{TP: "STREAM", Last: 4}); err != nil || len(got) != 0 {
			t.Errorf("got %v, %v", got, err)
		}
	})
}
