package kafka_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"example.org/bridge/sink"
	"example.org/bridge/sink/kafka"
	"example.org/bridge/sink/sinktest"
	"example.org/bridge/tests/faulty/failpoint"
	"example.org/bridge/tests/testenv"
)

// mustFence fences, and fails the test otherwise.
func mustFence(t testing.TB, s *kafka.Sink) {
	t.Helper()
	if err := s.Fence(deadline(t)); err != nil {
		t.Fatal(err)
	}
}

// fenced returns a sink that has taken over.
func fenced(t testing.TB, opts kafka.Options) *kafka.Sink {
	t.Helper()
	s := open(t, opts)
	mustFence(t, s)
	return s
}

// readBack returns the ids that catch-up would find: up to the ends that the leaders have now.
func readBack(t testing.TB, s *kafka.Sink, topic string) map[string]bool {
	t.Helper()
	return sinktest.ReadBack(deadline(t), t, s, []string{topic})
}

// once fails the test unless a read_committed consumer sees each message once and in order.
func once(t testing.TB, topic string, brokers []string, sent []sink.Message) {
	t.Helper()
	if n := compare(t, sent, committed(t, topic, brokers)); n > 0 {
		t.Errorf("%d messages are there twice", n)
	}
}

// hangAt has a sink hang at a step of its next transaction until resume is called.
func hangAt(s *kafka.Sink, step failpoint.Point) (reached <-chan struct{}, resume func()) {
	return sinktest.HangAt(step, func(hook func(failpoint.Point)) { kafka.OnStep(s, hook) })
}

// TestATransactionOverItsTime is aborted by the coordinator; its process goes on.
func TestATransactionOverItsTime(t *testing.T) {
	t.Parallel()
	k := testenv.Kafka(t)
	for _, step := range sinktest.Steps[:3] {
		t.Run(string(step), func(t *testing.T) {
			t.Parallel()
			topic := newTopic()
			k.CreateTopic(t, topic, 2, nil)
			opts := transactional(t, k.Brokers())
			s := open(t, opts)
			kafka.SetTransactionTimeout(s, 3_000)
			batch, result := series(topic, "k", 0, 20, 5), make(chan error, 1)
			var resume func()
			for tries := 0; ; tries++ {
				mustFence(t, s)
				var reached <-chan struct{}
				reached, resume = hangAt(s, step)
				go func() {
					_, err := s.Publish(deadline(t), batch)
					result <- err
				}()
				select {
				case <-reached:
				case err := <-result:
					// On a slow machine the time is over before the step.
					if !errors.Is(err, sink.ErrUnknownOutcome) || tries == 20 {
						t.Fatalf("the batch ends with %v", err)
					}
					continue
				}
				break
			}
			until(t, "the coordinator has aborted", func() bool { return stateOf(t, k, opts.TransactionalID) == "CompleteAbort" })
			resume()
			if err := <-result; !errors.Is(err, sink.ErrUnknownOutcome) {
				t.Fatalf("the batch ends with %v", err)
			}
			mustFence(t, s)
			left := sinktest.Without(batch, readBack(t, s, topic))
			if len(left) != len(batch) {
				t.Errorf("%d of %d are left", len(left), len(batch))
			}
			sinktest.Deliver(t, s, []string{topic}, left)
			once(t, topic, k.Brokers(), batch)
		})
	}
}

// stateOf returns the state of a transactional id.
func stateOf(t testing.TB, k *testenv.KafkaServer, id string) string {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(k.Brokers()...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	req := kmsg.NewPtrDescribeTransactionsRequest()
	req.TransactionalIDs = []string{id}
	res, err := req.RequestWith(deadline(t), client)
	if err != nil {
		t.Fatal(err)
	}
	return res.TransactionStates[0].State
}

// TestAForeignTransaction holds back what is behind it, until it ends.
func TestAForeignTransaction(t *testing.T) {
	t.Parallel()
	k := testenv.Kafka(t)
	topic := newTopic()
	k.CreateTopic(t, topic, 1, nil)
	foreign, err := kgo.NewClient(kgo.SeedBrokers(k.Brokers()...), kgo.TransactionalID("somebody"),
		kgo.TransactionTimeout(5*time.Minute), kgo.DefaultProduceTopic(topic))
	if err != nil {
		t.Fatal(err)
	}
	defer foreign.Close()
	if err := foreign.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := foreign.ProduceSync(deadline(t), kgo.StringRecord("theirs")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	var log faultLog
	opts := transactional(t, k.Brokers())
	opts.Fault = log.add
	s := fenced(t, opts)
	sent := series(topic, "k", 0, 20, 5)
	publish(t, s, sent)
	found := make(chan map[string]bool, 1)
	go func() { found <- readBack(t, s, topic) }()
	until(t, "the open transaction is reported", func() bool {
		err := log.at(topic + "/0")
		return err != nil && strings.Contains(err.Error(), "kafka-transactions.sh find-hanging")
	})
	until(t, "readiness says so", func() bool { return errors.Is(s.Ready(deadline(t)), sink.ErrHeldUp) })
	select {
	case <-found:
		t.Error("catch-up does not wait for the end of the transaction")
	default:
	}
	if err := foreign.EndTransaction(context.Background(), kgo.TryAbort); err != nil {
		t.Fatal(err)
	}
	if got := <-found; len(got) != len(sent) {
		t.Errorf("%d of %d messages were found", len(got), len(sent))
	}
	once(t, topic, k.Brokers(), sent)
}

// TestARefusedRecord has a batch with many rows that the bus refuses, which are replaced as a shard
// does: it is stored once, in a transaction not before all are, and those of others pass.
func TestARefusedRecord(t *testing.T) {
	t.Parallel()
	k := testenv.Kafka(t)
	for name, opts := range map[string]kafka.Options{"at least once": {Connection: at(k.Brokers())}, "exactly once": transactional(t, k.Brokers())} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			topic, limit := newTopic(), "20000"
			k.CreateTopic(t, topic, 2, map[string]*string{"max.message.bytes": &limit})
			s := openQuiet(t, opts)
			mustFence(t, s)
			bad := series(topic, "bad", 0, 60, 5)
			const rows = 12
			for i := range rows {
				bad[i*2] = message(topic, string(bad[i*2].Key), i*2, 30_000)
			}
			var stop atomic.Bool
			var others []sink.Message
			var writer sync.WaitGroup
			writer.Go(func() {
				for !stop.Load() {
					batch := series(topic, "good", len(others), 10, 3)
					publish(t, s, batch)
					others = append(others, batch...)
				}
			})
			for left := bad; len(left) > 0; {
				out, err := s.Publish(deadline(t), left)
				if err != nil || len(out.Rejected) == 0 && !out.AllAcked() || opts.TransactionalID != "" && out.Acked() > 0 && len(out.Rejected) > 0 {
					t.Fatalf("%d acknowledged, rejected %v: %v", out.Acked(), out.Rejected, err)
				}
				for _, r := range out.Rejected {
					if !strings.Contains(r.Reason, "the record has 30") || !strings.Contains(r.Reason, "max.message.bytes") {
						t.Errorf("row %d: %s", r.Index, r.Reason)
					}
					row := int(left[r.Index].RowID)
					bad[row] = message(topic, string(bad[row].Key), row, 200)
					left[r.Index] = bad[row]
				}
				var pending []sink.Message
				for i, status := range out.Status {
					if status != sink.Acked {
						pending = append(pending, left[i])
					}
				}
				left = pending
			}
			stop.Store(true)
			writer.Wait()
			// In transactions every second round takes a batch of others with it.
			if n := len(others) / 10; n < rows/5 {
				t.Errorf("%d other batches, while one had %d refused rows", n, rows)
			}
			once(t, topic, k.Brokers(), append(bad, others...))
		})
	}
}
