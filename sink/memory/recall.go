package memory

import (
	"context"
	"fmt"

	"bridge/sink"
)

var _ sink.Recaller = (*Sink)(nil)

// Recall implements [sink.Recaller].
func (s *Sink) Recall(ctx context.Context, marks []sink.Offset, each func(*sink.Message) error) (ends []sink.Offset, err error) {
	for _, mark := range marks {
		held, err := s.behind(mark)
		if err != nil {
			return nil, err
		}
		if len(held) > 0 {
			ends = append(ends, sink.Offset{TP: mark.TP, Incarnation: mark.Incarnation, Last: mark.Last + uint64(len(held)), ID: held[len(held)-1].ID})
		}
		for i := range held {
			if err := ctx.Err(); err != nil {
				return nil, context.Cause(ctx)
			}
			held[i].Destination = ""
			if err := each(&held[i]); err != nil {
				return nil, err
			}
		}
	}
	return ends, nil
}

// behind returns what a destination holds behind a mark.
func (s *Sink) behind(mark sink.Offset) ([]sink.Message, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.logs[mark.TP]
	switch {
	case s.closed:
		return nil, sink.ErrClosed
	case s.unreadable != nil:
		return nil, fmt.Errorf("%w: %w", sink.ErrUnreadable, s.unreadable)
	case p == nil || mark.Incarnation != fmt.Sprint(p.making) || mark.Last >= uint64(len(p.messages)):
		return nil, nil
	}
	var held []sink.Message
	for _, m := range p.messages[mark.Last:] {
		held = append(held, clone(m))
	}
	return held, nil
}

// Hide makes Recall fail with sink.ErrUnreadable for a reason; nil ends that.
func (s *Sink) Hide(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unreadable = why
}
