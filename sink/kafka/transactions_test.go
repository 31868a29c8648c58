package kafka_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"example.org/bridge/sink"
	"example.org/bridge/sink/kafka"
	"example.org/bridge/sink/sinktest"
	"example.org/bridge/tests/faulty/failpoint"
	"example.org/bridge/tests/must"
)

// committed reads what a read_committed consumer sees of a topic.
func committed(t testing.TB, topic string, brokers []string) []*kgo.Record {
	t.Helper()
	// A partition ends with a marker: without it the end would not show.
	all := consume(t, topic, brokers, kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
	return slices.DeleteFunc(all, func(r *kgo.Record) bool { return r.Attrs.IsControl() })
}

func transactional(t testing.TB, brokers []string) kafka.Options {
	return kafka.Options{Connection: at(brokers), TransactionalID: "bridge." + t.Name()}
}

// TestAHungLeader takes produce requests and answers none: what goes to the others waits for it
// only as long as StalledAfter says, and is not taken for unanswered with it.
func TestAHungLeader(t *testing.T) {
	t.Parallel()
	c := fake(t, kfake.SeedTopics(1, "hung", "healthy"))
	opts := transactional(t, c.ListenAddrs())
	opts.StalledAfter = time.Second
	s := fenced(t, opts)
	hung := c.LeaderFor("hung", 0)
	must.OK(t, c.MoveTopicPartition("healthy", 0, (hung+1)%3))
	end, taken := make(chan struct{}), make(chan struct{}, 1)
	t.Cleanup(func() { close(end) })
	c.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if c.CurrentNode() == hung {
			select {
			case taken <- struct{}{}:
			default:
			}
			c.SleepControl(func() { <-end })
		}
		return nil, nil, false
	})
	go func() { _, _ = s.Publish(sinktest.Deadline(t), series("hung", "k", 0, 3, 3)) }()
	<-taken
	// By design it takes 1.5 s at most, and 15 s without StalledAfter.
	for begun := time.Now(); time.Since(begun) < 4*time.Second; {
		at := time.Now()
		sinktest.MustPublish(t, s, series("healthy", "k", 0, 1, 1))
		if took := time.Since(at); took > 12*time.Second {
			t.Fatalf("a batch for a healthy leader took %v", took)
		}
	}
}

// TestACoordinatorThatIsCutOff names itself, and can do nothing: another broker is asked.
func TestACoordinatorThatIsCutOff(t *testing.T) {
	t.Parallel()
	const cut = 0
	c := fake(t)
	for _, key := range []kmsg.Key{kmsg.FindCoordinator, kmsg.InitProducerID} {
		c.ControlKey(int16(key), func(r kmsg.Request) (kmsg.Response, error, bool) {
			c.KeepControl()
			answer := r.ResponseKind()
			switch a := answer.(type) {
			case *kmsg.FindCoordinatorResponse:
				a.NodeID = cut
			case *kmsg.InitProducerIDResponse:
				a.ErrorCode = kerr.CoordinatorNotAvailable.Code
			}
			return answer, nil, c.CurrentNode() == cut
		})
	}
	for n := range 20 {
		opts := transactional(t, c.ListenAddrs())
		opts.TransactionalID += fmt.Sprint(n)
		if c.CoordinatorFor(opts.TransactionalID) != cut {
			must.OK(t, fenced(t, opts).Close())
		}
	}
}

// TestACallerThatLeavesBetweenTwoRequests: nothing of its batch is committed, and the batches of
// others are.
func TestACallerThatLeavesBetweenTwoRequests(t *testing.T) {
	t.Parallel()
	c := fake(t, kfake.SeedTopics(1, "one"))
	s := open(t, transactional(t, c.ListenAddrs()))
	sent := series("one", "before", 0, 3, 3)
	sinktest.MustPublish(t, s, sent)
	ctx, leave := context.WithCancel(sinktest.Deadline(t))
	left := make(chan error, 1)
	var requests atomic.Int32
	c.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if requests.Add(1) == 1 {
			leave()
			<-left
		}
		return nil, nil, false
	})
	// A request takes 900 KiB of a partition.
	var large []sink.Message
	for n := range 30 {
		large = append(large, message("one", "large", n, 100_000))
	}
	_, err := s.Publish(ctx, large)
	left <- err
	if err == nil {
		t.Error("the batch is acknowledged")
	}
	after := series("one", "after", 0, 3, 3)
	sinktest.MustPublish(t, s, after)
	if n := requests.Load(); n < 2 {
		t.Errorf("%d requests", n)
	}
	once(t, "one", c.ListenAddrs(), append(sent, after...))
}

// TestACallerThatLeavesBeforeItsBatchIsSent takes no transaction of others with it.
func TestACallerThatLeavesBeforeItsBatchIsSent(t *testing.T) {
	t.Parallel()
	c := fake(t, kfake.SeedTopics(1, "one"))
	s := open(t, transactional(t, c.ListenAddrs()))
	aborted := 0
	c.ControlKey(int16(kmsg.EndTxn), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if !r.(*kmsg.EndTxnRequest).Commit {
			aborted++
		}
		return nil, nil, false
	})
	reached, resume := hangAt(s, failpoint.TransactionAdded)
	sent := series("one", "sent", 0, 3, 3)
	first := sinktest.Publishing(sinktest.Deadline(t), s, sent)
	<-reached
	ctx, leave := context.WithCancel(sinktest.Deadline(t))
	second := sinktest.Publishing(ctx, s, series("one", "left", 0, 3, 3))
	sinktest.Until(t, "the second batch waits", func() bool { return kafka.Waiting(s) == 1 })
	leave()
	must.Fail(t, <-second, context.Canceled)
	resume()
	must.OK(t, <-first)
	if n := compare(t, sent, committed(t, "one", c.ListenAddrs())); n > 0 || aborted > 0 {
		t.Errorf("%d messages are there twice, %d transactions are aborted", n, aborted)
	}
}

// TestNoMarkerIsCoveredInATopicThatIsCreatedAgain where the offset behind the last batch is that of
// somebody else's message.
func TestNoMarkerIsCoveredInATopicThatIsCreatedAgain(t *testing.T) {
	t.Parallel()
	c := fake(t, kfake.SeedTopics(1, "one"))
	s := open(t, transactional(t, c.ListenAddrs()))
	for n := range 3 {
		if at := sinktest.MustPublish(t, s, series("one", "k", n*5, 5, 2)).At[0]; at.Marker != (n > 0) || at.Offset != uint64(n*6) {
			t.Fatalf("transaction %d begins at %+v, want %d, behind a marker but for the first", n, at, n*6)
		}
	}
	remake(t, c, "one", 1)
	// Behind what the former topic had, a marker would lie at 17: here it is somebody's message.
	sinktest.MustPublish(t, open(t, kafka.Options{Connection: at(c.ListenAddrs())}), series("one", "others", 0, 18, 2))
	// What is known of a topic is believed for five minutes.
	for range 6 {
		kafka.AgeTopics(s)
	}
	if out := sinktest.MustPublish(t, s, series("one", "k", 15, 5, 2)); out.At[0].Marker || out.At[0].Offset != 18 {
		t.Errorf("the first message is at %+v, want 18 and no marker", out.At[0])
	}
}

// amend has a cluster do what requests of a kind ask for, and change its answers.
func amend(t *testing.T, c *kfake.Cluster, key kmsg.Key, change func(kmsg.Request, kmsg.Response)) {
	client := newClient(t, c.ListenAddrs())
	var within atomic.Bool
	c.ControlKey(int16(key), func(request kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if within.Load() {
			return nil, nil, false
		}
		within.Store(true)
		defer within.Store(false)
		var answer kmsg.Response
		var err error
		version := request.GetVersion()
		c.SleepControl(func() { answer, err = client.Request(sinktest.Deadline(t), request) })
		if err == nil {
			answer.SetVersion(version)
			change(request, answer)
		}
		return answer, err, true
	})
}

// TestACoordinatorThatInitialisesAndDeniesIt answers NOT_COORDINATOR to what it has done: to a
// claim, to its confirmation, and behind a transaction of unknown outcome. The process goes on.
func TestACoordinatorThatInitialisesAndDeniesIt(t *testing.T) {
	t.Parallel()
	for name, denied := range map[string][]int{
		"a claim": {1}, "its confirmation": {2}, "both": {1, 3}, "three in succession": {2, 3, 4}, "behind a doubt": {3, 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := fake(t, kfake.SeedTopics(1, "one"))
			requests, limit := 0, int32(0)
			amend(t, c, kmsg.InitProducerID, func(request kmsg.Request, answer kmsg.Response) {
				limit = request.(*kmsg.InitProducerIDRequest).TransactionTimeoutMillis
				if requests++; slices.Contains(denied, requests) {
					res := answer.(*kmsg.InitProducerIDResponse)
					res.ErrorCode, res.ProducerID, res.ProducerEpoch = kerr.NotCoordinator.Code, -1, -1
				}
			})
			// A real coordinator takes over the time limit of a confirmation, too.
			amend(t, c, kmsg.DescribeTransactions, func(_ kmsg.Request, answer kmsg.Response) {
				answer.(*kmsg.DescribeTransactionsResponse).TransactionStates[0].TimeoutMillis = limit
			})
			s := fenced(t, transactional(t, c.ListenAddrs()))
			sent := series("one", "before", 0, 5, 2)
			sinktest.MustPublish(t, s, sent)
			c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.EndTxn}, TopLevel: true, Err: kerr.InvalidTxnState})
			must.Fail(t, must.Err(s.Publish(sinktest.Deadline(t), series("one", "doubtful", 0, 5, 2))), sink.ErrUnknownOutcome)
			sinktest.MustFence(t, s)
			after := series("one", "after", 0, 5, 2)
			sinktest.MustPublish(t, s, after)
			if n := compare(t, append(sent, after...), committed(t, "one", c.ListenAddrs())); n > 0 || requests < slices.Max(denied) {
				t.Errorf("%d messages are there twice, after %d requests", n, requests)
			}
		})
	}
}

// TestATransactionTakesSoMuch of what waits that it ends before its time limit.
func TestATransactionTakesSoMuch(t *testing.T) {
	t.Parallel()
	c := fake(t, kfake.SeedTopics(1, "one"))
	s := open(t, transactional(t, c.ListenAddrs()))
	reached, resume := hangAt(s, failpoint.TransactionAdded)
	var writers sync.WaitGroup
	var sent []sink.Message
	put := func(batch []sink.Message) {
		sent = append(sent, batch...)
		writers.Go(func() { sinktest.MustPublish(t, s, batch) })
	}
	put(series("one", "first", 0, 1, 1))
	<-reached
	const batches, size = 24, 1_000_000
	for n := range batches {
		put([]sink.Message{message("one", fmt.Sprint("k", n), n, size)})
	}
	sinktest.Until(t, "all batches wait", func() bool { return kafka.Waiting(s) == batches })
	var taken []int
	of := 0
	c.ControlKey(-1, func(request kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		switch r := request.(type) {
		case *kmsg.ProduceRequest:
			for _, topic := range r.Topics {
				for _, p := range topic.Partitions {
					of += len(p.Records)
				}
			}
		case *kmsg.EndTxnRequest:
			taken, of = append(taken, of), 0
		}
		return nil, nil, false
	})
	resume()
	writers.Wait()
	// 4 MiB at first, then twice as much, and one batch more.
	if most := slices.Max(taken); len(taken) < 3 || most > 16<<20+size+1<<16 {
		t.Errorf("transactions of %v bytes", taken)
	}
	once(t, "one", c.ListenAddrs(), sent)
}

// TestThePaceOfTransactions: slow ones make the next ones smaller, within bounds.
func TestThePaceOfTransactions(t *testing.T) {
	opts := transactional(t, []string{"127.0.0.1:1"})
	opts.TransactionTimeout = time.Minute
	s := open(t, opts)
	const slow, quick = 8 * time.Second, 7 * time.Second
	room := kafka.Pace(s, slices.Concat([]time.Duration{quick, quick, slow}, slices.Repeat([]time.Duration{slow}, 9), slices.Repeat([]time.Duration{quick}, 20))...)
	if got, want := append(room[:4:4], room[11], room[31]), []int{8 << 20, 16 << 20, 8 << 20, 4 << 20, 256 << 10, 64 << 20}; !slices.Equal(got, want) {
		t.Errorf("room %v, want %v", got, want)
	}
}
