package memory

import (
	"context"
	"fmt"
	"slices"

	"bridge/sink"
)

var _ sink.Reader = (*Sink)(nil)

// TPs implements [sink.Reader]. A TP is there once it was created, or something was published to
// it.
func (s *Sink) TPs(ctx context.Context, destinations []string) ([]sink.TP, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.readable(ctx); err != nil {
		return nil, err
	}
	var tps []sink.TP
	for _, destination := range destinations {
		for _, name := range s.tps(destination) {
			p := s.logs[name]
			if p == nil || slices.ContainsFunc(tps, func(other sink.TP) bool { return other.Name == name }) {
				continue
			}
			end := uint64(len(p.messages)) + 1
			one := sink.TP{
				Name: name, Incarnation: p.incarnation(), First: p.first(), End: end, Stable: end, Expired: p.expired > 0, Thinned: len(p.deleted) > 0,
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
		if m == nil {
			select {
			case <-changed:
				continue
			case <-ctx.Done():
				return next, context.Cause(ctx)
			}
		}
		next++
		if m.Offset == 0 {
			continue
		}
		if err := each(m); err != nil {
			return next, err
		}
	}
	return next, nil
}

// next returns the message at an offset, without an offset if it was deleted. If the TP ends there
// the message is nil, and changed is closed when another look is worth while.
func (s *Sink) next(ctx context.Context, span *sink.Span, at uint64) (m *sink.Stored, changed <-chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.readable(ctx); err != nil {
		return nil, nil, err
	}
	p := s.logs[span.TP]
	switch {
	case p == nil:
		return nil, nil, fmt.Errorf("read %s: %w", span.TP, sink.ErrGone)
	case span.Incarnation != "" && span.Incarnation != p.incarnation():
		return nil, nil, fmt.Errorf("read %s: it was created again: %w", span.TP, sink.ErrGone)
	case at < p.first():
		return nil, nil, &sink.ExpiredError{TP: span.TP, From: at, First: p.first()}
	case at > uint64(len(p.messages))+1:
		return nil, nil, fmt.Errorf("read %s from %d: it ends at %d: %w", span.TP, at, len(p.messages), sink.ErrBehind)
	case at > uint64(len(p.messages)):
		if s.appended == nil {
			s.appended = make(chan struct{})
		}
		return nil, s.appended, nil
	}
	span.Incarnation = p.incarnation()
	if p.deleted[at] {
		return &sink.Stored{}, nil, nil
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

// readable returns why nothing may be read. s.mu is held.
func (s *Sink) readable(ctx context.Context) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case s.closed:
		return sink.ErrClosed
	}
	return nil
}

// wakeReaders lets every Read that waits look again. s.mu is held.
func (s *Sink) wakeReaders() {
	if s.appended != nil {
		close(s.appended)
		s.appended = nil
	}
}

// first returns the offset of the first message that is left.
func (p *messageLog) first() uint64 { return p.expired + 1 }

func (p *messageLog) incarnation() string { return fmt.Sprint(p.making) }

// Create makes the TPs of a destination, which hold nothing.
func (s *Sink) Create(destination string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, tp := range s.tps(destination) {
		s.log(tp)
	}
}

// Expire removes the messages of a TP up to an offset from what a Reader sees.
func (s *Sink) Expire(tp string, last uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.logs[tp]; p != nil {
		p.expired = min(max(p.expired, last), uint64(len(p.messages)))
	}
}

// Delete removes single messages of a TP from what a Reader sees.
func (s *Sink) Delete(tp string, offsets ...uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.logs[tp]; p != nil {
		if p.deleted == nil {
			p.deleted = make(map[uint64]bool)
		}
		for _, at := range offsets {
			p.deleted[at] = true
		}
	}
}
