package kafka_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"example.org/bridge/sink"
	"example.org/bridge/sink/kafka"
	"example.org/bridge/sink/sinktest"
	"example.org/bridge/tests/faulty/failpoint"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testenv"
)

// initialise sends what a process sends that takes over, as somebody else. An even limit, in ms,
// says that it is confirmed.
func initialise(t testing.TB, k *testenv.KafkaServer, id string, limit int32) {
	t.Helper()
	client := newClient(t, k.Brokers())
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionalID, req.TransactionTimeoutMillis = &id, limit
	sinktest.Until(t, "the coordinator initialises", func() bool {
		res, err := req.RequestWith(sinktest.Deadline(t), client)
		return err == nil && kerr.ErrorForCode(res.ErrorCode) == nil
	})
}

// TestALateRequestOfADeadProcess, which was to take over before this one did, and arrives while no
// transaction is open: this process goes on.
func TestALateRequestOfADeadProcess(t *testing.T) {
	t.Parallel()
	k := testenv.Kafka(t)
	topic := newTopic()
	k.CreateTopic(t, topic, 1, nil)
	opts := transactional(t, k.Brokers())
	s := open(t, opts)
	kafka.SetClaimWithin(s, 500*time.Millisecond)
	sinktest.MustFence(t, s)
	var sent []sink.Message
	for n := range 3 {
		batch := series(topic, "k", n*10, 10, 3)
		sent = append(sent, batch...)
		sinktest.Deliver(t, s, []string{topic}, batch)
		initialise(t, k, opts.TransactionalID, 60_001)
	}
	batch := series(topic, "k", 30, 10, 3)
	must.Fail(t, must.Err(s.Publish(sinktest.Deadline(t), batch)), sink.ErrUnknownOutcome)
	sinktest.Deliver(t, s, []string{topic}, batch)
	once(t, topic, k.Brokers(), append(sent, batch...))
	initialise(t, k, opts.TransactionalID, 60_002)
	must.Fail(t, must.Err(s.Publish(sinktest.Deadline(t), series(topic, "z", 0, 3, 3))), sink.ErrUnknownOutcome)
	must.Fail(t, s.Fence(sinktest.Deadline(t)), sink.ErrFenced)
}

// atFirstSteps runs a test at each of the first steps of a transaction, with a sink, a topic of two
// partitions and a transactional id of its own.
func atFirstSteps(t *testing.T, test func(t *testing.T, k *testenv.KafkaServer, s *kafka.Sink, topic, id string, step failpoint.Point)) {
	t.Parallel()
	k := testenv.Kafka(t)
	for _, step := range sinktest.Steps[:3] {
		t.Run(string(step), func(t *testing.T) {
			t.Parallel()
			topic, opts := newTopic(), transactional(t, k.Brokers())
			k.CreateTopic(t, topic, 2, nil)
			test(t, k, open(t, opts), topic, opts.TransactionalID, step)
		})
	}
}

// TestCloseEndsATransaction that is open, so that nobody waits for its time limit.
func TestCloseEndsATransaction(t *testing.T) {
	atFirstSteps(t, func(t *testing.T, k *testenv.KafkaServer, s *kafka.Sink, topic, id string, step failpoint.Point) {
		kafka.SetAbortWithin(s, time.Minute)
		sinktest.MustFence(t, s)
		before := series(topic, "before", 0, 10, 3)
		sinktest.MustPublish(t, s, before)
		closed := make(chan error, 1)
		var once sync.Once
		kafka.OnStep(s, func(at failpoint.Point) {
			if at == step {
				once.Do(func() {
					go func() { closed <- s.Close() }()
					<-kafka.Closing(s)
				})
			}
		})
		must.Fail(t, must.Err(s.Publish(sinktest.Deadline(t), series(topic, "k", 0, 10, 3))), sink.ErrClosed)
		must.OK(t, <-closed)
		if state := stateOf(t, k, id); state != "Empty" && state != "CompleteAbort" && state != "CompleteCommit" {
			t.Errorf("the transaction is %s", state)
		}
	})
}

// TestALateBatchBehindAnAbort: a batch without an answer, whose transaction was aborted, arrives in
// the next one of its partition, before the batch of that. It is refused.
func TestALateBatchBehindAnAbort(t *testing.T) {
	t.Parallel()
	k := testenv.StartKafka(t, testenv.KafkaOptions{Proxied: true, Lasting: true})
	topic := newTopic()
	k.CreateTopic(t, topic, 1, nil)
	opts := transactional(t, k.ProxiedBrokers())
	opts.StalledAfter = 500 * time.Millisecond
	s := fenced(t, opts)
	sent := series(topic, "before", 0, 5, 2)
	sinktest.MustPublish(t, s, sent)
	k.Proxy().Block(func(data []byte) bool { return bytes.Contains(data, []byte("late+")) })
	ctx, leave := context.WithCancel(sinktest.Deadline(t))
	left := sinktest.Publishing(ctx, s, series(topic, "late", 0, 5, 2))
	sinktest.Until(t, "the batch is held", func() bool { return k.Proxy().Blocked() > 0 })
	leave()
	if err := <-left; err == nil {
		t.Error("a batch is acknowledged that the broker does not have")
	}
	k.Proxy().Pass()
	reached, resume := hangAt(s, failpoint.TransactionAdded)
	next := series(topic, "next", 0, 5, 2)
	done := sinktest.Publishing(sinktest.Deadline(t), s, next)
	<-reached
	end := func() uint64 {
		tps, err := s.TPs(sinktest.Deadline(t), []string{topic})
		if err != nil || len(tps) != 1 {
			t.Fatalf("%+v, %v", tps, err)
		}
		return tps[0].End
	}
	before, held := end(), time.Now()
	k.Proxy().Release()
	// A broker that takes it shows that by its end; that it takes nothing nothing shows.
	sinktest.Until(t, "the late batch has had its time", func() bool { return end() > before || time.Since(held) > time.Second })
	resume()
	must.OK(t, <-done)
	once(t, topic, k.Brokers(), append(sent, next...))
}

// TestATopicThatIsDeletedUnderWay: a batch for it waits until it is there again, and those for
// others go on.
func TestATopicThatIsDeletedUnderWay(t *testing.T) {
	t.Parallel()
	k := testenv.Kafka(t)
	gone, there := newTopic(), newTopic()
	k.CreateTopic(t, gone, 1, nil)
	k.CreateTopic(t, there, 1, nil)
	s := fenced(t, transactional(t, k.Brokers()))
	sent := series(there, "before", 0, 5, 2)
	sinktest.MustPublish(t, s, append(series(gone, "before", 0, 5, 2), sent...))
	k.DeleteTopic(t, gone)
	waits := append(series(gone, "waits", 0, 5, 2), series(there, "waits", 5, 5, 2)...)
	done := sinktest.Publishing(sinktest.Deadline(t), s, waits)
	sinktest.Until(t, "the topic is said to be missing", func() bool {
		err := s.Ready(sinktest.Deadline(t))
		return err != nil && strings.Contains(err.Error(), gone)
	})
	for n := range 5 {
		batch := series(there, "others", n*5, 5, 2)
		sinktest.MustPublish(t, s, batch)
		sent = append(sent, batch...)
	}
	select {
	case <-done:
		t.Error("a batch is acknowledged though one of its topics is missing")
	default:
	}
	k.CreateTopic(t, gone, 1, nil)
	must.OK(t, <-done)
	once(t, gone, k.Brokers(), waits[:5])
	once(t, there, k.Brokers(), append(sent, waits[5:]...))
}

func fenced(t testing.TB, opts kafka.Options) *kafka.Sink {
	t.Helper()
	s := open(t, opts)
	sinktest.MustFence(t, s)
	return s
}

// readBack returns the ids that catch-up would find: up to the ends that the leaders have now.
func readBack(t testing.TB, s *kafka.Sink, topic string) map[string]bool {
	t.Helper()
	return sinktest.ReadBack(sinktest.Deadline(t), t, s, []string{topic})
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
	atFirstSteps(t, func(t *testing.T, k *testenv.KafkaServer, s *kafka.Sink, topic, id string, step failpoint.Point) {
		kafka.SetTransactionTimeout(s, 3_000)
		batch, result := series(topic, "k", 0, 20, 5), make(chan error, 1)
		var resume func()
		for tries := 0; ; tries++ {
			sinktest.MustFence(t, s)
			var reached <-chan struct{}
			reached, resume = hangAt(s, step)
			go func() {
				_, err := s.Publish(sinktest.Deadline(t), batch)
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
		sinktest.Until(t, "the coordinator has aborted", func() bool { return stateOf(t, k, id) == "CompleteAbort" })
		resume()
		must.Fail(t, <-result, sink.ErrUnknownOutcome)
		sinktest.MustFence(t, s)
		left := sinktest.Without(batch, readBack(t, s, topic))
		if len(left) != len(batch) {
			t.Errorf("%d of %d are left", len(left), len(batch))
		}
		sinktest.Deliver(t, s, []string{topic}, left)
		once(t, topic, k.Brokers(), batch)
	})
}

func stateOf(t testing.TB, k *testenv.KafkaServer, id string) string {
	t.Helper()
	client := newClient(t, k.Brokers())
	req := kmsg.NewPtrDescribeTransactionsRequest()
	req.TransactionalIDs = []string{id}
	res := must.Get(req.RequestWith(sinktest.Deadline(t), client))(t)
	return res.TransactionStates[0].State
}

// TestAForeignTransaction holds back what is behind it, until it ends.
func TestAForeignTransaction(t *testing.T) {
	t.Parallel()
	k := testenv.Kafka(t)
	topic := newTopic()
	k.CreateTopic(t, topic, 1, nil)
	foreign := newClient(t, k.Brokers(), kgo.TransactionalID("somebody"), kgo.TransactionTimeout(5*time.Minute), kgo.DefaultProduceTopic(topic))
	must.OK(t, foreign.BeginTransaction())
	must.OK(t, foreign.ProduceSync(sinktest.Deadline(t), kgo.StringRecord("theirs")).FirstErr())
	var log faultLog
	opts := transactional(t, k.Brokers())
	opts.Fault = log.add
	s := fenced(t, opts)
	sent := series(topic, "k", 0, 20, 5)
	sinktest.MustPublish(t, s, sent)
	found := make(chan map[string]bool, 1)
	go func() { found <- readBack(t, s, topic) }()
	sinktest.Until(t, "the open transaction is reported", func() bool {
		err := log.at(topic + "/0")
		return err != nil && strings.Contains(err.Error(), "kafka-transactions.sh find-hanging")
	})
	sinktest.Until(t, "readiness says so", func() bool { return errors.Is(s.Ready(sinktest.Deadline(t)), sink.ErrHeldUp) })
	select {
	case <-found:
		t.Error("catch-up does not wait for the end of the transaction")
	default:
	}
	must.OK(t, foreign.EndTransaction(context.Background(), kgo.TryAbort))
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
			sinktest.MustFence(t, s)
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
					sinktest.MustPublish(t, s, batch)
					others = append(others, batch...)
				}
			})
			for left := bad; len(left) > 0; {
				out, err := s.Publish(sinktest.Deadline(t), left)
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
