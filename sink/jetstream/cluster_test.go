package jetstream_test

import (
	"testing"
	"time"

	"bridge/internal/testenv"
	"bridge/sink/jetstream"

	natsjs "github.com/nats-io/nats.go/jetstream"
)

func TestLeaderChanges(t *testing.T) {
	t.Parallel()
	servers := testenv.InProcessNATSCluster(t)
	js := servers[0].JetStream(t)
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
	stop := meanwhile(50*time.Millisecond, 500*time.Millisecond, func() {
		// A request that meets no leader asks nobody to step down.
		_, _ = nc.Request("$JS.API.STREAM.LEADER.STEPDOWN."+name, nil, time.Second)
		p.cut()
	})
	sent := publishers(t, s, name+".a", load{2, 2000, 50})
	t.Logf("%d leader changes", stop())
	// The one that serves the reader may lag behind the others.
	eventually(t, 30*time.Second, "the replica that is read has what the leader has", func() bool {
		info, err := stream.Info(t.Context())
		return err == nil && info.Cluster.Leader != "" && uint64(len(read(t, stream, ""))) == info.State.Msgs
	})
	wantWhole(t, read(t, stream, ""), sent...)
}
