package kafka_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"example.org/bridge/sink"
	"example.org/bridge/sink/kafka"
	"example.org/bridge/sink/sinktest"
	"example.org/bridge/tests/faulty/failpoint"
	"example.org/bridge/tests/testenv"
)

// initialise sends what a process sends that takes over, as somebody else. An even limit, in ms,
// says that it is confirmed.
func initialise(t testing.TB, k *testenv.KafkaServer, id string, limit int32) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(k.Brokers()...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionalID, req.TransactionTimeoutMillis = &id, limit
	until(t, "the coordinator initialises", func() bool {
		res, err := req.RequestWith(deadline(t), client)
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
	mustFence(t, s)
	var sent []sink.Message
	for n := range 3 {
		batch := series(topic, "k", n*10, 10, 3)
		sent = append(sent, batch...)
		sinktest.Deliver(t, s, []string{topic}, batch)
		initialise(t, k, opts.TransactionalID, 60_001)
	}
	batch := series(topic, "k", 30, 10, 3)
	if _, err := s.Publish(deadline(t), batch); !errors.Is(err, sink.ErrUnknownOutcome) {
		t.Errorf("the batch behind the request ends with %v", err)
	}
	sinktest.Deliver(t, s, []string{topic}, batch)
	once(t, topic, k.Brokers(), append(sent, batch...))
	initialise(t, k, opts.TransactionalID, 60_002)
	if _, err := s.Publish(deadline(t), series(topic, "z", 0, 3, 3)); !errors.Is(err, sink.ErrUnknownOutcome) {
		t.Errorf("the batch behind a takeover ends with %v", err)
	}
	if err := s.Fence(deadline(t)); !errors.Is(err, sink.ErrFenced) {
		t.Errorf("a process that another one has taken over from fences with %v", err)
	}
}

// TestCloseEndsATransaction that is open, so that nobody waits for its time limit.
func TestCloseEndsATransaction(t *testing.T) {
	t.Parallel()
	k := testenv.Kafka(t)
	for _, step := range sinktest.Steps[:3] {
		t.Run(string(step), func(t *testing.T) {
			t.Parallel()
			topic := newTopic()
			k.CreateTopic(t, topic, 2, nil)
			opts := transactional(t, k.Brokers())
			s := open(t, opts)
			kafka.SetAbortWithin(s, time.Minute)
			mustFence(t, s)
			before := series(topic, "before", 0, 10, 3)
			publish(t, s, before)
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
			if _, err := s.Publish(deadline(t), series(topic, "k", 0, 10, 3)); !errors.Is(err, sink.ErrClosed) {
				t.Errorf("the batch ends with %v", err)
			}
			if err := <-closed; err != nil {
				t.Error(err)
			}
			if state := stateOf(t, k, opts.TransactionalID); state != "Empty" && state != "CompleteAbort" && state != "CompleteCommit" {
				t.Errorf("the transaction is %s", state)
			}
		})
	}
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
	publish(t, s, sent)
	k.Proxy().Block(func(data []byte) bool { return bytes.Contains(data, []byte("late+")) })
	ctx, leave := context.WithCancel(deadline(t))
	left := sinktest.Publishing(ctx, s, series(topic, "late", 0, 5, 2))
	until(t, "the batch is held", func() bool { return k.Proxy().Blocked() > 0 })
	leave()
	if err := <-left; err == nil {
		t.Error("a batch is acknowledged that the broker does not have")
	}
	k.Proxy().Pass()
	reached, resume := hangAt(s, failpoint.TransactionAdded)
	next := series(topic, "next", 0, 5, 2)
	done := sinktest.Publishing(deadline(t), s, next)
	<-reached
	end := func() uint64 {
		tps, err := s.TPs(deadline(t), []string{topic})
		if err != nil || len(tps) != 1 {
			t.Fatalf("%+v, %v", tps, err)
		}
		return tps[0].End
	}
	before, held := end(), time.Now()
	k.Proxy().Release()
	// A broker that takes it shows that by its end; that it takes nothing nothing shows.
	until(t, "the late batch has had its time", func() bool { return end() > before || time.Since(held) > time.Second })
	resume()
	if err := <-done; err != nil {
		t.Error(err)
	}
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
	publish(t, s, append(series(gone, "before", 0, 5, 2), sent...))
	k.DeleteTopic(t, gone)
	waits := append(series(gone, "waits", 0, 5, 2), series(there, "waits", 5, 5, 2)...)
	done := sinktest.Publishing(deadline(t), s, waits)
	until(t, "the topic is said to be missing", func() bool {
		err := s.Ready(deadline(t))
		return err != nil && strings.Contains(err.Error(), gone)
	})
	for n := range 5 {
		batch := series(there, "others", n*5, 5, 2)
		publish(t, s, batch)
		sent = append(sent, batch...)
	}
	select {
	case <-done:
		t.Error("a batch is acknowledged though one of its topics is missing")
	default:
	}
	k.CreateTopic(t, gone, 1, nil)
	if err := <-done; err != nil {
		t.Error(err)
	}
	once(t, gone, k.Brokers(), waits[:5])
	once(t, there, k.Brokers(), append(sent, waits[5:]...))
}
