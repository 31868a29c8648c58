package kafka

import (
	"context"
	"reflect"
	"sync"
	"time"

	"example.org/bridge/client/kafka/broker"
	"example.org/bridge/tests/faulty/failpoint"
)

// Queued returns how many portions a worker holds, those in flight included.
func Queued(s *Sink, topic string, partition int32) int {
	s.mu.Lock()
	w := s.workers[broker.TPName(topic, partition)]
	s.mu.Unlock()
	if w == nil {
		return 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.queue)
}

// AgeTopics has the sink take what it knows of topics for a minute old.
func AgeTopics(s *Sink) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.topics {
		t.checked = t.checked.Add(-time.Minute)
	}
}

// hidden returns a field of a cluster.
func hidden[T any](c *broker.Cluster, name string) *T {
	return (*T)(reflect.ValueOf(c).Elem().FieldByName(name).Addr().UnsafePointer())
}

// Renewal returns in what time the sink will connect again because sessions end, 0 for never.
func Renewal(s *Sink) time.Duration {
	mu, at := hidden[sync.Mutex](s.cluster, "mu"), hidden[time.Time](s.cluster, "renewAt")
	mu.Lock()
	defer mu.Unlock()
	if at.IsZero() {
		return 0
	}
	return time.Until(*at)
}

// EndSessions has the sink take its sessions for as good as over.
func EndSessions(s *Sink) {
	mu := hidden[sync.Mutex](s.cluster, "mu")
	mu.Lock()
	defer mu.Unlock()
	*hidden[time.Time](s.cluster, "renewAt") = time.Now().Add(-time.Second)
}

// Dial connects to a broker as the sink does.
func Dial(ctx context.Context, s *Sink, address string) error {
	nc, err := s.cluster.Dial(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return nc.Close()
}

// Advertised has the sink take the addresses of its brokers for those that a cluster tells.
func Advertised(s *Sink) { (*hidden[*broker.Options](s.cluster, "options")).Brokers = nil }

// Cut closes all connections of the sink.
func Cut(s *Sink) { s.cluster.Close() }

// OnStep has hook called at each step of a transaction.
func OnStep(s *Sink, hook func(failpoint.Point)) { s.transactions.steps = hook }

// Waiting returns how many batches wait for a transaction.
func Waiting(s *Sink) int {
	s.transactions.mu.Lock()
	defer s.transactions.mu.Unlock()
	return len(s.transactions.queue)
}

// Closing is closed when Close has begun.
func Closing(s *Sink) <-chan struct{} { return s.transactions.life.Done() }

// SetClaimWithin sets how long another process may take to confirm that it has taken over.
func SetClaimWithin(s *Sink, d time.Duration) { s.transactions.producer.claimWithin = d }

// SetAbortWithin sets how long Close waits for brokers.
func SetAbortWithin(s *Sink, d time.Duration) { s.transactions.abortWithin = d }

// Pace returns how many bytes are taken in behind transactions of which each took so long.
func Pace(s *Sink, took ...time.Duration) (room []int) {
	for _, d := range took {
		s.transactions.pace(d)
		room = append(room, s.transactions.room)
	}
	return room
}

// SetTransactionTimeout sets the time limit of transactions, in ms, by which a process knows its
// own takeover.
func SetTransactionTimeout(s *Sink, ms int32) { s.transactions.producer.signature = ms }
