package world

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// client returns a client of franz-go, which the program does not use.
func (b *Bus) client(t testing.TB, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append(opts, kgo.SeedBrokers(b.Kafka.Brokers()...))...)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// adminOf returns a client that asks the brokers and orders them; close it. What it has heard of a
// topic is old after the shortest time.
func adminOf(t testing.TB, b *Bus) *kadm.Client {
	t.Helper()
	return kadm.NewClient(b.client(t, kgo.MetadataMinAge(10*time.Millisecond)))
}

// ends returns the end offset of each partition of a topic.
func (b *Bus) ends(t testing.TB, topic string) map[int32]int64 {
	t.Helper()
	admin := adminOf(t, b)
	defer admin.Close()
	ends := make(map[int32]int64)
	Eventually(t, time.Minute, "Kafka says how much "+topic+" holds", func() bool {
		// While a leader is sought there is no answer.
		listed, err := admin.ListEndOffsets(t.Context(), topic)
		clear(ends)
		listed.Each(func(o kadm.ListedOffset) { ends[o.Partition] = o.Offset })
		return errors.Join(err, listed.Error()) == nil
	})
	return ends
}

// deleteRecords removes what lies before an offset of each partition of a topic.
func (b *Bus) deleteRecords(t testing.TB, name string, firsts map[int32]int64) {
	t.Helper()
	admin := adminOf(t, b)
	defer admin.Close()
	var offsets kadm.Offsets
	for partition, first := range firsts {
		offsets.AddOffset(name, partition, first, -1)
	}
	deleted, err := admin.DeleteRecords(t.Context(), offsets)
	if err := errors.Join(err, deleted.Error()); err != nil {
		t.Fatal(err)
	}
}

// isolation is what consumers of the bus see. The marker of a transaction may end a partition.
func (b *Bus) isolation() []kgo.Opt {
	if b.transactional == "" {
		return nil
	}
	return []kgo.Opt{kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords()}
}

// readKafka reads each partition from an offset up to its end.
func (b *Bus) readKafka(ctx context.Context, topic string, from, ends Offsets, each func(Message)) error {
	// What was acknowledged before lies below the ends of the partitions.
	begin, left := make(map[int32]kgo.Offset), make(map[int32]int64)
	for p, end := range ends {
		if end <= from[p] {
			continue
		}
		begin[p], left[p] = kgo.NewOffset().AtStart(), end
		if from[p] > 0 {
			begin[p] = kgo.NewOffset().At(from[p])
		}
	}
	client, err := kgo.NewClient(append(b.isolation(), kgo.SeedBrokers(b.Kafka.Brokers()...), kgo.FetchMaxWait(100*time.Millisecond),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: begin}))...)
	if err != nil {
		return err
	}
	defer client.Close()
	for len(left) > 0 {
		fetches := client.PollFetches(ctx)
		for _, e := range fetches.Errors() {
			return fmt.Errorf("%v is left: %w", left, e.Err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if r.Offset >= left[r.Partition] {
				return
			}
			if !r.Attrs.IsControl() {
				each(kafkaMessage(r))
			}
			if r.Offset+1 == left[r.Partition] {
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
		At: r.Timestamp.Add(time.Millisecond),
	}
	for _, h := range r.Headers {
		m.Headers[h.Key] = string(h.Value)
	}
	return m
}

func (b *Bus) followKafka(t testing.TB, topic string) *Tape {
	t.Helper()
	client := b.client(t, append(b.isolation(), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(time.Second))...)
	return newTape(t, func(ctx context.Context, p *Tape) error {
		defer client.Close()
		for {
			fetches := client.PollFetches(ctx)
			for _, e := range fetches.Errors() {
				return e.Err
			}
			fetches.EachRecord(func(r *kgo.Record) {
				if !r.Attrs.IsControl() {
					p.Add(kafkaMessage(r))
				}
			})
		}
	})
}

func (b *Bus) publisherOnKafka(t testing.TB, topic string) func(context.Context) error {
	t.Helper()
	client := b.client(t, kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()), kgo.ProducerLinger(0))
	t.Cleanup(client.Close)
	return func(ctx context.Context) error { return client.ProduceSync(ctx, kgo.StringRecord("noise")).FirstErr() }
}

func (b *Bus) replayOnKafka(t testing.TB, topic string, messages []Message) {
	t.Helper()
	client := b.client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	defer client.Close()
	var records []*kgo.Record
	for _, m := range messages {
		partition, err := strconv.Atoi(m.Partition)
		if err != nil {
			t.Fatal(err)
		}
		r := &kgo.Record{Topic: topic, Partition: int32(partition), Key: []byte(m.Key), Value: m.Value}
		for name, value := range m.Headers {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
		}
		records = append(records, r)
	}
	if err := client.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}
