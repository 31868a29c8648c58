package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"example.org/bridge/sink"
	"example.org/bridge/sink/kafka"
	"example.org/bridge/sink/sinktest"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testenv"
)

func transact(t testing.TB, client *kgo.Client, commit kgo.TransactionEndTry, values ...string) {
	t.Helper()
	must.OK(t, client.BeginTransaction())
	for _, v := range values {
		r := &kgo.Record{Value: []byte(v), Headers: []kgo.RecordHeader{{Key: sink.HeaderStream, Value: []byte("test")}, {Key: sink.HeaderID, Value: []byte(v)}}}
		must.OK(t, client.ProduceSync(sinktest.Deadline(t), r).FirstErr())
	}
	must.OK(t, client.EndTransaction(sinktest.Deadline(t), commit))
}

// stored returns the values of a TP up to its end, and how far it was read.
func stored(t testing.TB, s *kafka.Sink, topic string) (values []string, tp sink.TP) {
	t.Helper()
	tps, err := s.TPs(sinktest.Deadline(t), []string{topic})
	if err != nil || len(tps) != 1 {
		t.Fatalf("TPs %+v, %v", tps, err)
	}
	next, err := s.Read(sinktest.Deadline(t), sink.Span{TP: tps[0].Name, From: tps[0].First, To: tps[0].End}, func(m *sink.Stored) error {
		values = append(values, string(m.Value))
		return nil
	})
	if err != nil || next != tps[0].End {
		t.Fatalf("Read of %+v ends at %d: %v", tps[0], next, err)
	}
	return values, tps[0]
}

func ids(batch []sink.Message) (ids []string) {
	for _, m := range batch {
		ids = append(ids, m.ID)
	}
	return ids
}

func TestReadTransactions(t *testing.T) {
	t.Parallel()
	const topic = "t"
	brokers := fake(t, kfake.SeedTopics(1, topic)).ListenAddrs()
	s := open(t, kafka.Options{Connection: at(brokers)})
	plain := newClient(t, brokers, kgo.DefaultProduceTopic(topic))
	one := newClient(t, brokers, kgo.DefaultProduceTopic(topic), kgo.TransactionalID(topic+"-1"), kgo.TransactionTimeout(5*time.Minute))
	two := newClient(t, brokers, kgo.DefaultProduceTopic(topic), kgo.TransactionalID(topic+"-2"), kgo.TransactionTimeout(5*time.Minute))
	var want []string
	wanted := func(what string) {
		t.Helper()
		got, tp := stored(t, s, topic)
		if !slices.Equal(got, want) {
			t.Fatalf("%s: got %v, want %v of %+v", what, got, want, tp)
		}
	}
	put := func(client *kgo.Client, v string) {
		t.Helper()
		must.OK(t, client.ProduceSync(sinktest.Deadline(t), &kgo.Record{Value: []byte(v)}).FirstErr())
	}
	transact(t, one, kgo.TryAbort, "x0")
	wanted("nothing but an aborted transaction")
	transact(t, one, kgo.TryCommit, "a", "b")
	want = append(want, "a", "b")
	wanted("a marker at the end")
	transact(t, one, kgo.TryAbort, "x1", "x2")
	wanted("an aborted transaction at the end")
	transact(t, one, kgo.TryCommit, "c")
	want = append(want, "c")
	wanted("a commit of a producer behind its abort")

	// Two at once: one aborts what lies around the other's committed message.
	for _, client := range []*kgo.Client{one, two} {
		must.OK(t, client.BeginTransaction())
	}
	put(one, "x3")
	put(two, "d")
	put(plain, "e")
	put(one, "x4")
	must.OK(t, two.EndTransaction(sinktest.Deadline(t), kgo.TryCommit))
	tps, err := s.TPs(sinktest.Deadline(t), []string{topic})
	if err != nil || tps[0].Stable >= tps[0].End {
		t.Fatalf("an open transaction holds nothing back: %+v, %v", tps, err)
	}
	var early []string
	next := uint64(0)
	// A second is enough for what is committed, save on a busy machine.
	for _, limit := range []time.Duration{1200 * time.Millisecond, 5 * time.Second, time.Minute} {
		short, cancel := context.WithTimeout(t.Context(), limit)
		early = nil
		next, err = s.Read(short, sink.Span{TP: tps[0].Name, To: tps[0].End}, func(m *sink.Stored) error {
			early = append(early, string(m.Value))
			return nil
		})
		cancel()
		if next >= tps[0].Stable {
			break
		}
	}
	if !errors.Is(err, context.DeadlineExceeded) || next != tps[0].Stable || !slices.Equal(early, want) {
		t.Fatalf("Read ends at %d of %+v with %v: %v", next, tps[0], early, err)
	}
	done := make(chan error, 1)
	go func() {
		values := slices.Clone(early)
		_, err := s.Read(sinktest.Deadline(t), sink.Span{TP: tps[0].Name, From: next, To: tps[0].End}, func(m *sink.Stored) error {
			values = append(values, string(m.Value))
			return nil
		})
		if err == nil && !slices.Equal(values, append(slices.Clone(want), "d", "e")) {
			err = fmt.Errorf("got %v", values)
		}
		done <- err
	}()
	must.OK(t, one.EndTransaction(sinktest.Deadline(t), kgo.TryAbort))
	must.OK(t, <-done)
	want = append(want, "d", "e")
	wanted("one transaction within another")
	// Each begins in the middle of something.
	_, tp := stored(t, s, topic)
	for from := range tp.End {
		var got []string
		must.Get(s.Read(sinktest.Deadline(t), sink.Span{TP: tp.Name, From: from, To: tp.End}, func(m *sink.Stored) error {
			got = append(got, string(m.Value))
			return nil
		}))(t)
		if tail := want[len(want)-min(len(got), len(want)):]; !slices.Equal(got, tail) {
			t.Errorf("from %d: got %v, want the end of %v", from, got, want)
		}
	}
}

// TestReadSegmentsOfMarkers reads a log in which the segment behind a record begins with the marker
// of its transaction.
func TestReadSegmentsOfMarkers(t *testing.T) {
	t.Parallel()
	k := testenv.Kafka(t)
	topic, segment := newTopic(), "100"
	k.CreateTopic(t, topic, 1, map[string]*string{"segment.ms": &segment})
	client := newClient(t, k.Brokers(), kgo.DefaultProduceTopic(topic), kgo.TransactionalID(topic))
	s := open(t, kafka.Options{Connection: at(k.Brokers())})
	var want []string
	tick := time.NewTicker(150 * time.Millisecond)
	defer tick.Stop()
	for i := range 6 {
		must.OK(t, client.BeginTransaction())
		value := fmt.Sprint(i)
		must.OK(t, client.ProduceSync(sinktest.Deadline(t), &kgo.Record{Value: []byte(value)}).FirstErr())
		// The segment is old by now: the marker begins another.
		<-tick.C
		<-tick.C
		end := kgo.TransactionEndTry(i%3 != 0)
		must.OK(t, client.EndTransaction(sinktest.Deadline(t), end))
		if end == kgo.TryCommit {
			want = append(want, value)
		}
		if got, tp := stored(t, s, topic); !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v of %+v", got, want, tp)
		}
		<-tick.C
	}
}

// TestManyReadingsTakeNoMore reads many partitions side by side, each with a slow consumer.
func TestManyReadingsTakeNoMore(t *testing.T) {
	t.Parallel()
	const topic, partitions, all = "t", 200, 128 << 20
	c := fake(t, kfake.SeedTopics(partitions, topic))
	s := open(t, kafka.Options{Connection: at(c.ListenAddrs())})
	asked := make(map[int32]int)
	var mu sync.Mutex
	c.ControlKey(int16(kmsg.Fetch), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		mu.Lock()
		defer mu.Unlock()
		p := &r.(*kmsg.FetchRequest).Topics[0].Partitions[0]
		asked[p.Partition] = int(p.PartitionMaxBytes)
		return nil, nil, false
	})
	ctx, cancel := context.WithCancel(sinktest.Deadline(t))
	defer cancel()
	var reading sync.WaitGroup
	for i := range partitions {
		reading.Go(func() {
			span := sink.Span{TP: fmt.Sprintf("%s/%d", topic, i), To: sink.NoEnd}
			must.Fail(t, must.Err(s.Read(ctx, span, func(*sink.Stored) error { return nil })), context.Canceled)
		})
	}
	sinktest.Until(t, "the answers of all are small", func() bool {
		mu.Lock()
		defer mu.Unlock()
		sum := 0
		for _, n := range asked {
			sum += 2 * n
		}
		return len(asked) == partitions && sum <= all
	})
	cancel()
	reading.Wait()
}

func TestRead(t *testing.T) {
	t.Parallel()
	refuse := func(c *kfake.Cluster, err *kerr.Error) {
		c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: "t", Err: err, Count: -1})
	}
	nothing := func(*sink.Stored) error { return nil }
	t.Run("names the right that is missing", func(t *testing.T) {
		c, s := onTopic(t)
		sinktest.MustPublish(t, s, series("t", "k", 0, 20, 3))
		refuse(c, kerr.TopicAuthorizationFailed)
		_, err := s.Read(sinktest.Deadline(t), sink.Span{TP: "t/0", To: 20}, nothing)
		must.Fail(t, err, sink.ErrUnreadable, "grant READ on topic t, and DESCRIBE")
	})
	t.Run("gives up when that is wanted", func(t *testing.T) {
		c := fake(t, kfake.SeedTopics(1, "t"))
		s := openQuiet(t, kafka.Options{Connection: kafka.Connection{Brokers: c.ListenAddrs(), GiveUpAfter: 2 * time.Second}})
		sinktest.MustPublish(t, s, series("t", "k", 0, 20, 3))
		_, err := s.Read(sinktest.Deadline(t), sink.Span{TP: "t/0", To: 21}, nothing)
		must.Fail(t, err, "nothing more came within 2s though some is left")
		refuse(c, kerr.KafkaStorageError)
		if next, err := s.Read(sinktest.Deadline(t), sink.Span{TP: "t/0", To: 20}, nothing); next != 0 || err == nil || !strings.Contains(err.Error(), "Kafka Storage Error") {
			t.Error(next, err)
		}
	})
	for name, answer := range map[string]func(*kmsg.FetchResponse){
		"a throttled leader": func(r *kmsg.FetchResponse) { r.ThrottleMillis = 50 },
		"one whose remote storage is slow": func(r *kmsg.FetchResponse) {
			r.Topics = []kmsg.FetchResponseTopic{{Topic: "t", Partitions: []kmsg.FetchResponseTopicPartition{{HighWatermark: 20, LastStableOffset: 20}}}}
		},
	} {
		t.Run("an answer without messages does not end the read: "+name, func(t *testing.T) {
			c := fake(t, kfake.SeedTopics(1, "t"))
			s := openQuiet(t, kafka.Options{Connection: at(c.ListenAddrs())})
			sinktest.MustPublish(t, s, series("t", "k", 0, 20, 3))
			answered := 0
			c.ControlKey(int16(kmsg.Fetch), func(r kmsg.Request) (kmsg.Response, error, bool) {
				c.KeepControl()
				if answered++; answered > 3 {
					return nil, nil, false
				}
				a := r.ResponseKind().(*kmsg.FetchResponse)
				answer(a)
				return a, nil, true
			})
			n := 0
			if _, err := s.Read(sinktest.Deadline(t), sink.Span{TP: "t/0", To: 20}, func(*sink.Stored) error { n++; return nil }); err != nil || n != 20 {
				t.Error(n, err)
			}
		})
	}
	t.Run("partitions come by number", func(t *testing.T) {
		c := fake(t, kfake.SeedTopics(12, "t", "u"))
		s := open(t, kafka.Options{Connection: at(c.ListenAddrs())})
		sinktest.MustPublish(t, s, series("t", "k", 0, 400, 40))
		tps, err := s.TPs(sinktest.Deadline(t), []string{"u", "no topic", "t"})
		if err != nil || len(tps) != 24 || tps[23].Name != "t/11" || tps[2].Name != "u/2" {
			t.Errorf("%+v, %v", tps, err)
		}
	})
	t.Run("follows the leader", func(t *testing.T) {
		c := fake(t, kfake.SeedTopics(1, "t"))
		s := openQuiet(t, kafka.Options{Connection: at(c.ListenAddrs())})
		var sent []sink.Message
		for part := range slices.Chunk(series("t", "k", 0, 600, 3), 20) {
			sinktest.MustPublish(t, s, part)
			sent = append(sent, part...)
		}
		var got []string
		if _, err := s.Read(sinktest.Deadline(t), sink.Span{TP: "t/0", To: 600}, func(m *sink.Stored) error {
			if got = append(got, string(m.Header(sink.HeaderID))); len(got)%100 == 0 {
				if err := c.MoveTopicPartition("t", 0, int32(len(got)/100%3)); err != nil {
					t.Error(err)
				}
			}
			return nil
		}); err != nil || !slices.Equal(got, ids(sent)) {
			t.Errorf("%d messages, %v", len(got), err)
		}
	})
}
