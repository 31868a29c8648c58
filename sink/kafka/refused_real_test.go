package kafka_test

import (
	"sync"
	"testing"
	"time"

	"bridge/sink/kafka"
	"bridge/tests/testenv"
)

// TestRefusedRowsHoldNobodyUp: a batch with many refused rows, which are replaced one by one as a
// shard does, lets those of others pass.
func TestRefusedRowsHoldNobodyUp(t *testing.T) {
	t.Parallel()
	k := testenv.Kafka(t)
	topic, limit := newTopic(), "20000"
	k.CreateTopic(t, topic, 2, map[string]*string{"max.message.bytes": &limit})
	for _, exactly := range []bool{false, true} {
		opts := kafka.Options{Brokers: k.Brokers()}
		if exactly {
			opts = transactional(t, k.Brokers())
		}
		s := openQuiet(t, opts)
		mustFence(t, s)
		bad := series(topic, "bad", 0, 400, 5)
		const rows = 50
		for i := range rows {
			bad[i*2] = message(topic, "bad+7", i*2, 30_000)
		}
		stop := make(chan struct{})
		var writers sync.WaitGroup
		var worst time.Duration
		n := 0
		writers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				at := time.Now()
				publish(t, s, series(topic, "good", 0, 10, 3))
				worst = max(worst, time.Since(at))
				n++
			}
		})
		begun := time.Now()
		rounds := 0
		for left := bad; ; rounds++ {
			out, err := s.Publish(deadline(t), left)
			if err != nil {
				t.Fatal(err)
			}
			if out.AllAcked() {
				break
			}
			for _, r := range out.Rejected {
				left[r.Index] = message(topic, string(left[r.Index].Key), r.Index, 200)
			}
		}
		close(stop)
		took := time.Since(begun)
		writers.Wait()
		// In transactions every second round takes a batch of others with it.
		if n < rows/5 {
			t.Errorf("exactly once %v: %d other batches in %v, while one had %d refused rows", exactly, n, took, rounds)
		}
		t.Logf("exactly once %v: the batch took %v in %d rounds; %d other batches, the slowest %v", exactly, took, rounds, n, worst)
	}
}
