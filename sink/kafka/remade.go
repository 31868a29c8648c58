package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"bridge/internal/backoff"
	"bridge/sink"
)

// identify asks for the ids of topics. One that is another than before is asked for again: just
// after a topic was made, brokers may differ about it.
func (s *Sink) identify(ctx context.Context, topics []string) (map[string]string, int, error) {
	for changed := 0; ; {
		ids, generation, err := s.cluster.topicIDs(ctx, topics)
		if err != nil || !s.differ(ids) {
			return ids, generation, err
		}
		if changed++; changed >= verdictAfter {
			return ids, generation, nil
		}
		s.cluster.renew(generation)
		if err := backoff.Pause(ctx, verdictPause); err != nil {
			return nil, generation, err
		}
	}
}

// differ reports whether one of ids is another than the one that is known of its topic.
func (s *Sink) differ(ids map[string]string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, id := range ids {
		if t := s.topics[name]; t != nil && t.id != "" && t.id != id {
			return true
		}
	}
	return false
}

// noteTopicID notes the id of the worker's topic. The first one that is told is taken for that of
// the topic that acknowledged what was published before.
func (l *worker) noteTopicID(topicID string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case topicID == "" || topicID == l.topicID:
	case l.topicID == "" || l.last < 0:
		l.topicID = topicID
	default:
		l.remade = behind(&sink.Offset{TP: l.tp, Last: uint64(l.last)}, recreated(topicID, l.topicID))
	}
}

func recreated(id, former string) string {
	return fmt.Sprintf("the topic was recreated: its id is %s, it was %s", id, former)
}

// noteJump has the topic looked at again soon where others have written after what was
// acknowledged last: they may have filled up another topic of the same name.
func (l *worker) noteJump(base int64) {
	l.mu.Lock()
	jumped := l.last >= 0 && base > l.last+1
	l.mu.Unlock()
	if jumped {
		l.sink.forgetLookup(l.topic)
	}
}

// forgetLookup has a topic asked for at its next use, unless it was within layoutAge.
func (s *Sink) forgetLookup(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.topics[name]; t != nil && time.Since(t.checked) > layoutAge {
		t.checked = time.Time{}
	}
}

// wasRemade returns the loss that the topic's id tells, nil when there is none.
func (l *worker) wasRemade() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.remade
}

// incarnation returns the id of the topic that acknowledged what was published.
func (l *worker) incarnation() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.topicID
}

// amiss returns what shows that a partition is not the one that an offset was made of, or has lost
// what it had acknowledged; "" where nothing does.
func (s *Sink) amiss(ctx context.Context, m *sink.Offset, topic string, partition int32) (string, error) {
	end, err := s.endOf(ctx, topic, partition)
	switch {
	case err != nil:
		return "", err
	case end <= int64(m.Last):
		return ending(end), nil
	}
	if m.Incarnation != "" {
		ids, generation, err := s.cluster.topicIDs(ctx, []string{topic})
		if err != nil {
			s.cluster.renew(generation)
			return "", err
		}
		if id := ids[topic]; id != "" && id != m.Incarnation {
			return recreated(id, m.Incarnation), nil
		}
	}
	if m.ID == "" {
		return "", nil
	}
	return s.otherRecord(ctx, m, topic, partition)
}

// otherRecord reads the record at an offset and returns what shows that it is another one. One that
// has expired or was compacted away, and one that may not be read, shows nothing.
func (s *Sink) otherRecord(ctx context.Context, m *sink.Offset, topic string, partition int32) (string, error) {
	res, generation, err := s.cluster.roundTrip(ctx, &fetchRequest{
		topic: topic, partition: partition, offset: int64(m.Last), clientID: s.cluster.clientID, uncommitted: true,
	})
	if errors.Is(err, kafkago.OffsetOutOfRange) || errors.Is(err, kafkago.TopicAuthorizationFailed) {
		return "", nil
	}
	if err != nil {
		s.cluster.renew(generation)
		return "", err
	}
	found := false
	var id string
	d := decoder{topic: topic, next: int64(m.Last), to: int64(m.Last) + 1, each: func(stored *sink.Stored) error {
		found, id = true, string(stored.Header(sink.HeaderID))
		return nil
	}}
	if err := d.decode(res.(*fetchAnswer)); err != nil {
		return "", fmt.Errorf("read the record at offset %d of %s: %w", m.Last, m.TP, err)
	}
	switch {
	case !found || id == m.ID:
		return "", nil
	case id == "":
		return "the record there is none of bridge: the topic was restored or recreated", nil
	}
	return fmt.Sprintf("the record there is the event %s instead of %s: the topic was restored or recreated", id, m.ID), nil
}
