package sinktest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"example.org/bridge/sink"
	"example.org/bridge/tests/must"
)

// Steps are those of a transaction, in their order.
var Steps = []string{"TransactionAdded", "TransactionSent", "TransactionEnds", "TransactionEnded"}

// TransactionalFixture is a bus that holds nothing yet on Destination, for processes that publish
// whole batches or none.
type TransactionalFixture struct {
	// Open begins a process, which ends with the test. Its sink is a [sink.Reader], too.
	Open func(t testing.TB) sink.Transactional
	// OnStep has a hook called at each step of a process.
	OnStep      func(s sink.Sink, hook func(step string))
	Destination string
	// Read and Keys are as in a [Fixture].
	Read func(t testing.TB, destination string) []Record
	Keys bool
}

func (f *TransactionalFixture) begin(t testing.TB, s sink.Sink) *history {
	return begin(t, Fixture{Sink: s, Destinations: []string{f.Destination}, Read: f.Read, Features: Features{Keys: f.Keys, Headers: true}})
}

func (f *TransactionalFixture) hangAt(s sink.Sink, step string) (reached <-chan struct{}, resume func()) {
	return HangAt(step, func(hook func(string)) { f.OnStep(s, hook) })
}

// MustFence fails the test unless s has taken over.
func MustFence(t testing.TB, s sink.Transactional) {
	t.Helper()
	must.OK(t, s.Fence(Deadline(t)))
}

// Zombies stops a process at each step of a transaction, lets a successor take over, read back and
// publish the rest, and lets the zombie go on.
func Zombies(t *testing.T, open func(t *testing.T) TransactionalFixture) {
	for _, step := range Steps {
		for _, c := range []struct {
			size  int
			quiet bool
		}{{1, true}, {100, true}, {100, false}} {
			t.Run(fmt.Sprintf("%s, %d messages, its successor has published: %t", step, c.size, !c.quiet), func(t *testing.T) {
				t.Parallel()
				f := open(t)
				f.zombie(t, step, c.size, c.quiet)
			})
		}
	}
}

func (f *TransactionalFixture) zombie(t *testing.T, step string, size int, quiet bool) {
	zombie, successor, ended := f.Open(t), f.Open(t), step == Steps[3]
	h := f.begin(t, zombie)
	MustFence(t, zombie)
	h.mustPublish(batch(f.Destination, "before", size, 9))
	reached, resume := f.hangAt(zombie, step)
	defer resume()
	sent := batch(f.Destination, "batch", size, 9)
	result := Publishing(Deadline(t), zombie, copyOf(sent))
	<-reached
	MustFence(t, successor)
	h.f.Sink, h.sent = successor, append(h.sent, sent...)
	left := Without(sent, ReadBack(Deadline(t), t, successor.(sink.Reader), h.f.Destinations))
	if stored := size - len(left); stored != 0 && !ended {
		t.Errorf("%d messages are there before the end of their transaction", stored)
	}
	if !quiet {
		h.mustPublish(left)
	}
	resume()
	superseded := func(err error) bool { return errors.Is(err, sink.ErrUnknownOutcome) || errors.Is(err, sink.ErrFenced) }
	if err := <-result; ended && err != nil || !ended && !superseded(err) {
		t.Errorf("the zombie's batch ends with %v", err)
	}
	// Now, or at its next batch, it learns that another one has taken over.
	more := batch(f.Destination, "zombie", 3, 3)
	if _, err := zombie.Publish(Deadline(t), more); !superseded(err) {
		t.Errorf("the zombie publishes with %v", err)
	}
	must.Fail(t, zombie.Fence(Deadline(t)), sink.ErrFenced)
	must.Fail(t, must.Err(zombie.Publish(Deadline(t), more)), sink.ErrFenced)
	if quiet {
		h.mustPublish(left)
	}
	h.mustPublish(batch(f.Destination, "after", size, 9))
	h.consumed()
}

// HarmAtEachStep does harm at each step of transactions of so many messages: what became of them is
// read back, and nothing is there twice.
func HarmAtEachStep(t *testing.T, f TransactionalFixture, harm func(t testing.TB, s sink.Sink), sizes ...int) {
	s := f.Open(t)
	h := f.begin(t, s)
	MustFence(t, s)
	for i, step := range slices.Repeat(Steps, len(sizes)) {
		sent := batch(f.Destination, fmt.Sprint("batch-", i), sizes[i/len(Steps)], 7)
		reached, resume := f.hangAt(s, step)
		done := make(chan int, 1)
		go func() { done <- h.deliver(Deadline(t), sent) }()
		<-reached
		harm(t, s)
		resume()
		t.Logf("%s, %d messages: %d outcomes were unknown", step, len(sent), <-done)
	}
	h.consumed()
}

// BeginTogether has processes begin at one moment: one of them publishes in the end, the others are
// superseded.
func BeginTogether(t *testing.T, f TransactionalFixture, processes ...sink.Transactional) {
	h := f.begin(t, nil)
	// turn publishes once more, and reports whether the process goes on.
	turn := func(i, n int) bool {
		s := processes[i]
		if err := s.Fence(Deadline(t)); errors.Is(err, sink.ErrFenced) {
			return false
		}
		if _, err := h.publishBy(Deadline(t), s, batch(f.Destination, fmt.Sprint("turn-", i, "-", n), 5, 2)); err != nil {
			return !errors.Is(s.Fence(Deadline(t)), sink.ErrFenced)
		}
		return true
	}
	const turns = 10
	var running sync.WaitGroup
	for i := range processes {
		running.Go(func() {
			for n := 0; n < turns && turn(i, n); n++ {
			}
		})
	}
	running.Wait()
	live := 0
	for i := range processes {
		if turn(i, turns) {
			live++
		}
	}
	if live != 1 {
		t.Errorf("%d processes go on", live)
	}
	h.consumed()
}
