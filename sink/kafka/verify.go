package kafka

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/listoffsets"
	"github.com/segmentio/kafka-go/protocol/metadata"

	"bridge/internal/backoff"
	"bridge/sink"
)

const (
	// A verdict stops a stream: an end that lies behind is asked for again, because just after an election a broker may
	// not know yet how far its replicas are.
	verdictAfter = 3
	verdictPause = 300 * time.Millisecond
)

// behind says that a place ends before its mark.
func behind(m *sink.Mark, what string) error {
	return fmt.Errorf("%w: offset %d of %s was acknowledged, but %s", sink.ErrBehind, m.Last, m.Place, what)
}

// Verify implements [sink.Sink]. A topic that is missing is waited for: it may be on its way, or its name mistyped. A
// partition that is missing is lost. What it finds is also held against every batch that is acknowledged later.
func (s *Sink) Verify(ctx context.Context, marks []sink.Mark) error {
	ctx, cancel := s.within(ctx)
	defer cancel()
	for i := range marks {
		if err := s.verify(ctx, &marks[i]); err != nil {
			return err
		}
		s.pin(&marks[i])
	}
	return nil
}

// pin has a lane hold its partition against a mark at every batch.
func (s *Sink) pin(m *sink.Mark) {
	topic, partition, err := parsePlace(m.Place)
	if err != nil {
		return
	}
	s.laneOf(topic, partition).pin(m.Last)
}

func (s *Sink) laneOf(topic string, partition int32) *lane {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lane(topic, partition)
}

// verify judges one mark.
func (s *Sink) verify(ctx context.Context, m *sink.Mark) error {
	topic, partition, err := parsePlace(m.Place)
	if err != nil {
		return behind(m, err.Error())
	}
	who := "verify " + m.Place
	defer s.faults.ok(who)
	s.cluster.follow([]string{topic})
	pause := newBackoff()
	l := s.laneOf(topic, partition)
	w := l.watch(m)
	defer l.unwatch(w)
	for shorter := 0; ; {
		end, err := s.endOf(ctx, topic, partition)
		switch {
		case err == nil && end > int64(m.Last):
			return l.judge(w)
		case err == nil:
			if shorter++; shorter >= verdictAfter {
				return behind(m, ending(end))
			}
			if err := backoff.Pause(ctx, verdictPause); err != nil {
				return err
			}
		case ctx.Err() != nil:
			return context.Cause(ctx)
		default:
			s.faults.fail(who, scope(topic, partition, err), explainMark(topic, err))
			if err := pause.Wait(ctx); err != nil {
				return err
			}
		}
	}
}

// explainMark is explain for a topic of which there is a mark.
func explainMark(topic string, err error) error {
	explained := explain(topic, err)
	if errors.Is(err, kafkago.UnknownTopicOrPartition) {
		explained = fmt.Errorf("%w; the checkpoint says that acknowledged messages are there; where bridge is to publish there no more, "+
			"`bridge checkpoint set <stream> <shard> <its present id>` forgets that", explained)
	}
	return explained
}

// ending describes the end of a partition.
func ending(end int64) string {
	switch end {
	case gone:
		return "the topic has no such partition any more"
	case 0:
		return "the partition is empty"
	}
	return fmt.Sprintf("the partition ends with offset %d", end-1)
}

// gone is the end of a partition that does not exist while its topic does.
const gone = -1

// endOf returns the offset that the next record of a partition will get.
func (s *Sink) endOf(ctx context.Context, topic string, partition int32) (int64, error) {
	topics, generation, err := s.cluster.metadata(ctx, []string{topic})
	if err != nil {
		s.cluster.renew(generation)
		return 0, err
	}
	for i := range topics {
		t := &topics[i]
		if err := answer(t.ErrorCode, ""); err != nil {
			return 0, err
		}
		if t.Name == topic && !hasPartition(t, partition) {
			return gone, nil
		}
	}
	res, generation, err := s.cluster.roundTrip(ctx, &listoffsets.Request{
		ReplicaID: -1,
		Topics: []listoffsets.RequestTopic{{
			Topic: topic,
			Partitions: []listoffsets.RequestPartition{{
				Partition: partition, CurrentLeaderEpoch: -1, Timestamp: latest,
			}},
		}},
	})
	if err != nil {
		s.cluster.renew(generation)
		return 0, err
	}
	list := res.(*listoffsets.Response)
	if len(list.Topics) != 1 || len(list.Topics[0].Partitions) != 1 {
		return 0, fmt.Errorf("the broker answers a question for the end of %s with %d topics", place(topic, partition), len(list.Topics))
	}
	p := &list.Topics[0].Partitions[0]
	if err := answer(p.ErrorCode, ""); err != nil {
		s.cluster.renew(generation)
		return 0, err
	}
	return p.Offset, nil
}

// latest asks ListOffsets for the end.
const latest = -1

func hasPartition(t *metadata.ResponseTopic, partition int32) bool {
	for _, p := range t.Partitions {
		if p.PartitionIndex == partition {
			return true
		}
	}
	return false
}

func parsePlace(place string) (topic string, partition int32, err error) {
	topic, number, _ := strings.Cut(place, "/")
	n, err := strconv.ParseUint(number, 10, 31)
	if err != nil || checkTopicName(topic) != nil {
		return "", 0, fmt.Errorf("%q is no partition of Kafka, so the checkpoint was made with another bus", place)
	}
	return topic, int32(n), nil
}
