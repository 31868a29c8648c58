package kafka_test

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"example.org/bridge/sink"
	"example.org/bridge/sink/kafka"
	"example.org/bridge/sink/sinktest"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testenv"
)

func at(brokers []string) kafka.Connection { return kafka.Connection{Brokers: brokers} }

func TestMain(m *testing.M) { testenv.Main(m) }

func fake(t testing.TB, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c := must.Get(kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(3)}, opts...)...))(t)
	t.Cleanup(c.Close)
	return c
}

func open(t testing.TB, opts kafka.Options) *kafka.Sink {
	t.Helper()
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.NewTextHandler(t.Output(), nil)))
	s := must.Get(kafka.Open(opts))(t)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func openQuiet(t testing.TB, opts kafka.Options) *kafka.Sink {
	opts.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	return open(t, opts)
}

func message(topic, key string, n, size int) sink.Message {
	body := fmt.Appendf(nil, `{"key":%q,"n":%d,"pad":"`, key, n)
	body = append(body, bytes.Repeat([]byte("x"), max(0, size-len(body)-2))...)
	return sink.Message{
		Destination: topic, Key: []byte(key), Value: append(body, `"}`...), ID: fmt.Sprintf("%s-%d", key, n),
		Type: "TestAddedEvent", Version: "1.0.0", Domain: "bridge", Stream: "test", Shard: "db.test", RowID: uint64(n), Origin: sink.FromTail,
		Time:  time.Now().Truncate(time.Millisecond),
		State: sink.State{Epoch: 1_760_000_000_000, Seq: uint64(n), Index: uint32(n), Hash: 1 << 31},
	}
}

// series makes messages from..from+n-1 over keys.
func series(topic, name string, from, n, keys int) []sink.Message {
	batch := make([]sink.Message, n)
	for i := range batch {
		batch[i] = message(topic, fmt.Sprintf("%s+%d", name, i%keys), from+i, 200)
	}
	return batch
}

// onTopic is a cluster with a topic t of one partition, and a sink.
func onTopic(t testing.TB) (*kfake.Cluster, *kafka.Sink) {
	t.Helper()
	c := fake(t, kfake.SeedTopics(1, "t"))
	return c, open(t, kafka.Options{Connection: at(c.ListenAddrs())})
}

// consume reads topic from its beginning to its present end, partition by partition, with another
// client.
func consume(t testing.TB, topic string, brokers []string, opts ...kgo.Opt) []*kgo.Record {
	t.Helper()
	ctx := sinktest.Deadline(t)
	s := openQuiet(t, kafka.Options{Connection: at(brokers)})
	tps, err := s.TPs(ctx, []string{topic})
	must.OK(t, errors.Join(err, s.Close()))
	missing := make(map[string]int64)
	for _, tp := range tps {
		if tp.End > 0 {
			missing[tp.Name] = int64(tp.End)
		}
	}
	client := must.Get(kgo.NewClient(append(opts, kgo.SeedBrokers(brokers...), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(50*time.Millisecond))...))(t)
	defer client.Close()
	var records []*kgo.Record
	for len(missing) > 0 {
		fetches := client.PollFetches(ctx)
		must.OK(t, fetches.Err())
		for r := range fetches.RecordsAll() {
			records = append(records, r)
			if tp := fmt.Sprint(topic, "/", r.Partition); r.Offset+1 >= missing[tp] {
				delete(missing, tp)
			}
		}
	}
	return records
}

func id(r *kgo.Record) string {
	for _, h := range r.Headers {
		if h.Key == sink.HeaderID {
			return string(h.Value)
		}
	}
	return ""
}

// compare fails the test unless records are what was sent, and returns how many are repeats.
func compare(t testing.TB, sent []sink.Message, records []*kgo.Record) (repeats int) {
	t.Helper()
	return sinktest.Compare(t, sent, recordsOf(records), true)
}

func recordsOf(all []*kgo.Record) (records []sinktest.Record) {
	for _, r := range all {
		headers := make(map[string]string)
		for _, h := range r.Headers {
			headers[h.Key] = string(h.Value)
		}
		records = append(records, sinktest.Record{ID: headers[sink.HeaderID], Key: r.Key, Value: r.Value, Headers: headers})
	}
	return records
}

type faultLog struct {
	mu     sync.Mutex
	faults map[string]error
	n      int
}

func (l *faultLog) add(tp string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.faults == nil {
		l.faults = make(map[string]error)
	}
	l.faults[tp] = err
	l.n++
}

func (l *faultLog) at(tp string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.faults[tp]
}

func (l *faultLog) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n
}
