package jetstream_test

import (
	"context"
	"testing"
	"time"

	natsjetstream "github.com/nats-io/nats.go/jetstream"

	"example.org/bridge/client/jetstream/server"
	"example.org/bridge/internal/standby"
	"example.org/bridge/internal/standby/jetstream"
	"example.org/bridge/internal/standby/standbytest"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testenv"
)

// timeout lets a machine that is busy hold a member up for seconds.
const timeout = 6 * time.Second

// elector keeps its way to the server.
type elector struct {
	*standby.Lease
	way *testenv.Proxy
}

func newElector(t *testing.T, s *testenv.NATSServer, group string) elector {
	t.Helper()
	way := testenv.StartProxy(t, s.Addr())
	return elector{standby.NewLease(jetstream.New(jetstream.Options{
		Connection: &server.Options{URLs: []string{"nats://" + way.Addr()}},
		Key:        group, Timeout: timeout / 4,
	}), timeout), way}
}

func TestSuite(t *testing.T) {
	t.Parallel()
	runSuite(t, testenv.NATS(t))
}

// TestSuiteOnACluster has a bucket with three replicas, which answers a conflict otherwise.
func TestSuiteOnACluster(t *testing.T) {
	t.Parallel()
	servers := testenv.OwnNATSCluster(t)
	// Behind the tests of the suite, which run at the same time.
	t.Cleanup(func() {
		kv := must.Get(servers[0].JetStream(t).KeyValue(context.Background(), jetstream.Bucket))(t)
		status := must.Get(kv.Status(context.Background()))(t)
		if n := status.(*natsjetstream.KeyValueBucketStatus).StreamInfo().Config.Replicas; n != 3 {
			t.Errorf("the bucket has %d replicas", n)
		}
	})
	runSuite(t, servers[0])
}

func runSuite(t *testing.T, s *testenv.NATSServer) {
	t.Helper()
	standbytest.Run(t, standbytest.Options{
		Timeout: timeout,
		Elector: func(t *testing.T, group string) standby.Elector { return newElector(t, s, group) },
		Cut: func(e standby.Elector, cut bool) {
			if way := e.(elector).way; cut {
				way.HalfOpen()
			} else {
				way.Heal()
			}
		},
	})
}
