package world

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/twmb/franz-go/pkg/kadm"

	"example.org/bridge/tests/testenv"
)

// Clustered returns a bus of the same kind that is three servers.
func (b *Bus) Clustered(t testing.TB) *Bus {
	t.Helper()
	clustered := *b
	if b.Kafka != nil {
		cluster, members := testenv.StartKafkaCluster(t)
		clustered.Kafka, clustered.Members = cluster, serversOf(members)
	} else {
		cluster, members := testenv.StartNATSCluster(t)
		clustered.NATS, clustered.Members = cluster, serversOf(members)
	}
	return &clustered
}

func serversOf[S Server](members []S) (servers []Server) {
	for _, member := range members {
		servers = append(servers, member)
	}
	return servers
}

// Whole waits until each server of a cluster has all of a destination.
func (b *Bus) Whole(t testing.TB, name string) {
	t.Helper()
	Eventually(t, 2*time.Minute, "each server has all of "+name, func() bool {
		if b.Kafka != nil {
			admin := adminOf(t, b)
			defer admin.Close()
			partitions, err := replicasOf(t.Context(), admin, name)
			return err == nil && !slices.ContainsFunc(partitions, func(p kadm.PartitionDetail) bool { return len(p.ISR) < len(b.Members) })
		}
		of := clusterOf(t, b, name)
		return of != nil && of.Leader != "" && !slices.ContainsFunc(of.Replicas, func(p *jetstream.PeerInfo) bool { return !p.Current || p.Offline })
	})
}

// clusterOf returns what NATS says of the replicas of a stream; nil while it does not.
func clusterOf(t testing.TB, b *Bus, name string) *jetstream.ClusterInfo {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	stream, err := b.NATS.JetStream(t).Stream(ctx, b.stream(name))
	if err != nil {
		return nil
	}
	return stream.CachedInfo().Cluster
}

// leaderOf returns the server of NATS that leads a stream, empty while there is none.
func leaderOf(t testing.TB, b *Bus, name string) string {
	t.Helper()
	if of := clusterOf(t, b, name); of != nil {
		return of.Leader
	}
	return ""
}

// replicasOf returns what the brokers say of the partitions of a topic.
func replicasOf(ctx context.Context, admin *kadm.Client, topic string) ([]kadm.PartitionDetail, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	topics, err := admin.ListTopics(ctx, topic)
	if err := errors.Join(err, topics[topic].Err); err != nil {
		return nil, err
	}
	if n := len(topics[topic].Partitions); n != Partitions {
		return nil, fmt.Errorf("%d partitions", n)
	}
	return topics[topic].Partitions.Sorted(), nil
}

// MoveLeaders has the leaders of all partitions of a destination on a cluster step down, and
// returns how many have.
func (b *Bus) MoveLeaders(t testing.TB, name string) (moved int) {
	t.Helper()
	if b.Kafka != nil {
		admin := adminOf(t, b)
		defer admin.Close()
		return moveLeadersOf(t.Context(), admin, name)
	}
	// A request that meets no leader asks nobody to step down.
	before := leaderOf(t, b, name)
	if before == "" {
		return 0
	}
	answer, err := b.NATS.Connect(t).Request("$JS.API.STREAM.LEADER.STEPDOWN."+b.stream(name), nil, 10*time.Second)
	if err != nil {
		if after := leaderOf(t, b, name); after != "" && after != before {
			moved++
		}
		return moved
	}
	var stepped struct{ Success bool }
	if err := json.Unmarshal(answer.Data, &stepped); err != nil {
		t.Fatalf("step down: %v: %s", err, answer.Data)
	}
	if stepped.Success {
		moved++
	}
	return moved
}

// moveLeadersOf puts another replica of each partition of a topic first, which has the brokers
// prefer it, and asks for that election. It returns how many leaders have changed.
func moveLeadersOf(ctx context.Context, admin *kadm.Client, name string) (moved int) {
	before, err := replicasOf(ctx, admin, name)
	if err != nil {
		return 0
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	var reassign kadm.AlterPartitionAssignmentsReq
	var elect kadm.TopicsSet
	for _, p := range before {
		reassign.Assign(name, p.Partition, append(slices.Clone(p.Replicas[1:]), p.Replicas[0]))
		elect.Add(name, p.Partition)
	}
	if _, err := admin.AlterPartitionAssignments(ctx, reassign); err != nil {
		return 0
	}
	elected, err := admin.ElectLeaders(ctx, kadm.ElectPreferredReplica, elect)
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
