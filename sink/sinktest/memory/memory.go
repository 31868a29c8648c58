package memory

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
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
	// Partitions is how many TPs a destination has, as on Kafka: a message goes to one by its key.
	// 0 is one TP with the name of the destination.
	Partitions int
	// Stream is the one TP of all destinations, as on JetStream: messages have no keys, and their
	// states have them. Empty: each destination has its own.
	Stream string
	// Duplicates is for how long a TP drops a message whose DedupID it has stored, as JetStream
	// does. 0 keeps repeats.
	Duplicates time.Duration
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
	appended chan struct{}
	// logs are by TP.
	logs      map[string]*messageLog
	makings   int
	closed    bool
	publishes int
	faults
}

// messageLog keeps the messages of one TP. The message with index i has the sequence i+1.
type messageLog struct {
	making   int
	messages []sink.Message
	// counts are those of the messages of each destination.
	counts map[string]int
	// expired counts the messages at the front, deleted has single ones, that a Reader does not see
	// any more.
	expired uint64
	deleted map[uint64]bool
	// recent are the messages stored last, by DedupID, while repeats of them are dropped.
	recent map[string]recent
}

// recent is where a message was stored, and when.
type recent struct {
	offset uint64
	at     time.Time
}

// New returns an empty bus.
func New(opts Options) *Sink {
	if opts.RetryPause <= 0 {
		opts.RetryPause = 100 * time.Microsecond
	}
	return &Sink{opts: opts, changed: make(chan struct{}), logs: make(map[string]*messageLog), faults: faults{holdAfter: -1}}
}

// Messages returns what a consumer sees on destination, each TP in its order, one after the other.
// The messages share no memory with what was published.
func (s *Sink) Messages(destination string) []sink.Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	var seen []sink.Message
	for _, tp := range s.tps(destination) {
		if p := s.logs[tp]; p != nil {
			for i := range p.messages {
				if p.messages[i].Destination == destination {
					seen = append(seen, clone(p.messages[i]))
				}
			}
		}
	}
	return seen
}

// Destinations counts the messages of every destination that has been published to.
func (s *Sink) Destinations() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	counts := make(map[string]int, len(s.logs))
	for _, p := range s.logs {
		for destination, n := range p.counts {
			counts[destination] += n
		}
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
	sink.NoteFirst(batch)
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
		if at.duplicate && !at.again {
			out.Duplicates++
		}
		tp, known := tps[at.tp]
		if !known {
			tp = int32(len(out.TPs))
			tps[at.tp], out.TPs = tp, append(out.TPs, at.tp)
		}
		out.At[i] = sink.At{Offset: at.offset, TP: tp, Known: true, Duplicate: at.duplicate}
	}
	return out, err
}

// stored is where a message was stored. A duplicate was stored before; again says that this may
// have been an earlier attempt of the same call.
type stored struct {
	tp               sink.TPRef
	offset           uint64
	duplicate, again bool
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
	for again := false; ; again = true {
		at, reason, wait, err := s.attempt(m)
		at.again = again
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

// store appends a copy of m to its TP, unless that drops it as a repeat.
func (s *Sink) store(m *sink.Message) stored {
	tp := s.tp(m)
	p := s.log(tp)
	at := stored{tp: sink.TPRef{Name: tp, Incarnation: p.incarnation()}}
	if one, ok := p.recent[m.DedupID()]; ok && time.Since(one.at) < s.opts.Duplicates {
		at.offset, at.duplicate = one.offset, true
		return at
	}
	p.messages = append(p.messages, clone(*m))
	p.counts[m.Destination]++
	at.offset = uint64(len(p.messages))
	if s.opts.Duplicates > 0 {
		p.recent[m.DedupID()] = recent{at.offset, time.Now()}
	}
	if s.holdAfter > 0 {
		s.holdAfter--
	}
	s.wakeReaders()
	return at
}

// log returns the log of a TP, made where it is missing.
func (s *Sink) log(tp string) *messageLog {
	p := s.logs[tp]
	if p == nil {
		s.makings++
		p = &messageLog{making: s.makings, counts: make(map[string]int), recent: make(map[string]recent)}
		s.logs[tp] = p
	}
	return p
}

// tp returns the name of the TP that takes m.
func (s *Sink) tp(m *sink.Message) string {
	tps := s.tps(m.Destination)
	if len(tps) == 1 {
		return tps[0]
	}
	h := fnv.New32a()
	// It returns no error.
	_, _ = h.Write(m.Key)
	return tps[h.Sum32()%uint32(len(tps))]
}

// tps returns the names of the TPs of a destination.
func (s *Sink) tps(destination string) []string {
	switch {
	case s.opts.Stream != "":
		return []string{s.opts.Stream}
	case s.opts.Partitions == 0:
		return []string{destination}
	}
	names := make([]string, s.opts.Partitions)
	for i := range names {
		names[i] = fmt.Sprintf("%s/%d", destination, i)
	}
	return names
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
	if m.Bare != nil {
		bare := *m.Bare
		m.Bare = &bare
	}
	return m
}

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
