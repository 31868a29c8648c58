package jetstream_test

import (
	"fmt"
	"net/url"
	"strconv"
	"testing"
	"time"

	"bridge/internal/testenv"
	"bridge/sink/jetstream"

	"github.com/nats-io/nats-server/v2/server"
	natsjs "github.com/nats-io/nats.go/jetstream"
)

// cluster starts three servers inside the test.
func cluster(t *testing.T) []*testenv.NATSServer {
	t.Helper()
	var routes []*url.URL
	for range 3 {
		routes = append(routes, &url.URL{Scheme: "nats", Host: fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t))})
	}
	var servers []*testenv.NATSServer
	for i, route := range routes {
		servers = append(servers, testenv.InProcessNATS(t, func(o *server.Options) {
			o.ServerName, o.Routes = fmt.Sprintf("n%d", i), routes
			port, err := strconv.Atoi(route.Port())
			if err != nil {
				t.Fatal(err)
			}
			o.Cluster.Port = port
			o.Cluster.Name, o.Cluster.Host = "test", "127.0.0.1"
		}))
	}
	return servers
}

func TestLeaderChanges(t *testing.T) {
	t.Parallel()
	servers := cluster(t)
	js := servers[0].JetStream(t)
	eventually(t, 30*time.Second, "the cluster has a leader", func() bool {
		_, err := js.AccountInfo(t.Context())
		return err == nil
	})
	name := testenv.NewStreamName()
	config := natsjs.StreamConfig{Name: name, Subjects: []string{name + ".>"}, Replicas: 3}
	var stream natsjs.Stream
	eventually(t, 30*time.Second, "create a stream with three replicas", func() bool {
		var err error
		stream, err = js.CreateStream(t.Context(), config)
		return err == nil
	})
	p := newProxy(t, servers[1].Addr())
	s := open(t, jetstream.Options{URLs: []string{p.url()}, Stream: name})
	nc := servers[2].Connect(t)
	stop := meanwhile(200*time.Millisecond, 600*time.Millisecond, func() {
		// A request that meets no leader asks nobody to step down.
		_, _ = nc.Request("$JS.API.STREAM.LEADER.STEPDOWN."+name, nil, time.Second)
		p.cut()
	})
	sent := publishers(t, s, name+".a", load{2, 1500, 50})
	t.Logf("%d leader changes", stop())
	eventually(t, 30*time.Second, "the stream has a leader", func() bool {
		info, err := stream.Info(t.Context())
		return err == nil && info.Cluster.Leader != ""
	})
	wantWhole(t, read(t, stream, ""), sent...)
}
