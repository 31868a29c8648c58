package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"example.org/bridge/sink"
	"example.org/bridge/sink/kafka"
	"example.org/bridge/sink/sinktest"
	"example.org/bridge/tests/must"
)

var produceKey = []kmsg.Key{kmsg.Produce}

func TestTransientFaultsAreRetried(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err *kerr.Error
		at  string
	}{
		{kerr.NotLeaderForPartition, "t/0"},
		{kerr.LeaderNotAvailable, "t/0"},
		{kerr.NotEnoughReplicas, "t/0"},
		{kerr.NotEnoughReplicasAfterAppend, "t/0"},
		{kerr.RequestTimedOut, "t/0"},
		{kerr.CorruptMessage, "t/0"},
		{kerr.KafkaStorageError, "t/0"},
		{kerr.FencedLeaderEpoch, "t/0"},
		{kerr.UnknownServerError, "t/0"},
		{kerr.InvalidTimestamp, "t"},
		{kerr.UnknownTopicOrPartition, "t"},
		{kerr.TopicAuthorizationFailed, "t"},
		{kerr.ClusterAuthorizationFailed, "kafka"},
	} {
		t.Run(test.err.Message, func(t *testing.T) {
			c := fake(t, kfake.SeedTopics(1, "t"))
			var log faultLog
			var sessions atomic.Int64
			s := open(t, kafka.Options{Connection: at(c.ListenAddrs()), Fault: log.add, Session: func(string) { sessions.Add(1) }})
			sent := series("t", "before", 0, 10, 2)
			sinktest.MustPublish(t, s, sent)
			c.Fault(kfake.Fault{Keys: produceKey, Err: test.err, Count: 3})
			more := series("t", "after", 0, 10, 2)
			// Some are answered after the broker has appended them.
			for i, at := range sinktest.MustPublish(t, s, more).At {
				if at != (sink.At{Offset: uint64(10 + i), Known: true}) {
					t.Fatalf("message %d lies at %+v", i, at)
				}
			}
			if log.count() != 3 || log.at(test.at) == nil || sessions.Load() != 1 {
				t.Errorf("faults told: %v, want 3 at %s; %d sessions", log.faults, test.at, sessions.Load())
			}
			must.OK(t, s.Ready(sinktest.Deadline(t)))
			if n := compare(t, append(sent, more...), consume(t, "t", c.ListenAddrs())); n != 0 {
				t.Errorf("%d messages are repeated", n)
			}
		})
	}
}

// answers has produce requests answered by what judge says, with a throttle time: nothing, a code,
// or the end of the connection.
func answers(c *kfake.Cluster, judge func(*kmsg.RecordBatch) error) {
	c.ControlKey(int16(kmsg.Produce), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		req, batch := r.(*kmsg.ProduceRequest), new(kmsg.RecordBatch)
		asked := req.Topics[0].Partitions[0]
		err := errors.Join(batch.ReadFrom(asked.Records), judge(batch))
		code, answered := errors.AsType[*kerr.Error](err)
		if !answered {
			return nil, err, err != nil
		}
		res := req.ResponseKind().(*kmsg.ProduceResponse)
		res.ThrottleMillis = 3_600_000
		res.Topics = []kmsg.ProduceResponseTopic{{
			Topic: req.Topics[0].Topic, Partitions: []kmsg.ProduceResponseTopicPartition{{Partition: asked.Partition, ErrorCode: code.Code}},
		}}
		return res, nil, true
	})
}

// TestRecordsThatAreTooOld have waited for longer than the topic lets records be old.
func TestRecordsThatAreTooOld(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"", "bridge.old"} {
		c := fake(t, kfake.SeedTopics(1, "t"))
		answers(c, func(b *kmsg.RecordBatch) error {
			if time.Since(time.UnixMilli(b.FirstTimestamp)) > 30*time.Second {
				return kerr.InvalidTimestamp
			}
			return nil
		})
		// They are several batches of one transaction.
		var sent []sink.Message
		for i := range 10 {
			sent = append(sent, message("t", "old", i, 200_000))
			sent[i].Time = time.Now().Add(time.Duration(i-100) * time.Minute)
		}
		sinktest.MustPublish(t, open(t, kafka.Options{Connection: at(c.ListenAddrs()), TransactionalID: id}), sent)
	}
}

// TestWhatIsMadeAgain is of another epoch: an attempt before, which may be stored, does not answer
// for other messages.
func TestWhatIsMadeAgain(t *testing.T) {
	t.Parallel()
	c := fake(t, kfake.SeedTopics(1, "t"))
	epochs := make(chan int16, 3)
	answers(c, func(b *kmsg.RecordBatch) error {
		epochs <- b.ProducerEpoch
		return []error{kerr.RequestTimedOut, kerr.InvalidTimestamp, nil}[len(epochs)-1]
	})
	sinktest.MustPublish(t, open(t, kafka.Options{Connection: at(c.ListenAddrs())}), series("t", "again", 0, 10, 2))
	if first, second, again := <-epochs, <-epochs, <-epochs; first != second || again == first {
		t.Errorf("the epochs are %d, %d and %d", first, second, again)
	}
}

// TestAQuotaThatIsUsedUp is named where a broker takes no requests any more.
func TestAQuotaThatIsUsedUp(t *testing.T) {
	t.Parallel()
	c := fake(t, kfake.SeedTopics(1, "t"))
	var log faultLog
	s := open(t, kafka.Options{Connection: at(c.ListenAddrs()), Fault: log.add})
	var left atomic.Int64
	answers(c, func(*kmsg.RecordBatch) error {
		return []error{kerr.RequestTimedOut, io.EOF, nil}[min(2, left.Add(1)-1)]
	})
	sinktest.MustPublish(t, s, series("t", "quota", 0, 10, 2))
	must.Fail(t, log.at("kafka"), "producer_byte_rate")
}

func TestADuplicateSequenceCountsAsAcknowledged(t *testing.T) {
	c, s := onTopic(t)
	c.Fault(kfake.Fault{Keys: produceKey, Err: kerr.DuplicateSequenceNumber})
	out := sinktest.MustPublish(t, s, series("t", "k", 0, 5, 1))
	for i, at := range out.At {
		if at.Known {
			t.Errorf("message %d lies at %+v, want an unknown offset", i, at)
		}
	}
	for i, at := range sinktest.MustPublish(t, s, series("t", "k", 5, 5, 1)).At {
		if !at.Known {
			t.Errorf("message %d behind them lies at an unknown offset", i)
		}
	}
}

func TestOrderHoldsOverLeaderMoves(t *testing.T) {
	t.Parallel()
	const partitions, writers, rounds = 4, 4, 12
	c := fake(t, kfake.SeedTopics(partitions, "t"))
	s := openQuiet(t, kafka.Options{Connection: at(c.ListenAddrs())})
	sent := make([][]sink.Message, writers)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for round := range rounds {
				batch := series("t", fmt.Sprint("w", w), 50*round, 50, 5)
				if out, err := s.Publish(sinktest.Deadline(t), batch); err != nil || !out.AllAcked() {
					t.Errorf("%d acknowledged: %v", out.Acked(), err)
					return
				}
				sent[w] = append(sent[w], batch...)
				if err := c.MoveTopicPartition("t", int32(w), int32(round%3)); err != nil {
					t.Errorf("move: %v", err)
				}
			}
		})
	}
	wg.Wait()
	var all []sink.Message
	for _, batch := range sent {
		all = append(all, batch...)
	}
	t.Logf("%d repeats", compare(t, all, consume(t, "t", c.ListenAddrs())))
}

func TestALateCopyOfAnAbandonedBatchIsRefused(t *testing.T) {
	c, s := onTopic(t)
	sinktest.MustPublish(t, s, series("t", "before", 0, 1, 1))
	gate, arrived := make(chan struct{}), make(chan struct{})
	var first atomic.Bool
	c.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if !first.Swap(true) {
			close(arrived)
			c.SleepControl(func() { <-gate })
		}
		return nil, nil, false
	})
	ctx, cancel := context.WithCancelCause(sinktest.Deadline(t))
	result := sinktest.Publishing(ctx, s, series("t", "abandoned", 0, 1, 1))
	<-arrived
	stop := errors.New("stop")
	cancel(stop)
	must.Fail(t, <-result, stop)
	sinktest.MustPublish(t, s, series("t", "newer", 0, 1, 1))
	late := c.Fault(kfake.Fault{Keys: produceKey, Observe: true})
	close(gate)
	sinktest.MustPublish(t, s, series("t", "newest", 0, 1, 1))
	must.OK(t, late.Wait(sinktest.Deadline(t), 1))
	wantLog(t, c, "before+0-0 newer+0-0 newest+0-0")
}

// wantLog wants ids in this order in the one partition of topic t.
func wantLog(t *testing.T, c *kfake.Cluster, want string) {
	t.Helper()
	var order []string
	for _, r := range consume(t, "t", c.ListenAddrs()) {
		order = append(order, id(r))
	}
	if got := strings.Join(order, " "); got != want {
		t.Errorf("the log holds %s, want %s", got, want)
	}
}

func TestWhatFollowsAnAbandonedBatchIsNotTakenForIt(t *testing.T) {
	c, s := onTopic(t)
	sinktest.MustPublish(t, s, series("t", "before", 0, 1, 1))
	// The broker appends the batch and says that it has not.
	lies := c.Fault(kfake.Fault{Keys: produceKey, Err: kerr.RequestTimedOut, Count: -1})
	ctx, cancel := context.WithCancel(sinktest.Deadline(t))
	result := sinktest.Publishing(ctx, s, series("t", "abandoned", 0, 1, 1))
	must.OK(t, lies.Wait(sinktest.Deadline(t), 1))
	cancel()
	must.Fail(t, <-result, context.Canceled)
	lies.Remove()
	sinktest.MustPublish(t, s, series("t", "newer", 0, 1, 1))
	wantLog(t, c, "before+0-0 abandoned+0-0 newer+0-0")
}

// TestCallsShareABatch, and one that leaves takes nobody with it.
func TestCallsShareABatch(t *testing.T) {
	c, s := onTopic(t)
	sinktest.MustPublish(t, s, series("t", "before", 0, 1, 1))
	requests := c.Fault(kfake.Fault{Keys: produceKey, Observe: true, Count: -1})
	resume := stall(c)
	defer resume()
	const calls = 20
	ctx, leave := context.WithCancel(sinktest.Deadline(t))
	var done [calls]<-chan error
	for n := range calls {
		if n == 2 {
			ctx = sinktest.Deadline(t)
		}
		done[n] = sinktest.Publishing(ctx, s, series("t", fmt.Sprint("call", n), 0, 3, 1))
		sinktest.Until(t, "the call waits", func() bool { return kafka.Queued(s, "t", 0) == n+1 })
	}
	// The first one is in flight, the second one is not.
	leave()
	for n, ended := range done {
		if n == 2 {
			resume()
		}
		if err := <-ended; n < 2 && !errors.Is(err, context.Canceled) || n >= 2 && err != nil {
			t.Errorf("call %d: %v", n, err)
		}
	}
	if n := requests.Hits(); n > 2 {
		t.Errorf("%d requests for %d calls, want 2", n, calls)
	}
}

func TestCloseLeavesNoGoroutine(t *testing.T) {
	c := fake(t, kfake.SeedTopics(8, "t"))
	before := runtime.NumGoroutine()
	s := openQuiet(t, kafka.Options{Connection: at(c.ListenAddrs())})
	sinktest.MustPublish(t, s, series("t", "k", 0, 100, 20))
	resume := stall(c)
	done := sinktest.Publishing(sinktest.Deadline(t), s, series("t", "k", 100, 100, 20))
	sinktest.Until(t, "a batch is in flight", func() bool { return kafka.Queued(s, "t", 0) == 1 })
	must.OK(t, s.Close())
	must.Fail(t, <-done, sink.ErrClosed)
	resume()
	sinktest.Until(t, "goroutines end", func() bool { return runtime.NumGoroutine() <= before })
}
