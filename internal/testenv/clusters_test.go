package testenv_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/twmb/franz-go/pkg/kgo"

	"bridge/internal/testall"
	"bridge/internal/testenv"
)

// goesOn kills each server of a cluster in turn, while the others take messages.
func goesOn[S interface {
	Kill()
	Start(testing.TB)
}](t *testing.T, members []S, publish func(context.Context) error) {
	for _, member := range members {
		member.Kill()
		eventually(t, "a message is stored without one server", func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			return publish(ctx) == nil
		})
		member.Start(t)
	}
}

func TestClustersGoOnWithoutOneServer(t *testing.T) {
	testall.Long(t)
	t.Run("nats", func(t *testing.T) {
		t.Parallel()
		cluster, members := testenv.StartNATSCluster(t)
		cluster.CreateStream(t, jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}, Replicas: len(members)})
		goesOn(t, members, func(ctx context.Context) error {
			_, err := cluster.JetStream(t).Publish(ctx, "s.x", []byte("x"))
			return err
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
		goesOn(t, members, func(ctx context.Context) error { return client.ProduceSync(ctx, &kgo.Record{Topic: "t"}).FirstErr() })
	})
}
