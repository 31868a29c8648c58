package memory

import (
	"errors"
	"maps"
	"sync"

	"bridge/sink"
)

var errHeld = errors.New("the bus is held by a test")

// faults are what a test has told the bus to do.
type faults struct {
	holdAfter int // messages still accepted before the bus stands still; -1: it does not
	fails     int
	failErr   error
	failKeeps bool
	reject    func(*sink.Message) string
}

func (f *faults) holding() bool { return f.holdAfter == 0 }

// nextFault returns the fault of this attempt, if any, and whether the message is kept all the
// same.
func (f *faults) nextFault() (err error, kept bool) {
	if f.fails == 0 {
		return nil, false
	}
	f.fails--
	return f.failErr, f.failKeeps
}

// Pause lets the bus accept after more messages and then stand still until release is called:
// Publish blocks. Calling release more than once is fine.
func (s *Sink) Pause(after int) (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holdAfter = after
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.holdAfter = -1
		s.wake()
	})
}

// Fail makes the next n attempts fail with err; they are retried. With kept the message is stored
// all the same and only its acknowledgement is lost, so that the retry repeats it.
func (s *Sink) Fail(n int, err error, kept bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fails, s.failErr, s.failKeeps = n, err, kept
}

// Reject refuses for good the messages for which reason returns a text that is not empty. Nil ends
// that.
func (s *Sink) Reject(reason func(*sink.Message) string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reject = reason
}

// Lose drops the last n messages of a TP, as a bus does that acknowledged before it wrote to the
// disk.
func (s *Sink) Lose(tp string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.logs[tp]; p != nil {
		left := max(len(p.messages)-n, 0)
		for i := range p.messages[left:] {
			p.counts[p.messages[left+i].Destination]--
		}
		p.messages = p.messages[:left]
		maps.DeleteFunc(p.recent, func(_ string, r recent) bool { return r.offset > uint64(left) })
	}
}

// Wipe removes all TPs with their messages. One that is published to afterwards has a new
// incarnation.
func (s *Sink) Wipe() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.logs)
	s.wakeReaders()
}
