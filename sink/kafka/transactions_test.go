package kafka_test

import (
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"bridge/sink"
	"bridge/sink/kafka"
	"bridge/sink/sinktest"
)

// committed reads what a read_committed consumer sees of a topic.
func committed(t testing.TB, topic string, brokers []string) []*kgo.Record {
	t.Helper()
	// A partition ends with a marker: without it the end would not show.
	all := consume(t, topic, kgo.SeedBrokers(brokers...), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
	return slices.DeleteFunc(all, func(r *kgo.Record) bool { return r.Attrs.IsControl() })
}

// transactional returns options with a transactional id of the test's own.
func transactional(t testing.TB, brokers []string) kafka.Options {
	return kafka.Options{Brokers: brokers, TransactionalID: "bridge." + t.Name()}
}

// TestMarkersAreCovered: what this sink publishes leaves no hole but the last marker.
func TestMarkersAreCovered(t *testing.T) {
	t.Parallel()
	c := fake(t, kfake.SeedTopics(1, "one"))
	s := open(t, transactional(t, c.ListenAddrs()))
	covered := make(map[uint64]bool)
	end := uint64(0)
	for n := range 10 {
		out := publish(t, s, series("one", "k", n*5, 5, 2))
		for _, at := range out.At {
			if at.Marker {
				covered[at.Offset-1] = true
			}
			covered[at.Offset] = true
			end = max(end, at.Offset+1)
		}
	}
	if end != 59 || len(covered) != 59 {
		t.Errorf("%d of %d offsets are covered, want 59: ten transactions of 5 messages, 9 markers between them", len(covered), end)
	}
}

// TestAPartitionThatDoesNotAnswer holds up its own batches; those of others go on, and its own
// follow once it answers.
func TestAPartitionThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	c := fake(t, kfake.SeedTopics(1, "one", "two"))
	opts := transactional(t, c.ListenAddrs())
	opts.StalledAfter = 200 * time.Millisecond
	s := open(t, opts)
	publish(t, s, series("one", "warm", 0, 1, 1))
	away := c.Fault(kfake.Fault{Keys: produceKey, Topic: "one", Err: kerr.NotEnoughReplicas, Count: -1})
	held := series("one", "k", 0, 10, 3)
	done := sinktest.Publishing(deadline(t), s, held)
	var others []sink.Message
	for n := range 20 {
		batch := series("two", "k", n*5, 5, 3)
		publish(t, s, batch)
		others = append(others, batch...)
	}
	select {
	case <-done:
		t.Error("a batch is acknowledged though its partition does not answer")
	default:
	}
	away.Remove()
	if err := <-done; err != nil {
		t.Error(err)
	}
	sent := append(series("one", "warm", 0, 1, 1), held...)
	if n := compare(t, sent, committed(t, "one", c.ListenAddrs())); n > 0 {
		t.Errorf("%d messages are there twice", n)
	}
	if n := compare(t, others, committed(t, "two", c.ListenAddrs())); n > 0 {
		t.Errorf("%d messages of the others are there twice", n)
	}
}
