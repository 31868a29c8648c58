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
	// A verdict stops a stream: what shows a loss is looked at again, because just after an
	// election a broker may not know yet how far its replicas are, and just after a topic was made
	// which one it is.
	verdictAfter = 3
	verdictPause = 300 * time.Millisecond
)

// behind says that a tp is not what its offset was made of.
func behind(m *sink.Offset, what string) error {
	return fmt.Errorf("%w: offset %d of %s was acknowledged, but %s", sink.ErrBehind, m.Last, m.TP, what)
}

// Verify implements [sink.Sink]. A topic that is missing is waited for: it may be on its way, or
// its name mistyped. A partition that is missing is lost. What it finds is also held against every
// batch that is acknowledged later.
func (s *Sink) Verify(ctx context.Context, offsets []sink.Offset) error {
	ctx, cancel := s.within(ctx)
	defer cancel()
	for i := range offsets {
		if err := s.verify(ctx, &offsets[i]); err != nil {
			return err
		}
		s.pin(&offsets[i])
	}
	return nil
}

// pin has a worker hold its partition against an offset at every batch.
func (s *Sink) pin(m *sink.Offset) {
	topic, partition, err := parseTP(m.TP)
	if err != nil {
		return
	}
	s.workerOf(topic, partition).pin(m)
}

func (s *Sink) workerOf(topic string, partition int32) *worker {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.worker(topic, partition)
}

// verify judges one offset.
func (s *Sink) verify(ctx context.Context, m *sink.Offset) error {
	topic, partition, err := parseTP(m.TP)
	if err != nil {
		return behind(m, err.Error())
	}
	who := "verify " + m.TP
	defer s.faults.ok(who)
	s.cluster.follow([]string{topic})
	var pause backoff.Backoff
	l := s.workerOf(topic, partition)
	w := l.watch(m)
	defer l.unwatch(w)
	for wrongs := 0; ; {
		wrong, err := s.amiss(ctx, m, topic, partition)
		switch {
		case err == nil && wrong == "":
			return l.check(w)
		case err == nil:
			if wrongs++; wrongs >= verdictAfter {
				return behind(m, wrong)
			}
			if err := backoff.Pause(ctx, verdictPause); err != nil {
				return err
			}
		case ctx.Err() != nil:
			return context.Cause(ctx)
		default:
			s.faults.fail(who, scope(topic, partition, err), explainOffset(topic, err))
			if err := pause.Wait(ctx); err != nil {
				return err
			}
		}
	}
}

// explainOffset is explain for a topic of which there is an offset.
func explainOffset(topic string, err error) error {
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
		return 0, fmt.Errorf("the broker answers a question for the end of %s with %d topics", tp(topic, partition), len(list.Topics))
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

func parseTP(tp string) (topic string, partition int32, err error) {
	topic, number, _ := strings.Cut(tp, "/")
	n, err := strconv.ParseUint(number, 10, 31)
	if err != nil || checkTopicName(topic) != nil {
		return "", 0, fmt.Errorf("the checkpoint names %q, which is not a Kafka partition: it was made with another bus", tp)
	}
	return topic, int32(n), nil
}
