package bus_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"example.org/bridge/internal/verify"
	"example.org/bridge/internal/verify/bus"
	"example.org/bridge/sink/kafka"
)

const (
	topic      = "orders"
	partitions = 3
)

// cluster is a broker in memory with a client that writes to chosen partitions.
func cluster(t *testing.T) ([]string, *kgo.Client) {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, topic))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	client, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return c.ListenAddrs(), client
}

func produce(t *testing.T, client *kgo.Client, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		r := &kgo.Record{
			Topic: topic, Partition: int32(i % partitions), Key: fmt.Appendf(nil, "k%d", i), Value: fmt.Appendf(nil, "v%d", i),
			Headers: []kgo.RecordHeader{{Key: "bridge-row-id", Value: fmt.Append(nil, i)}, {Key: "other", Value: []byte("x")}},
		}
		if err := client.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

func openTopics(t *testing.T, brokers []string, topics ...string) (*bus.Bus, error) {
	t.Helper()
	reader, err := kafka.Open(kafka.Options{Connection: kafka.Connection{Brokers: brokers, GiveUpAfter: 30 * time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	return bus.Open(t.Context(), bus.Options{Reader: reader, Topics: topics})
}

func TestReadTopics(t *testing.T) {
	brokers, client := cluster(t)
	produce(t, client, 0, 7)
	open := func(brokers []string) *bus.Bus { b, err := openTopics(t, brokers, topic); return closing(t, b, err) }
	b := open(brokers)
	want := []string{"0/0 k0=v0 0", "0/1 k3=v3 3", "0/2 k6=v6 6", "1/0 k1=v1 1", "1/1 k4=v4 4", "2/0 k2=v2 2", "2/1 k5=v5 5"}
	if got := read(t, b); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	t.Run("goes on where it ended", func(t *testing.T) {
		produce(t, client, 7, 9)
		want := []string{"1/2 k7=v7 7", "2/2 k8=v8 8"}
		if got := read(t, b); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		if got := read(t, b); len(got) > 0 {
			t.Errorf("and then %q", got)
		}
	})
	t.Run("knows its partitions", func(t *testing.T) {
		want := verify.Partition{Name: "orders/1", Destination: topic, Number: 1, Next: 3}
		if got := b.Partitions(); len(got) != partitions || got[1] != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})
	t.Run("fetches one message again", func(t *testing.T) {
		m, err := b.Fetch(t.Context(), 1, 1)
		if err != nil || string(m.Value) != "v4" || m.At != 1 || m.Partition != 1 {
			t.Errorf("%+v, %v", m, err)
		}
		if _, err := b.Fetch(t.Context(), 1, 77); err == nil {
			t.Error("offset 77 was found")
		}
	})
	t.Run("ends with an error of its caller", func(t *testing.T) {
		err := open(brokers).Read(t.Context(), func(*verify.Message) error { return context.Canceled }, func(_, _ uint64) {})
		if err == nil || !strings.Contains(err.Error(), "canceled") {
			t.Error(err)
		}
	})
}

func TestHeadThatHasExpired(t *testing.T) {
	brokers, client := cluster(t)
	produce(t, client, 0, 9)
	request := kmsg.NewPtrDeleteRecordsRequest()
	request.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: topic, Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Partition: 1, Offset: 2}}}}
	if _, err := request.RequestWith(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	b, err := openTopics(t, brokers, topic)
	closing(t, b, err)
	if got := read(t, b); len(got) != 7 {
		t.Errorf("got %q", got)
	}
	for i, p := range b.Partitions() {
		if p.Expired != (i == 1) || p.Thinned || p.First != map[bool]uint64{true: 2}[i == 1] {
			t.Errorf("%+v", p)
		}
	}
}

func TestTopicThatIsMissing(t *testing.T) {
	brokers, _ := cluster(t)
	_, err := openTopics(t, brokers, topic, "nowhere")
	if err == nil || !strings.Contains(err.Error(), "topic nowhere does not exist") {
		t.Error(err)
	}
}
