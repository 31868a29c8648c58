package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"bridge/internal/backoff"
	"bridge/sink"
)

const (
	// recallBytes bounds an answer, recallWait how long the broker collects it.
	recallBytes = 2 << 20
	recallWait  = 500 * time.Millisecond
)

var _ sink.Recaller = (*Sink)(nil)

// stretch is what a partition holds behind a mark: the offsets from next up to end, which is not
// one of them.
type stretch struct {
	topic     string
	partition int
	next, end int64
	// last is the id of the message before the end, once it was read.
	last string
}

// Recall implements [sink.Recaller]. It needs READ on the topics.
func (s *Sink) Recall(ctx context.Context, marks []sink.Offset, each func(*sink.Message) error) (ends []sink.Offset, err error) {
	ctx, cancel := s.within(ctx)
	defer cancel()
	after, ids := make(map[string]map[int]int64), make(map[string]string)
	for i := range marks {
		topic, partition, err := parseTP(marks[i].TP)
		if err != nil {
			continue
		}
		if after[topic] == nil {
			after[topic] = make(map[int]int64)
		}
		after[topic][int(partition)] = int64(marks[i].Last) + 1
		if marks[i].Incarnation != "" {
			ids[topic] = marks[i].Incarnation
		}
	}
	for topic, from := range after {
		s.cluster.follow([]string{topic})
		r := &recall{sink: s, client: &kafkago.Client{Addr: s.cluster.addr, Transport: reader{s.cluster}, Timeout: answerWithin}, each: each}
		if err := r.topic(ctx, topic, ids[topic], from); err != nil {
			return nil, err
		}
		ends = append(ends, r.ends...)
	}
	return ends, nil
}

// reader sends the requests of a kafka-go client the way of all others.
type reader struct{ *cluster }

func (r reader) RoundTrip(ctx context.Context, _ net.Addr, request kafkago.Request) (kafkago.Response, error) {
	answer, generation, err := r.roundTrip(ctx, request)
	if err != nil {
		r.renew(generation)
	}
	return answer, err
}

// recall is one call of Recall. Its memory is used again for every record.
type recall struct {
	sink       *Sink
	client     *kafkago.Client
	each       func(*sink.Message) error
	ends       []sink.Offset
	key, value []byte
}

// topic reads what a topic holds behind the given offsets, one partition after the other. It reads
// nothing where the topic's id is known and not the one given.
func (r *recall) topic(ctx context.Context, topic, id string, from map[int]int64) error {
	var stretches []stretch
	var now string
	err := r.insist(ctx, topic, func() (err error) {
		if now, err = r.topicID(ctx, topic); err != nil || id != "" && now != "" && now != id {
			return err
		}
		stretches, err = r.stretches(ctx, topic, from)
		return err
	})
	if errors.Is(err, kafkago.UnknownTopicOrPartition) {
		// What was there is lost, or on its way: Verify judges that.
		return nil
	}
	if err != nil {
		return err
	}
	for i := range stretches {
		p := &stretches[i]
		if err := r.read(ctx, p); err != nil {
			return err
		}
		r.ends = append(r.ends, sink.Offset{TP: tp(p.topic, int32(p.partition)), Incarnation: now, Last: uint64(p.end) - 1, ID: p.last})
	}
	return nil
}

// topicID returns the id of a topic, empty where the cluster does not tell.
func (r *recall) topicID(ctx context.Context, topic string) (string, error) {
	ids, generation, err := r.sink.cluster.topicIDs(ctx, []string{topic})
	if err != nil {
		r.sink.cluster.renew(generation)
	}
	return ids[topic], err
}

// insist repeats what fails until it succeeds. What a person has to grant, and a topic that is not
// there, is not waited for.
func (r *recall) insist(ctx context.Context, place string, do func() error) error {
	who := "recall " + place
	defer r.sink.faults.ok(who)
	var pause backoff.Backoff
	for missing := 0; ; {
		err := do()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, kafkago.TopicAuthorizationFailed):
			return fmt.Errorf("%w: grant READ on topic %s to the user of bridge: %w", sink.ErrUnreadable, sink.TopicOf(place), err)
		case errors.Is(err, kafkago.UnknownTopicOrPartition):
			if missing++; missing >= verdictAfter {
				return err
			}
			if err := backoff.Pause(ctx, verdictPause); err != nil {
				return err
			}
		default:
			r.sink.faults.fail(who, place, explain(sink.TopicOf(place), err))
			if err := pause.Wait(ctx); err != nil {
				return err
			}
		}
	}
}

// stretches asks for the partitions of a topic and for their bounds.
func (r *recall) stretches(ctx context.Context, topic string, from map[int]int64) ([]stretch, error) {
	topics, generation, err := r.sink.cluster.metadata(ctx, []string{topic})
	if err != nil {
		r.sink.cluster.renew(generation)
		return nil, err
	}
	var asked []kafkago.OffsetRequest
	for i := range topics {
		if err := answer(topics[i].ErrorCode, ""); err != nil {
			return nil, err
		}
		for _, p := range topics[i].Partitions {
			asked = append(asked, kafkago.FirstOffsetOf(int(p.PartitionIndex)), kafkago.LastOffsetOf(int(p.PartitionIndex)))
		}
	}
	found, err := r.client.ListOffsets(ctx, &kafkago.ListOffsetsRequest{Topics: map[string][]kafkago.OffsetRequest{topic: asked}})
	if err != nil {
		return nil, err
	}
	var list []stretch
	for _, p := range found.Topics[topic] {
		if p.Error != nil {
			return nil, p.Error
		}
		// A partition without a mark was first used behind the marks, if at all.
		next := max(p.FirstOffset, from[p.Partition])
		if next < p.LastOffset {
			list = append(list, stretch{topic: topic, partition: p.Partition, next: next, end: p.LastOffset})
		}
	}
	if 2*len(found.Topics[topic]) != len(asked) {
		return nil, fmt.Errorf("the broker answers for %d of %d partitions of %s", len(found.Topics[topic]), len(asked)/2, topic)
	}
	slices.SortFunc(list, func(a, b stretch) int { return a.partition - b.partition })
	return list, nil
}

// read reads a stretch to its end.
func (r *recall) read(ctx context.Context, p *stretch) error {
	for p.next < p.end {
		var told error
		err := r.insist(ctx, tp(p.topic, int32(p.partition)), func() error {
			found, err := r.client.Fetch(ctx, &kafkago.FetchRequest{
				Topic: p.topic, Partition: p.partition, Offset: p.next, MinBytes: 1, MaxBytes: recallBytes, MaxWait: recallWait,
			})
			if err == nil {
				err = found.Error
			}
			if errors.Is(err, kafkago.OffsetOutOfRange) {
				return r.skip(ctx, p)
			}
			if err != nil {
				return err
			}
			told, err = r.take(ctx, p, found)
			return err
		})
		switch {
		case told != nil:
			return told
		case errors.Is(err, kafkago.UnknownTopicOrPartition):
			return nil
		case err != nil:
			return err
		}
	}
	return nil
}

// skip moves behind what has expired while the stretch was read.
func (r *recall) skip(ctx context.Context, p *stretch) error {
	list, err := r.stretches(ctx, p.topic, map[int]int64{p.partition: p.next})
	if err != nil {
		return err
	}
	next := p.end
	for _, one := range list {
		if one.partition == p.partition {
			next = min(one.next, p.end)
		}
	}
	p.next = next
	return nil
}

// take tells what an answer holds. A batch may begin before the offset that was asked for, and the
// last one may be cut off. told is the error of who was told.
func (r *recall) take(ctx context.Context, p *stretch, found *kafkago.FetchResponse) (told, err error) {
	n := 0
	for ; p.next < p.end; n++ {
		record, err := found.Records.ReadRecord()
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) && n > 0 {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read a record behind offset %d of %s: %w", p.next, tp(p.topic, int32(p.partition)), err)
		}
		m, err := r.message(record)
		switch {
		case err != nil:
			return nil, fmt.Errorf("read the record at offset %d of %s: %w", record.Offset, tp(p.topic, int32(p.partition)), err)
		case record.Offset < p.next || record.Offset >= p.end:
			continue
		}
		if p.next = record.Offset + 1; p.next == p.end {
			p.last = m.ID
		}
		if m.Stream == "" {
			continue
		}
		if told := r.each(&m); told != nil {
			return told, nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx), nil
		}
	}
	if n == 0 && found.HighWatermark >= p.end {
		// What is left was compacted away, or are marks of transactions.
		p.next = p.end
	}
	return nil, nil
}

// message copies a record into a message in the memory of r.
func (r *recall) message(record *kafkago.Record) (m sink.Message, err error) {
	if r.key, err = copyBytes(r.key, record.Key); err != nil {
		return m, err
	}
	if r.value, err = copyBytes(r.value, record.Value); err != nil {
		return m, err
	}
	m.Key, m.Value = r.key, r.value
	for _, h := range record.Headers {
		m.SetHeader(h.Key, string(h.Value))
	}
	return m, nil
}

// copyBytes reads b into the memory of buf, and closes it.
func copyBytes(buf []byte, b kafkago.Bytes) ([]byte, error) {
	if b == nil {
		return buf[:0], nil
	}
	n := b.Len()
	buf = slices.Grow(buf[:0], n)[:n]
	_, err := io.ReadFull(b, buf)
	return buf, errors.Join(err, b.Close())
}
