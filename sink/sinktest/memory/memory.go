package memory

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"sync"
	"time"

	"example.org/bridge/sink"
)

var (
	_ sink.Sink   = (*Sink)(nil)
	_ sink.Reader = (*Sink)(nil)
)

var errHeld = errors.New("the bus is held by a test")

// Options set up a Sink.
type Options struct {
	// MaxBytes is the largest Value that is accepted; a larger one is rejected. 0 means no bound.
	MaxBytes int
	// Partitions is how many TPs a destination has, as on Kafka: a message goes to one by its key.
	// 0 is one TP with the name of the destination.
	Partitions int
	// Stream is the one TP of all destinations, as on JetStream: messages have no keys, and their
	// states have them. Empty: each destination has its own.
	Stream string
	// Duplicates is for how long a TP drops a message whose DedupID it has stored, as JetStream
	// does. 0 keeps repeats.
	Duplicates time.Duration
}

// Sink is a bus in memory. Its methods are safe for concurrent use.
type Sink struct {
	opts Options

	mu sync.Mutex
	// changed is set while somebody waits, and closed when something has changed.
	changed            chan struct{}
	logs               map[string]*messageLog
	makings, publishes int
	closed             bool
	// left counts the messages that are accepted before the bus stands still; -1: it does not.
	left   int
	reject func(*sink.Message) string
}

// messageLog keeps the messages of one TP. The message with index i has the sequence i+1.
type messageLog struct {
	incarnation string
	messages    []sink.Message
	// expired counts the messages at the front, deleted has single ones, that a Reader does not see
	// any more.
	expired uint64
	deleted map[uint64]bool
	// recent are the messages stored last, by DedupID, while repeats of them are dropped.
	recent map[string]recent
}

type recent struct {
	offset uint64
	at     time.Time
}

// New returns an empty bus.
func New(opts Options) *Sink { return &Sink{opts: opts, logs: make(map[string]*messageLog), left: -1} }

// Messages returns what a consumer sees on destination, each TP in its order, one after the other.
// The messages share no memory with what was published.
func (s *Sink) Messages(destination string) (seen []sink.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
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
	counts := make(map[string]int)
	for _, p := range s.logs {
		for i := range p.messages {
			counts[p.messages[i].Destination]++
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

// Publish implements sink.Sink. Behind a rejected message those of its destination are pending.
func (s *Sink) Publish(ctx context.Context, batch []sink.Message) (sink.Outcome, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.publishes++
	out := sink.Outcome{Status: make([]sink.Status, len(batch)), At: make([]sink.At, len(batch))}
	blocked := make(map[string]bool)
	sink.NoteFirst(batch)
	for i := range batch {
		if blocked[batch[i].Destination] {
			continue
		}
		if err := s.send(ctx, &batch[i], i, &out); err != nil {
			return out, err
		}
		blocked[batch[i].Destination] = out.Status[i] == sink.Rejected
	}
	return out, nil
}

// send has a message stored or refused. s.mu is held, and released while it waits.
func (s *Sink) send(ctx context.Context, m *sink.Message, i int, out *sink.Outcome) error {
	gone := func() error { return fmt.Errorf("publish to %s: %w", m.Destination, context.Cause(ctx)) }
	for s.left == 0 && !s.closed {
		changed := s.waiting()
		s.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		if s.mu.Lock(); ctx.Err() != nil {
			return gone()
		}
	}
	if s.closed {
		return sink.ErrClosed
	}
	reason := ""
	if s.reject != nil {
		reason = s.reject(m)
	}
	if limit := s.opts.MaxBytes; limit > 0 && len(m.Value) > limit {
		reason = fmt.Sprintf("message of %d bytes is too large, the limit is %d", len(m.Value), limit)
	}
	var ref sink.TPRef
	var at sink.At
	if reason == "" {
		ref, at = s.store(m)
	}
	switch {
	case ctx.Err() != nil:
		// Stored or not, the message counts as pending.
		return gone()
	case reason != "":
		out.Status[i], out.Rejected = sink.Rejected, append(out.Rejected, sink.Rejection{Index: i, Reason: reason})
		return nil
	}
	if at.TP = int32(slices.Index(out.TPs, ref)); at.TP < 0 {
		at.TP, out.TPs = int32(len(out.TPs)), append(out.TPs, ref)
	}
	if out.Status[i], out.At[i] = sink.Acked, at; at.Duplicate {
		out.Duplicates++
	}
	return nil
}

func (s *Sink) store(m *sink.Message) (sink.TPRef, sink.At) {
	tps := s.tps(m.Destination)
	h := fnv.New32a()
	// It returns no error.
	_, _ = h.Write(m.Key)
	tp := tps[h.Sum32()%uint32(len(tps))]
	if slices.Contains(tps, m.TP) {
		tp = m.TP
	}
	p := s.log(tp)
	ref := sink.TPRef{Name: tp, Incarnation: p.incarnation}
	if one, ok := p.recent[m.DedupID()]; ok && time.Since(one.at) < s.opts.Duplicates {
		return ref, sink.At{Offset: one.offset, Known: true, Duplicate: true}
	}
	p.messages = append(p.messages, clone(*m))
	at := sink.At{Offset: uint64(len(p.messages)), Known: true}
	if s.opts.Duplicates > 0 {
		p.recent[m.DedupID()] = recent{at.Offset, time.Now()}
	}
	if s.left > 0 {
		s.left--
	}
	s.wake()
	return ref, at
}

func (s *Sink) log(tp string) *messageLog {
	p := s.logs[tp]
	if p == nil {
		s.makings++
		p = &messageLog{incarnation: fmt.Sprint(s.makings), deleted: make(map[uint64]bool), recent: make(map[string]recent)}
		s.logs[tp] = p
	}
	return p
}

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
	case s.left == 0:
		return errHeld
	}
	return nil
}

// Close implements sink.Sink. What was published can still be seen by Messages.
func (s *Sink) Close() error {
	s.set(func() { s.closed = true; s.wake() })
	return nil
}

// TPs implements [sink.Reader]. A TP is there once it was created, or something was published to
// it.
func (s *Sink) TPs(ctx context.Context, destinations []string) (tps []sink.TP, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.readable(ctx); err != nil {
		return nil, err
	}
	for _, destination := range destinations {
		for _, name := range s.tps(destination) {
			p := s.logs[name]
			if p == nil || slices.ContainsFunc(tps, func(other sink.TP) bool { return other.Name == name }) {
				continue
			}
			end := uint64(len(p.messages)) + 1
			one := sink.TP{
				Name: name, Incarnation: p.incarnation, First: p.expired + 1, End: end, Stable: end, Expired: p.expired > 0, Thinned: len(p.deleted) > 0,
			}
			if s.opts.Partitions > 0 {
				one.Destination = destination
			}
			tps = append(tps, one)
		}
	}
	return tps, nil
}

// Read implements [sink.Reader].
func (s *Sink) Read(ctx context.Context, span sink.Span, each func(*sink.Stored) error) (next uint64, err error) {
	next = max(span.From, 1)
	for !span.Done(next) {
		m, changed, err := s.next(ctx, &span, next)
		if err != nil {
			return next, err
		}
		if changed != nil {
			select {
			case <-changed:
				continue
			case <-ctx.Done():
				return next, context.Cause(ctx)
			}
		}
		if next++; m == nil {
			continue
		}
		if err := each(m); err != nil {
			return next, err
		}
	}
	return next, nil
}

// next returns the message at an offset, nil if it was deleted. If the TP ends there, changed is
// closed when another look is worth while.
func (s *Sink) next(ctx context.Context, span *sink.Span, at uint64) (m *sink.Stored, changed <-chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.readable(ctx); err != nil {
		return nil, nil, err
	}
	p := s.logs[span.TP]
	switch {
	case p == nil || span.Incarnation != "" && span.Incarnation != p.incarnation:
		return nil, nil, fmt.Errorf("read %s: %w", span.TP, sink.ErrGone)
	case at <= p.expired:
		return nil, nil, &sink.ExpiredError{TP: span.TP, From: at, First: p.expired + 1}
	case at > uint64(len(p.messages))+1:
		return nil, nil, fmt.Errorf("read %s from %d: it ends at %d: %w", span.TP, at, len(p.messages), sink.ErrBehind)
	case at > uint64(len(p.messages)):
		return nil, s.waiting(), nil
	}
	span.Incarnation = p.incarnation
	if p.deleted[at] {
		return nil, nil, nil
	}
	kept := clone(p.messages[at-1])
	m = &sink.Stored{Offset: at, Destination: kept.Destination, Key: kept.Key, Value: kept.Value, Time: kept.Time.UnixMilli()}
	headers := sink.Headers{Keyless: s.opts.Stream != ""}
	if headers.Keyless {
		m.Key = nil
	}
	headers.Each(&kept, func(name, value string) { m.Headers = append(m.Headers, sink.Header{Name: name, Value: []byte(value)}) })
	return m, nil, nil
}

func (s *Sink) readable(ctx context.Context) error {
	if s.closed {
		return sink.ErrClosed
	}
	return context.Cause(ctx)
}

func (s *Sink) waiting() <-chan struct{} {
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.changed
}

func (s *Sink) wake() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// Those who wait are not told.
func (s *Sink) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// Pause lets the bus accept after more messages and then stand still until release is called:
// Publish blocks. Calling release more than once is fine.
func (s *Sink) Pause(after int) (release func()) {
	s.set(func() { s.left = after })
	return sync.OnceFunc(func() { s.set(func() { s.left = -1; s.wake() }) })
}

// Reject refuses for good the messages for which reason returns a text that is not empty. Nil ends
// that.
func (s *Sink) Reject(reason func(*sink.Message) string) { s.set(func() { s.reject = reason }) }

// Lose drops the last n messages of a TP, as a bus does that acknowledged before it wrote to the
// disk.
func (s *Sink) Lose(tp string, n int) {
	s.set(func() {
		if p := s.logs[tp]; p != nil {
			left := max(len(p.messages)-n, 0)
			p.messages = p.messages[:left]
			maps.DeleteFunc(p.recent, func(_ string, r recent) bool { return r.offset > uint64(left) })
		}
	})
}

// Wipe removes all TPs with their messages. One that is published to afterwards has a new
// incarnation.
func (s *Sink) Wipe() { s.set(func() { clear(s.logs); s.wake() }) }

// Create makes the TPs of a destination, which hold nothing.
func (s *Sink) Create(destination string) {
	s.set(func() {
		for _, tp := range s.tps(destination) {
			s.log(tp)
		}
	})
}

// Expire removes the messages of a TP up to an offset from what a Reader sees.
func (s *Sink) Expire(tp string, last uint64) {
	s.set(func() {
		if p := s.logs[tp]; p != nil {
			p.expired = min(max(p.expired, last), uint64(len(p.messages)))
		}
	})
}

// Delete removes single messages of a TP from what a Reader sees.
func (s *Sink) Delete(tp string, offsets ...uint64) {
	s.set(func() {
		for _, at := range offsets {
			s.log(tp).deleted[at] = true
		}
	})
}

func clone(m sink.Message) sink.Message {
	m.Key, m.Value = bytes.Clone(m.Key), bytes.Clone(m.Value)
	if m.Bare != nil {
		bare := *m.Bare
		bare.Headers = slices.Clone(bare.Headers)
		for i, h := range bare.Headers {
			bare.Headers[i].Value = bytes.Clone(h.Value)
		}
		m.Bare = &bare
	}
	return m
}
