package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"bridge/internal/backoff"
	"bridge/internal/verify"
)

const (
	connectWithin = 5 * time.Second
	layoutAge     = 5 * time.Second
	// answerWithin bounds one request, giveUpAfter how long requests may fail one after another.
	answerWithin = 20 * time.Second
	giveUpAfter  = 30 * time.Second
	fetchBytes   = 2 << 20
	fetchWait    = 500 * time.Millisecond
	// progressEvery is a number of records.
	progressEvery = 1000
)

// Bus reads topics.
type Bus struct {
	options    Options
	transport  *kafkago.Transport
	client     *kafkago.Client
	partitions []*partition
}

var _ verify.Bus = (*Bus)(nil)

// partition is one topic-partition.
type partition struct {
	verify.Partition
	topic  string
	number int
	// end is the offset behind the last record to be read.
	end int64
}

// Open connects and learns the partitions of the topics. A topic that is missing is an error.
func Open(ctx context.Context, o Options) (*Bus, error) {
	transport, err := o.transport()
	if err != nil {
		return nil, err
	}
	b := &Bus{options: o, transport: transport}
	b.client = &kafkago.Client{Addr: kafkago.TCP(o.Brokers...), Timeout: answerWithin, Transport: transport}
	if err := b.learn(ctx); err != nil {
		transport.CloseIdleConnections()
		return nil, err
	}
	return b, nil
}

// Close releases the connections.
func (b *Bus) Close() error {
	b.transport.CloseIdleConnections()
	return nil
}

// Partitions returns the partitions.
func (b *Bus) Partitions() []verify.Partition {
	list := make([]verify.Partition, len(b.partitions))
	for i, p := range b.partitions {
		list[i] = p.Partition
	}
	return list
}

// insist repeats what fails until it succeeds, for as long as giveUpAfter at most.
func (b *Bus) insist(ctx context.Context, what string, do func() error) error {
	pause := backoff.Backoff{First: 100 * time.Millisecond, Max: 2 * time.Second, Limit: giveUpAfter}
	err := pause.Retry(ctx, do, func(err error) bool {
		// The library refreshes what it knows of the cluster by time only; new connections begin
		// with it.
		b.transport.CloseIdleConnections()
		return !errors.Is(err, errGone) && !errors.Is(err, kafkago.SASLAuthenticationFailed) &&
			!errors.Is(err, kafkago.TopicAuthorizationFailed)
	})
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// learn asks for the partitions of the topics.
func (b *Bus) learn(ctx context.Context) error {
	var found *kafkago.MetadataResponse
	if err := b.insist(ctx, "ask Kafka for its topics", func() (err error) {
		found, err = b.client.Metadata(ctx, &kafkago.MetadataRequest{Topics: b.options.Topics})
		if err != nil {
			return err
		}
		for _, t := range found.Topics {
			if t.Error != nil && !errors.Is(t.Error, kafkago.UnknownTopicOrPartition) {
				return fmt.Errorf("topic %s: %w", t.Name, t.Error)
			}
		}
		return nil
	}); err != nil {
		return err
	}
	for _, name := range b.options.Topics {
		at := slices.IndexFunc(found.Topics, func(t kafkago.Topic) bool { return t.Name == name })
		if at < 0 || found.Topics[at].Error != nil {
			return fmt.Errorf("the topic %s does not exist, or this login may not read it: create it, or grant READ and DESCRIBE", name)
		}
		numbers := found.Topics[at].Partitions
		slices.SortFunc(numbers, func(a, b kafkago.Partition) int { return a.ID - b.ID })
		for _, p := range numbers {
			b.partitions = append(b.partitions, &partition{
				topic: name, number: p.ID, Partition: verify.Partition{Name: fmt.Sprintf("%s/%d", name, p.ID), Destination: name},
			})
		}
	}
	for _, p := range b.partitions {
		first, _, err := b.bounds(ctx, p)
		if err != nil {
			return err
		}
		p.First, p.Next, p.Expired = uint64(first), uint64(first), first > 0
	}
	return nil
}

// bounds asks for the log start of a partition and for the offset that its next record will get.
func (b *Bus) bounds(ctx context.Context, p *partition) (first, next int64, err error) {
	err = b.insist(ctx, "ask for the bounds of "+p.Name, func() error {
		answer, err := b.client.ListOffsets(ctx, &kafkago.ListOffsetsRequest{Topics: map[string][]kafkago.OffsetRequest{
			p.topic: {kafkago.FirstOffsetOf(p.number), kafkago.LastOffsetOf(p.number)},
		}})
		if err != nil {
			return err
		}
		list := answer.Topics[p.topic]
		if len(list) != 1 {
			return fmt.Errorf("the broker answers for %d partitions", len(list))
		}
		first, next = list[0].FirstOffset, list[0].LastOffset
		return list[0].Error
	})
	return first, next, err
}
