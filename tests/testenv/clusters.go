package testenv

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
)

// StartKafkaCluster starts three brokers, which control the cluster as well, and stops them when
// the test ends. Topics have a copy on each of them, and take a message that two have. Of cluster
// only what concerns addresses and topics can be used; members are to be killed and paused.
func StartKafkaCluster(t testing.TB) (cluster *KafkaServer, members []*KafkaServer) {
	t.Helper()
	controllers := freeAddresses(t)
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

// StartNATSCluster starts three servers, and stops them when the test ends.
func StartNATSCluster(t testing.TB) (cluster *NATSServer, members []*NATSServer) {
	t.Helper()
	routes := freeAddresses(t)
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

func freeAddresses(t testing.TB) (all []string) {
	t.Helper()
	needReal(t)
	for range 3 {
		all = append(all, address(FreePort(t)))
	}
	return all
}

// startTogether starts the servers of a cluster, none of which is ready alone.
func startTogether[S any](t testing.TB, what string, start func(i int) (S, func(), error)) []S {
	t.Helper()
	members, stops := make([]S, 3), make([]func(), 3)
	var group errgroup.Group
	for i := range members {
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
	there(t, what, err)
	return members
}

// OwnNATSCluster returns the members of StartNATSCluster.
func OwnNATSCluster(t testing.TB) []*NATSServer {
	t.Helper()
	_, members := StartNATSCluster(t)
	return members
}
