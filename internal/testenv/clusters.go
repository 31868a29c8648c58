package testenv

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/twmb/franz-go/pkg/kfake"
)

// FakeKafka starts a cluster of several brokers inside the test, which is no real Kafka but moves
// the leaders of partitions, and stops it when the test ends. Of the server only Brokers and what
// concerns topics can be used.
func FakeKafka(t testing.TB, brokers int) (*KafkaServer, *kfake.Cluster) {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(brokers))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	return &KafkaServer{Version: "fake", brokers: cluster.ListenAddrs()}, cluster
}

// InProcessNATSCluster starts three servers of the NATS library inside the test as one cluster,
// waits until they have a leader, and stops them when the test ends.
func InProcessNATSCluster(t testing.TB) []*NATSServer {
	t.Helper()
	var routes []*url.URL
	for range 3 {
		routes = append(routes, &url.URL{Scheme: "nats", Host: address(FreePort(t))})
	}
	var servers []*NATSServer
	for i, route := range routes {
		servers = append(servers, InProcessNATS(t, func(o *server.Options) {
			o.ServerName, o.Routes = fmt.Sprintf("n%d", i), routes
			port, err := strconv.Atoi(route.Port())
			if err != nil {
				t.Fatal(err)
			}
			o.Cluster.Port, o.Cluster.Name, o.Cluster.Host = port, "test", "127.0.0.1"
		}))
	}
	js := servers[0].JetStream(t)
	ctx, cancel := context.WithTimeout(context.Background(), answerWithin)
	defer cancel()
	answers := func() error {
		// A request that meets no leader gets no answer.
		once, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err := js.AccountInfo(once)
		return err
	}
	if err := poll(ctx, answers); err != nil {
		t.Fatalf("the cluster of NATS has no leader: %v", err)
	}
	return servers
}
