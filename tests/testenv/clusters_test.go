package testenv_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"bridge/tests/testall"
	"bridge/tests/testenv"
)

// goesOn kills each server of a cluster in turn, while the others take messages. Before the next
// is killed, the one of before has all messages again: of three servers, two must have them.
func goesOn[S interface {
	Kill()
	Start(testing.TB)
}](t *testing.T, members []S, publish func(context.Context) error, whole func(context.Context) (bool, error)) {
	try := func(what string, done func(context.Context) (bool, error)) {
		var last error
		defer func() {
			if t.Failed() {
				t.Logf("%s: last error: %v", what, last)
			}
		}()
		eventually(t, what, func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			ok, err := done(ctx)
			last = err
			return err == nil && ok
		})
	}
	for _, member := range members {
		try("all servers have all messages", whole)
		member.Kill()
		try("a message is stored without one server", func(ctx context.Context) (bool, error) { return true, publish(ctx) })
		member.Start(t)
	}
}

func TestClustersGoOnWithoutOneServer(t *testing.T) {
	testall.Long(t)
	t.Run("nats", func(t *testing.T) {
		t.Parallel()
		cluster, members := testenv.StartNATSCluster(t)
		stream := cluster.CreateStream(t, jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}, Replicas: len(members)})
		goesOn(t, members, func(ctx context.Context) error {
			_, err := cluster.JetStream(t).Publish(ctx, "s.x", []byte("x"))
			return err
		}, func(ctx context.Context) (bool, error) {
			info, err := stream.Info(ctx)
			if err != nil {
				return false, err
			}
			behind := func(peer *jetstream.PeerInfo) bool { return !peer.Current || peer.Offline }
			return len(info.Cluster.Replicas) == len(members)-1 && !slices.ContainsFunc(info.Cluster.Replicas, behind), nil
		})
	})
	t.Run("kafka", func(t *testing.T) {
		t.Parallel()
		cluster, members := testenv.StartKafkaCluster(t)
		cluster.CreateTopic(t, "t", 3, nil)
		client, err := kgo.NewClient(kgo.SeedBrokers(cluster.Brokers()...))
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		goesOn(t, members, func(ctx context.Context) error {
			return client.ProduceSync(ctx, &kgo.Record{Topic: "t"}).FirstErr()
		}, func(ctx context.Context) (bool, error) {
			topic, name := kmsg.NewMetadataRequestTopic(), "t"
			topic.Topic = &name
			req := kmsg.NewPtrMetadataRequest()
			req.Topics = append(req.Topics, topic)
			res, err := req.RequestWith(ctx, client)
			if err != nil {
				return false, err
			}
			behind := func(partition kmsg.MetadataResponseTopicPartition) bool { return len(partition.ISR) < len(members) }
			return !slices.ContainsFunc(res.Topics[0].Partitions, behind), kerr.ErrorForCode(res.Topics[0].ErrorCode)
		})
	})
}
