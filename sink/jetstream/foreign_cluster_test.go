package jetstream_test

import (
	"testing"
	"time"

	"bridge/internal/testenv"
	"bridge/sink/jetstream"

	natsjs "github.com/nats-io/nats.go/jetstream"
)

func TestForeignMessagesInACluster(t *testing.T) {
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
	s := open(t, jetstream.Options{URLs: []string{servers[1].URL()}, Stream: name})
	ctx := deadline(t, 2*time.Minute)
	foreign := 0
	stop := meanwhile(0, 3*time.Millisecond, func() {
		if _, err := js.Publish(ctx, name+".foreign", []byte("x")); err != nil {
			t.Error(err)
		}
		foreign++
	})
	sent := publishers(t, s, name+".a", load{4, 3000, 50})
	t.Logf("%d foreign messages", stop())
	eventually(t, 30*time.Second, "all replicas are current", func() bool {
		info, err := stream.Info(t.Context())
		if err != nil || info.Cluster.Leader == "" {
			return false
		}
		for _, r := range info.Cluster.Replicas {
			if !r.Current || r.Offline {
				return false
			}
		}
		return true
	})
	wantWhole(t, read(t, stream, name+".a"), sent...)
}
