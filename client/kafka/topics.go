package kafka

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"example.org/bridge/client/backoff"
	"example.org/bridge/client/bus"
	"example.org/bridge/client/kafka/broker"
)

// topics shares out the partitions of a group as the library does, but also where topics are
// missing: of those the library finds no partition of any topic.
type topics struct {
	kafkago.GroupBalancer
	reader *broker.Reader
	fault  bus.Fault
	// shared counts the partitions by topic that this process has shared out, where it leads the
	// group: until they are watched.
	shared *atomic.Pointer[map[string]int]
}

// AssignGroups implements kafkago.GroupBalancer.
func (t topics) AssignGroups(members []kafkago.GroupMember, _ []kafkago.Partition) kafkago.GroupMemberAssignments {
	var names []string
	for i := range members {
		names = append(names, members[i].Topics...)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	counts, err := t.count(context.Background(), names)
	if err != nil {
		// The look that follows has them shared out again: it asks for the topics that count here.
		counts = make(map[string]int)
		for _, name := range names {
			counts[name] = 0
		}
	}
	t.shared.Store(&counts)
	var partitions []kafkago.Partition
	for topic, n := range counts {
		for id := range n {
			partitions = append(partitions, kafkago.Partition{Topic: topic, ID: id})
		}
	}
	return t.GroupBalancer.AssignGroups(members, partitions)
}

// count asks how many partitions topics have. One that is missing is a fault, and has 0.
func (t topics) count(ctx context.Context, names []string) (map[string]int, error) {
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	found, _, err := t.reader.Metadata(ctx, names)
	if err != nil {
		return nil, err
	}
	counts := make(map[string]int)
	for i := range found.Topics {
		topic := &found.Topics[i]
		name, code := broker.NameOf(topic), kafkago.Error(topic.ErrorCode)
		switch {
		case code == kafkago.UnknownTopicOrPartition:
			t.fault.Fail("", name, t.reader.Explain(name, code))
		case code != 0:
			return nil, fmt.Errorf("look for the topic %s: %w", name, t.reader.Explain(name, code))
		}
		counts[name] = len(topic.Partitions)
	}
	return counts, nil
}

// watch looks for topics until ctx ends, or partitions are to be shared out again: where this
// process leads the group and there are others than it has shared out. It takes a second at least,
// as often as the group may join again at most.
func (t topics) watch(ctx, life context.Context, names []string) {
	begun, shared := time.Now(), t.shared.Swap(nil)
	if shared != nil {
		names = slices.Sorted(maps.Keys(*shared))
	}
	for {
		counts, err := t.count(ctx, names)
		if err != nil && ctx.Err() == nil {
			t.fault.Fail("", "topics", err)
		}
		if err == nil && shared != nil && !maps.Equal(counts, *shared) || backoff.Pause(ctx, partitionCheck) != nil {
			break
		}
	}
	_ = backoff.Pause(life, joinPause-time.Since(begun)) // life ends the group, too
}
