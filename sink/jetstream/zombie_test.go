package jetstream_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"bridge/sink"
	"bridge/sink/jetstream"
	"bridge/sink/sinktest"
	"bridge/tests/faulty/failpoint"
	"bridge/tests/testall"
	"bridge/tests/testenv"

	natsjs "github.com/nats-io/nats.go/jetstream"
)

// steps are those of an atomic batch, in their order.
var steps = []failpoint.Point{failpoint.TransactionAdded, failpoint.TransactionSent, failpoint.TransactionEnds, failpoint.TransactionEnded}

// topology is where a stream lies: on one server, or on three with three replicas.
type topology struct {
	name     string
	server   *testenv.NATSServer
	replicas int
}

// topologies are both, or the first one alone.
func topologies(t *testing.T, both bool) []topology {
	t.Helper()
	list := []topology{{"one replica", testenv.OwnNATS(t), 1}}
	if both {
		list = append(list, topology{"three replicas", testenv.OwnNATSCluster(t)[0], 3})
	}
	return list
}

// mustFence fences, and fails the test otherwise.
func mustFence(t testing.TB, s *jetstream.Sink) {
	t.Helper()
	if err := s.Fence(deadline(t, 4*time.Minute)); err != nil {
		t.Fatal(err)
	}
}

// readBack returns the ids that catch-up would find: up to the end that the leader has now.
func readBack(t testing.TB, s *jetstream.Sink) map[string]bool {
	t.Helper()
	return sinktest.ReadBack(deadline(t, 4*time.Minute), t, s, nil)
}

// deliver publishes a batch as a shard does: behind an unknown outcome it reads what is there.
func deliver(t testing.TB, s *jetstream.Sink, batch []sink.Message) (unknown int) {
	t.Helper()
	for len(batch) > 0 {
		out, err := s.Publish(deadline(t, 4*time.Minute), batch)
		switch {
		case err == nil && out.AllAcked():
			return unknown
		case errors.Is(err, sink.ErrUnknownOutcome):
			unknown++
			mustFence(t, s)
			batch = sinktest.Without(batch, readBack(t, s))
		default:
			t.Errorf("%d acknowledged, rejected %v: %v", out.Acked(), out.Rejected, err)
			return unknown
		}
	}
	return unknown
}

// wantOnce fails the test unless a consumer sees each message once and in order.
func wantOnce(t testing.TB, stream natsjs.Stream, subject string, sent ...[]sink.Message) {
	t.Helper()
	n := 0
	for _, batch := range sent {
		n += len(batch)
	}
	var got []seen
	// The server that serves the reader may lag behind the others.
	eventually(t, time.Minute, "all is there", func() bool { got = events(t, stream, subject); return len(got) >= n })
	wantWhole(t, got, sent...)
	if len(got) != n {
		t.Errorf("%d messages are stored, %d were published", len(got), n)
	}
}

// hangAt has a sink hang at a step of its next batch until resume is called.
func hangAt(s *jetstream.Sink, step failpoint.Point) (reached <-chan struct{}, resume func()) {
	return sinktest.HangAt(step, func(hook func(failpoint.Point)) { jetstream.OnStep(s, hook) })
}

// TestAZombieAtEachStepOfABatch stops a process at each step of a batch, lets a successor take
// over, read back and publish the rest, and lets the zombie go on.
func TestAZombieAtEachStepOfABatch(t *testing.T) {
	t.Parallel()
	for _, topology := range topologies(t, testall.On()) {
		for _, step := range steps {
			for _, size := range []int{1, 100} {
				t.Run(fmt.Sprintf("%s, %s, %d messages", topology.name, step, size), func(t *testing.T) {
					t.Parallel()
					zombieAt(t, topology, step, size)
				})
			}
		}
	}
}

func zombieAt(t *testing.T, topology topology, step failpoint.Point, size int) {
	stream, options := claimed(t, topology.server, natsjs.StreamConfig{Replicas: topology.replicas})
	zombie, successor := open(t, options), open(t, options)
	subject := options.Stream + ".a"
	before, batch, after := messages(subject, "before", size, 9), messages(subject, "batch", size, 9), messages(subject, "after", size, 9)
	mustFence(t, zombie)
	mustPublish(t, zombie, before)
	reached, resume := hangAt(zombie, step)
	defer resume()
	result := sinktest.Publishing(deadline(t, 4*time.Minute), zombie, batch)
	<-reached
	mustFence(t, successor)
	left := sinktest.Without(batch, readBack(t, successor))
	if stored := size - len(left); stored != 0 && step != failpoint.TransactionEnded {
		t.Errorf("%d messages of a batch are there before its end", stored)
	}
	resume()
	switch err := <-result; {
	case step == failpoint.TransactionEnded && err != nil:
		t.Errorf("a batch that is stored ends with %v", err)
	case step != failpoint.TransactionEnded && !errors.Is(err, sink.ErrUnknownOutcome) && !errors.Is(err, sink.ErrFenced):
		t.Errorf("the zombie's batch ends with %v", err)
	}
	// Now, or at its next batch, it learns that another one has taken over.
	if _, err := zombie.Publish(deadline(t, 4*time.Minute), messages(subject, "zombie", 3, 3)); !errors.Is(err, sink.ErrFenced) && !errors.Is(err, sink.ErrUnknownOutcome) {
		t.Errorf("the zombie publishes with %v", err)
	}
	if err := zombie.Fence(deadline(t, 4*time.Minute)); !errors.Is(err, sink.ErrFenced) {
		t.Errorf("the zombie fences with %v", err)
	}
	if _, err := zombie.Publish(deadline(t, 4*time.Minute), messages(subject, "zombie", 3, 3)); !errors.Is(err, sink.ErrFenced) {
		t.Errorf("the zombie publishes with %v", err)
	}
	if len(left) > 0 {
		mustPublish(t, successor, left)
	}
	mustPublish(t, successor, after)
	wantOnce(t, stream, subject, before, batch, after)
}
