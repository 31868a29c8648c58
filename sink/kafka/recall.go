package kafka

import (
	"context"
	"errors"
	"slices"

	"bridge/sink"
)

var _ sink.Recaller = (*Sink)(nil)

// Recall implements [sink.Recaller]. It needs READ and DESCRIBE on the topics.
func (s *Sink) Recall(ctx context.Context, marks []sink.Offset, each func(*sink.Message) error) (ends []sink.Offset, err error) {
	ctx, cancel := s.within(ctx)
	defer cancel()
	var topics []string
	after, ids := make(map[string]uint64), make(map[string]string)
	for i := range marks {
		topic, _, err := parseTP(marks[i].TP)
		if err != nil {
			continue
		}
		if !slices.Contains(topics, topic) {
			topics = append(topics, topic)
		}
		after[marks[i].TP] = marks[i].Last + 1
		if marks[i].Incarnation != "" {
			ids[topic] = marks[i].Incarnation
		}
	}
	tps, err := s.TPs(ctx, topics)
	if err != nil {
		return nil, err
	}
	for i := range tps {
		tp := &tps[i]
		if id := ids[tp.Destination]; id != "" && tp.Incarnation != "" && tp.Incarnation != id {
			continue
		}
		end, err := s.recall(ctx, tp, max(tp.First, after[tp.Name]), each)
		if errors.Is(err, sink.ErrGone) {
			// What was there is lost: Verify judges that.
			continue
		}
		if err != nil {
			return nil, err
		}
		if end != nil {
			ends = append(ends, *end)
		}
	}
	return ends, nil
}

// recall reads a partition from an offset to its end, which it returns unless nothing is there.
func (s *Sink) recall(ctx context.Context, tp *sink.TP, from uint64, each func(*sink.Message) error) (*sink.Offset, error) {
	if from >= tp.End {
		return nil, nil
	}
	end := sink.Offset{TP: tp.Name, Incarnation: tp.Incarnation, Last: tp.End - 1}
	for from < tp.End {
		next, err := s.Read(ctx, sink.Span{TP: tp.Name, Incarnation: tp.Incarnation, From: from, To: tp.End}, func(stored *sink.Stored) error {
			m := sink.Message{Key: stored.Key, Value: stored.Value}
			for i := range stored.Headers {
				m.SetHeader(stored.Headers[i].Name, string(stored.Headers[i].Value))
			}
			if stored.Offset == end.Last {
				end.ID = m.ID
			}
			if m.Stream == "" {
				return nil
			}
			return each(&m)
		})
		if expired, ok := errors.AsType[*sink.ExpiredError](err); ok {
			from = max(next, min(expired.First, tp.End))
			continue
		}
		if err != nil {
			return nil, err
		}
		from = next
	}
	return &end, nil
}
