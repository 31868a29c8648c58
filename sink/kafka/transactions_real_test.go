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
	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
)

// steps are those of a transaction, in their order.
var steps = []failpoint.Point{failpoint.TransactionAdded, failpoint.TransactionSent, failpoint.TransactionEnds, failpoint.TransactionEnded}

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
func once(t testing.TB, k *testenv.KafkaServer, topic string, sent []sink.Message) {
	t.Helper()
	if n := compare(t, sent, committed(t, topic, k.Brokers())); n > 0 {
		t.Errorf("%d messages are there twice", n)
	}
}

// hangAt has a sink hang at a step of its next transaction until resume is called.
func hangAt(s *kafka.Sink, step failpoint.Point) (reached <-chan struct{}, resume func()) {
	return sinktest.HangAt(step, func(hook func(failpoint.Point)) { kafka.OnStep(s, hook) })
}

// TestAZombieAtEachStep stops a process at each step of a transaction, lets a successor take over,
// read back and publish the rest, and lets the zombie go on.
func TestAZombieAtEachStep(t *testing.T) {
	t.Parallel()
	k := testenv.Kafka(t)
	for _, step := range steps {
		for _, quiet := range []bool{false, true} {
			name := string(step)
			if quiet {
				name += ", its successor has not published yet"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				topic := newTopic()
				k.CreateTopic(t, topic, 3, nil)
				opts := transactional(t, k.Brokers())
				zombie, successor := open(t, opts), open(t, opts)
				before, batch, after := series(topic, "k", 0, 100, 9), series(topic, "k", 100, 100, 9), series(topic, "k", 200, 100, 9)
				mustFence(t, zombie)
				publish(t, zombie, before)
				reached, resume := hangAt(zombie, step)
				defer resume()
				result := sinktest.Publishing(deadline(t), zombie, batch)
				<-reached
				mustFence(t, successor)
				left := sinktest.Without(batch, readBack(t, successor, topic))
				if stored := len(batch) - len(left); stored != 0 && step != failpoint.TransactionEnded {
					t.Errorf("%d messages of a transaction are there before its end", stored)
				}
				if !quiet && len(left) > 0 {
					publish(t, successor, left)
				}
				resume()
				err := <-result
				if step == failpoint.TransactionEnded {
					if err != nil {
						t.Errorf("a batch that was committed ends with %v", err)
					}
				} else if !errors.Is(err, sink.ErrUnknownOutcome) && !errors.Is(err, sink.ErrFenced) {
					t.Errorf("the zombie's batch ends with %v", err)
				}
				if step != failpoint.TransactionEnded {
					if err := zombie.Fence(deadline(t)); !errors.Is(err, sink.ErrFenced) {
						t.Errorf("the zombie fences with %v", err)
					}
				}
				for range 3 {
					if _, err := zombie.Publish(deadline(t), series(topic, "z", 0, 3, 3)); !errors.Is(err, sink.ErrFenced) && !errors.Is(err, sink.ErrUnknownOutcome) {
						t.Errorf("the zombie publishes with %v", err)
					}
				}
				if quiet && len(left) > 0 {
					publish(t, successor, left)
				}
				publish(t, successor, after)
				sent := append(append(before, batch...), after...)
				once(t, k, topic, sent)
			})
		}
	}
}

// harmed delivers batches while harm is done at a step of every few transactions: the outcome of
// each is found out, and each message is there once.
func harmed(t *testing.T, k *testenv.KafkaServer, brokers []string, step failpoint.Point, batches int, every int32, harm func(s *kafka.Sink)) {
	t.Helper()
	topic := newTopic()
	k.CreateTopic(t, topic, 3, nil)
	s := fenced(t, transactional(t, brokers))
	var passes atomic.Int32
	kafka.OnStep(s, func(at failpoint.Point) {
		if at == step && passes.Add(1)%every == 1 {
			harm(s)
		}
	})
	var sent []sink.Message
	for n := range batches {
		batch := series(topic, "k", n*10, 10, 4)
		sent = append(sent, batch...)
		sinktest.Deliver(t, s, []string{topic}, batch)
	}
	once(t, k, topic, sent)
}

// TestACutAtEachStep drops the connections at each step of transactions.
func TestACutAtEachStep(t *testing.T) {
	t.Parallel()
	k := testenv.Kafka(t)
	for _, step := range steps {
		t.Run(string(step), func(t *testing.T) { harmed(t, k, k.Brokers(), step, 12, 3, kafka.Cut) })
	}
}

// TestAnswersThatAreLost has the brokers take what is sent and loses the answers, at each step.
func TestAnswersThatAreLost(t *testing.T) {
	t.Parallel()
	k := testenv.StartKafka(t, testenv.KafkaOptions{Proxied: true, Lasting: true})
	for _, step := range steps[:3] {
		t.Run(string(step), func(t *testing.T) {
			harmed(t, k, k.ProxiedBrokers(), step, 4, 4, func(s *kafka.Sink) {
				k.Proxy().DropAnswers()
				time.AfterFunc(300*time.Millisecond, func() {
					kafka.Cut(s)
					k.Proxy().Heal()
				})
			})
		})
	}
}

// TestABrokerIsKilledInTransactions, at each step of them.
func TestABrokerIsKilledInTransactions(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	k := testenv.StartKafka(t, testenv.KafkaOptions{})
	for _, step := range steps {
		var back sync.WaitGroup
		harmed(t, k, k.Brokers(), step, 4, 1000, func(*kafka.Sink) {
			k.Kill()
			back.Go(func() { k.Start(t) })
		})
		back.Wait()
	}
}

// TestATransactionOverItsTime is aborted by the coordinator; its process goes on.
func TestATransactionOverItsTime(t *testing.T) {
	t.Parallel()
	k := testenv.Kafka(t)
	for _, step := range steps[:3] {
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
			once(t, k, topic, batch)
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
	once(t, k, topic, sent)
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
			once(t, k, topic, append(bad, others...))
		})
	}
}
