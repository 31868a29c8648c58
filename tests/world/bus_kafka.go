package world

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"example.org/bridge/tests/must"
)

type onKafka struct{ *Bus }

func (onKafka) String() string   { return "kafka" }
func (b onKafka) Server() Server { return b.Kafka }

func (b onKafka) Env() Env {
	e := Env{"BRIDGE_SINK_URL": "kafka://" + strings.Join(b.Kafka.Brokers(), ",")}
	if b.once != "" {
		e["BRIDGE_DELIVERY"], e["BRIDGE_KAFKA_TRANSACTIONAL_ID"] = "exactly-once", b.once
	}
	return e
}

func (b onKafka) Open(t testing.TB, name string) string {
	t.Helper()
	appended := "LogAppendTime"
	b.Kafka.CreateTopic(t, name, Partitions, map[string]*string{"message.timestamp.type": &appended})
	return name
}

func (b onKafka) remove(t testing.TB, name string) { t.Helper(); b.Kafka.DeleteTopic(t, name) }

func (b onKafka) connect(opts ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append(opts, kgo.SeedBrokers(b.Kafka.Brokers()...))...)
}

func (b onKafka) ends(t testing.TB, topic string) Offsets {
	t.Helper()
	admin, ends := b.Kafka.Admin(t), make(Offsets)
	Eventually(t, time.Minute, "Kafka says how much "+topic+" holds", func() bool {
		// While a leader is sought there is no answer.
		listed, err := admin.ListEndOffsets(t.Context(), topic)
		clear(ends)
		listed.Each(func(o kadm.ListedOffset) { ends[o.Partition] = o.Offset })
		return errors.Join(err, listed.Error()) == nil
	})
	return ends
}

func (b onKafka) Count(t testing.TB, name string) (n int64) {
	t.Helper()
	for _, end := range b.ends(t, name) {
		n += end
	}
	return n
}

func (b onKafka) Expire(t testing.TB, name string, keep int64) {
	t.Helper()
	var firsts kadm.Offsets
	for partition, end := range b.ends(t, name) {
		firsts.AddOffset(name, partition, max(0, end-keep), -1)
	}
	deleted, err := b.Kafka.Admin(t).DeleteRecords(t.Context(), firsts)
	must.OK(t, errors.Join(err, deleted.Error()))
}

func (b onKafka) Limit(t testing.TB, name string, bytes int) {
	t.Helper()
	limit := map[string]*string{"max.message.bytes": nil}
	if bytes > 0 {
		text := strconv.Itoa(bytes)
		limit["max.message.bytes"] = &text
	}
	b.Kafka.ConfigureTopic(t, name, limit)
}

// consume reads committed messages of a program that publishes each event once. The marker of a
// transaction may end a partition.
func (b onKafka) consume(ctx context.Context, _ testing.TB, topic string, from, ends Offsets, each func(Message)) error {
	opts := []kgo.Opt{kgo.FetchMaxWait(time.Second), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())}
	left := maps.Clone(ends)
	maps.DeleteFunc(left, func(p int32, end int64) bool { return end <= from[p] })
	if ends != nil {
		begin := make(map[int32]kgo.Offset)
		for p := range left {
			if begin[p] = kgo.NewOffset().AtStart(); from[p] > 0 {
				begin[p] = kgo.NewOffset().At(from[p])
			}
		}
		opts = []kgo.Opt{kgo.FetchMaxWait(100 * time.Millisecond), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: begin})}
	}
	if b.once != "" {
		opts = append(opts, kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
	}
	c, err := b.connect(opts...)
	if err != nil {
		return err
	}
	defer c.Close()
	for ends == nil || len(left) > 0 {
		fetches := c.PollFetches(ctx)
		for _, e := range fetches.Errors() {
			return fmt.Errorf("%v is left: %w", left, e.Err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			end, open := left[r.Partition]
			if ends != nil && (!open || r.Offset >= end) {
				return
			}
			if !r.Attrs.IsControl() {
				each(kafkaMessage(r))
			}
			if r.Offset+1 == end {
				delete(left, r.Partition)
			}
		})
	}
	return nil
}

func kafkaMessage(r *kgo.Record) Message {
	// The broker's clock has milliseconds: the message came before the end of this one.
	m := Message{
		Partition: fmt.Sprint(r.Partition), Key: string(r.Key), Value: r.Value, Headers: make(map[string]string, len(r.Headers)),
		At: r.Timestamp.Add(time.Millisecond), Offset: r.Offset,
	}
	m.Stored = m.At
	for _, h := range r.Headers {
		m.Headers[h.Key] = string(h.Value)
	}
	return m
}

func (b onKafka) Publisher(t testing.TB, topic string) func(context.Context, ...Message) error {
	t.Helper()
	c := must.Get(b.connect(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0)))(t)
	t.Cleanup(c.Close)
	return func(ctx context.Context, messages ...Message) error {
		var records []*kgo.Record
		for _, m := range messages {
			partition, _ := strconv.Atoi(m.Partition) // 0 where it names none
			r := &kgo.Record{Topic: topic, Partition: int32(partition), Key: []byte(m.Key), Value: m.Value}
			for name, value := range m.Headers {
				r.Headers = append(r.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
			}
			records = append(records, r)
		}
		return c.ProduceSync(ctx, records...).FirstErr()
	}
}

func (b onKafka) replicas(t testing.TB, topic string) ([]kadm.PartitionDetail, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	topics, err := b.Kafka.Admin(t).ListTopics(ctx, topic)
	if err := errors.Join(err, topics[topic].Err); err != nil {
		return nil, err
	}
	if n := len(topics[topic].Partitions); n != Partitions {
		return nil, fmt.Errorf("%d partitions", n)
	}
	return topics[topic].Partitions.Sorted(), nil
}

func (b onKafka) whole(t testing.TB, name string) bool {
	t.Helper()
	partitions, err := b.replicas(t, name)
	return err == nil && !slices.ContainsFunc(partitions, func(p kadm.PartitionDetail) bool { return len(p.ISR) < len(b.Members) })
}

// MoveLeaders puts another replica of each partition first, which has the brokers prefer it, and
// asks for that election.
func (b onKafka) MoveLeaders(t testing.TB, name string) (moved int) {
	t.Helper()
	before, err := b.replicas(t, name)
	if err != nil {
		return 0
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var reassign kadm.AlterPartitionAssignmentsReq
	var elect kadm.TopicsSet
	for _, p := range before {
		reassign.Assign(name, p.Partition, append(slices.Clone(p.Replicas[1:]), p.Replicas[0]))
		elect.Add(name, p.Partition)
	}
	if _, err := b.Kafka.Admin(t).AlterPartitionAssignments(ctx, reassign); err != nil {
		return 0
	}
	elected, err := b.Kafka.Admin(t).ElectLeaders(ctx, kadm.ElectPreferredReplica, elect)
	if err != nil {
		return 0
	}
	for _, p := range elected[name] {
		if p.Err == nil {
			moved++
		}
	}
	return moved
}
