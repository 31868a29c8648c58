package testenv

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"golang.org/x/sync/errgroup"
)

// clusterSize is how many servers a cluster has.
const clusterSize = 3

// StartKafkaCluster starts three brokers, which control the cluster as well, and stops them when
// the test ends. Topics have a copy on each of them, and take a message that two have. Of cluster
// only what concerns addresses and topics can be used; members are to be killed and paused.
func StartKafkaCluster(t testing.TB) (cluster *KafkaServer, members []*KafkaServer) {
	t.Helper()
	needReal(t)
	var controllers []string
	for range clusterSize {
		controllers = append(controllers, address(FreePort(t)))
	}
	members = startTogether(t, "three servers of Apache Kafka", func(i int) (*KafkaServer, func(), error) {
		return newKafka(t, KafkaOptions{node: i + 1, controllers: controllers, Config: map[string]string{
			"default.replication.factor": "3", "min.insync.replicas": "2", "offsets.topic.replication.factor": "3",
			"transaction.state.log.replication.factor": "3", "transaction.state.log.min.isr": "2", "replica.lag.time.max.ms": "3000",
		}})
	})
	cluster = &KafkaServer{Version: members[0].Version}
	for _, member := range members {
		cluster.brokers = append(cluster.brokers, member.plain)
	}
	return cluster, members
}

// StartNATSCluster starts three servers, and stops them when the test ends. Of cluster only what
// concerns addresses, connections and streams can be used; members are to be killed and paused.
func StartNATSCluster(t testing.TB) (cluster *NATSServer, members []*NATSServer) {
	t.Helper()
	needReal(t)
	var routes []string
	for range clusterSize {
		routes = append(routes, address(FreePort(t)))
	}
	members = startTogether(t, "three servers of NATS", func(i int) (*NATSServer, func(), error) {
		return newNATS(t, []NATSOption{NATSLines(
			fmt.Sprintf("server_name: n%d", i),
			fmt.Sprintf("cluster { name: test, listen: %q, routes: [nats://%s] }", routes[i], strings.Join(routes, ", nats://")),
		)})
	})
	var addresses []string
	for _, member := range members {
		addresses = append(addresses, member.Addr())
	}
	return &NATSServer{Version: members[0].Version, url: &url.URL{Scheme: "nats", Host: strings.Join(addresses, ",")}}, members
}

// startTogether starts the servers of a cluster, none of which is ready alone.
func startTogether[S any](t testing.TB, what string, start func(i int) (S, func(), error)) []S {
	t.Helper()
	members, stops := make([]S, clusterSize), make([]func(), clusterSize)
	var group errgroup.Group
	for i := range clusterSize {
		group.Go(func() (err error) {
			members[i], stops[i], err = start(i)
			return err
		})
	}
	err := group.Wait()
	for _, stop := range stops {
		if stop != nil {
			t.Cleanup(stop)
		}
	}
	if err != nil {
		missing(t, what, err)
	}
	return members
}

// inProcessNATSCluster starts three servers of the NATS library inside the test as one cluster,
// waits until they have a leader, and stops them when the test ends.
func inProcessNATSCluster(t testing.TB) []*NATSServer {
	t.Helper()
	var routes []*url.URL
	for range clusterSize {
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
