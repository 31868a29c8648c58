package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/segmentio/kafka-go/protocol/listoffsets"

	"bridge/sink"
)

// What ListOffsets is asked for: the first offset that is left, or the end.
const (
	earliest = -2
	latest   = -1
)

// TPs implements [sink.Reader]. It needs DESCRIBE on the topics. A topic that is missing is asked
// for again for a few seconds.
func (s *Sink) TPs(ctx context.Context, destinations []string) ([]sink.TP, error) {
	ctx, cancel := s.within(ctx)
	defer cancel()
	var tps []sink.TP
	for _, topic := range destinations {
		if sink.CheckTopic(topic) != nil {
			continue
		}
		t := attempts{cluster: s.cluster, faults: s.faults, who: "describe " + topic, topic: topic, partition: -1, giveUp: s.giveUpAfter}
		found, err := t.describe(ctx)
		t.ended(ctx, err)
		if errors.Is(err, sink.ErrGone) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("ask for the partitions of %s: %w", topic, err)
		}
		tps = append(tps, found...)
	}
	return tps, nil
}

// describe returns the partitions of the topic.
func (t *attempts) describe(ctx context.Context) (tps []sink.TP, err error) {
	var id string
	var partitions []int32
	if err := t.retry(ctx, func() (int, error) {
		found, generation, err := t.cluster.metadata(ctx, []string{t.topic})
		if err != nil {
			return generation, err
		}
		partitions = nil
		for i := range found.Topics {
			topic := &found.Topics[i]
			if err := answer(topic.ErrorCode, ""); err != nil {
				return generation, err
			}
			id = idOf(topic)
			for _, p := range topic.Partitions {
				partitions = append(partitions, p.Partition)
			}
		}
		return generation, nil
	}); err != nil {
		return nil, err
	}
	t.cluster.follow([]string{t.topic})
	slices.Sort(partitions)
	var found map[int32]bounds
	if err := t.retry(ctx, func() (generation int, err error) {
		found, generation, err = t.cluster.bounds(ctx, t.topic, partitions)
		return generation, err
	}); err != nil {
		return nil, err
	}
	for _, p := range partitions {
		b := found[p]
		tps = append(tps, sink.TP{
			Name: tp(t.topic, p), Destination: t.topic, Incarnation: id,
			First: uint64(b.first), End: uint64(b.end), Stable: uint64(min(b.stable, b.end)), Expired: b.first > 0,
		})
	}
	return tps, nil
}

// bounds are the log start, the high watermark and the last stable offset of a partition.
type bounds struct{ first, end, stable int64 }

// bounds asks the leaders for the bounds of partitions.
func (c *cluster) bounds(ctx context.Context, topic string, partitions []int32) (map[int32]bounds, int, error) {
	found := make(map[int32]bounds, len(partitions))
	var generation int
	for _, question := range []struct {
		timestamp int64
		isolation int8
		set       func(*bounds, int64)
	}{
		{earliest, 0, func(b *bounds, at int64) { b.first = at }},
		{latest, readCommitted, func(b *bounds, at int64) { b.stable = at }},
		// Last, so that nothing that was read before lies beyond it.
		{latest, 0, func(b *bounds, at int64) { b.end = at }},
	} {
		request := &listoffsets.Request{ReplicaID: -1, IsolationLevel: question.isolation, Topics: []listoffsets.RequestTopic{{Topic: topic}}}
		for _, p := range partitions {
			request.Topics[0].Partitions = append(request.Topics[0].Partitions,
				listoffsets.RequestPartition{Partition: p, CurrentLeaderEpoch: -1, Timestamp: question.timestamp})
		}
		res, at, err := c.roundTrip(ctx, request)
		generation = at
		if err != nil {
			return nil, generation, err
		}
		answered := 0
		for _, t := range res.(*listoffsets.Response).Topics {
			for _, p := range t.Partitions {
				if err := answer(p.ErrorCode, ""); err != nil {
					return nil, generation, err
				}
				if t.Topic != topic || p.Offset < 0 {
					return nil, generation, fmt.Errorf("the broker gives %d as a bound of %s", p.Offset, tp(t.Topic, p.Partition))
				}
				b := found[p.Partition]
				question.set(&b, p.Offset)
				found[p.Partition] = b
				answered++
			}
		}
		if answered != len(partitions) {
			return nil, generation, fmt.Errorf("the brokers answer for %d of %d partitions of %s", answered, len(partitions), topic)
		}
	}
	return found, generation, nil
}
