package memory

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"

	"bridge/internal/backoff"
	"bridge/sink"
)

var _ sink.Sink = (*Sink)(nil)

// Options set up a Sink.
type Options struct {
	// MaxBytes is the largest Value that is accepted; a larger one is rejected. 0 means no bound.
	MaxBytes int
	// ByKey leaves after a rejected message only the later ones of the same destination and key
	// pending. By default all later ones of the same destination are.
	ByKey bool
	// RetryPause is the pause after a failed attempt. Defaults to 100 µs.
	RetryPause time.Duration
	// Fault, when set, is told of each failed attempt.
	Fault sink.Fault
}

// Sink is a bus in memory. Its methods are safe for concurrent use.
type Sink struct {
	opts Options

	mu      sync.Mutex
	changed chan struct{}
	// appended is set while a Reader waits, and closed when it is to look again.
	appended  chan struct{}
	logs      map[string]*messageLog
	makings   int
	closed    bool
	publishes int
	faults
}

// messageLog keeps the messages of one destination. The message with index i has the sequence i+1.
type messageLog struct {
	making   int
	messages []sink.Message
	// expired counts the messages at the front, deleted has single ones, that a Reader does not see
	// any more.
	expired uint64
	deleted map[uint64]bool
}

// New returns an empty bus.
func New(opts Options) *Sink {
	if opts.RetryPause <= 0 {
		opts.RetryPause = 100 * time.Microsecond
	}
	return &Sink{opts: opts, changed: make(chan struct{}), logs: make(map[string]*messageLog), faults: faults{holdAfter: -1}}
}

// Messages returns what a consumer sees on destination, in order. The messages share no memory with
// what was published.
func (s *Sink) Messages(destination string) []sink.Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.logs[destination]
	if p == nil {
		return nil
	}
	seen := make([]sink.Message, len(p.messages))
	for i, m := range p.messages {
		seen[i] = clone(m)
	}
	return seen
}

// Destinations counts the messages of every destination that has been published to.
func (s *Sink) Destinations() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	counts := make(map[string]int, len(s.logs))
	for name, p := range s.logs {
		counts[name] = len(p.messages)
	}
	return counts
}

// Publishes counts the calls of Publish.
func (s *Sink) Publishes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.publishes
}

// Publish implements sink.Sink.
func (s *Sink) Publish(ctx context.Context, batch []sink.Message) (sink.Outcome, error) {
	s.mu.Lock()
	s.publishes++
	s.mu.Unlock()
	out := sink.Outcome{Status: make([]sink.Status, len(batch)), At: make([]sink.At, len(batch))}
	tps := make(map[sink.TPRef]int32)
	blocked := make(map[string]bool)
	var err error
	for i := range batch {
		m := &batch[i]
		if blocked[s.line(m)] {
			continue
		}
		var reason string
		var at stored
		if at, reason, err = s.send(ctx, m); err != nil {
			break
		}
		if reason != "" {
			out.Status[i] = sink.Rejected
			out.Rejected = append(out.Rejected, sink.Rejection{Index: i, Reason: reason})
			blocked[s.line(m)] = true
			continue
		}
		out.Status[i] = sink.Acked
		tp, known := tps[at.tp]
		if !known {
			tp = int32(len(out.TPs))
			tps[at.tp], out.TPs = tp, append(out.TPs, at.tp)
		}
		out.At[i] = sink.At{Offset: at.offset, TP: tp, Known: true}
	}
	return out, err
}

// stored is where a message was stored.
type stored struct {
	tp     sink.TPRef
	offset uint64
}

// line names what m must not overtake in.
func (s *Sink) line(m *sink.Message) string {
	if s.opts.ByKey {
		return m.Destination + "\x00" + string(m.Key)
	}
	return m.Destination
}

// send stores m, trying again after each fault, and returns where it lies or the reason why it is
// refused.
func (s *Sink) send(ctx context.Context, m *sink.Message) (at stored, reason string, err error) {
	for {
		at, reason, wait, err := s.attempt(m)
		switch {
		case wait != nil:
			select {
			case <-wait:
			case <-ctx.Done():
				return stored{}, "", fmt.Errorf("publish to %s: %w", m.Destination, context.Cause(ctx))
			}
		case err == nil && ctx.Err() != nil:
			// Stored or not, the caller is gone: the message counts as pending.
			return stored{}, "", fmt.Errorf("publish to %s: %w", m.Destination, context.Cause(ctx))
		case err == nil || s.isClosed():
			return at, reason, err
		default:
			if s.opts.Fault != nil {
				s.opts.Fault(m.Destination, err)
			}
			if err := backoff.Pause(ctx, s.opts.RetryPause); err != nil {
				return stored{}, "", fmt.Errorf("publish to %s: %w", m.Destination, err)
			}
		}
	}
}

// attempt tries once to store m. A wait that is not nil is closed when it is worth trying again.
func (s *Sink) attempt(m *sink.Message) (at stored, reason string, wait <-chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return stored{}, "", nil, sink.ErrClosed
	}
	if s.holding() {
		return stored{}, "", s.changed, nil
	}
	if s.opts.MaxBytes > 0 && len(m.Value) > s.opts.MaxBytes {
		return stored{}, fmt.Sprintf("message of %d bytes is too large, the limit is %d", len(m.Value), s.opts.MaxBytes), nil, nil
	}
	if s.reject != nil {
		if reason := s.reject(m); reason != "" {
			return stored{}, reason, nil, nil
		}
	}
	err, kept := s.nextFault()
	if err != nil && !kept {
		return stored{}, "", nil, err
	}
	return s.store(m), "", nil, err
}

// store appends a copy of m to its destination.
func (s *Sink) store(m *sink.Message) stored {
	p := s.log(m.Destination)
	p.messages = append(p.messages, clone(*m))
	if s.holdAfter > 0 {
		s.holdAfter--
	}
	s.wakeReaders()
	return stored{sink.TPRef{Name: m.Destination, Incarnation: p.incarnation()}, uint64(len(p.messages))}
}

// log returns the log of a destination, made where it is missing.
func (s *Sink) log(destination string) *messageLog {
	p := s.logs[destination]
	if p == nil {
		s.makings++
		p = &messageLog{making: s.makings}
		s.logs[destination] = p
	}
	return p
}

// Ready implements sink.Sink.
func (s *Sink) Ready(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return sink.ErrClosed
	case s.holding():
		return errHeld
	}
	return nil
}

// Close implements sink.Sink. What was published can still be read.
func (s *Sink) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.wake()
	s.wakeReaders()
	return nil
}

func (s *Sink) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// wake lets everyone who waits look again.
func (s *Sink) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

func clone(m sink.Message) sink.Message {
	m.Key, m.Value = bytes.Clone(m.Key), bytes.Clone(m.Value)
	return m
}
