package jetstream_test

import (
	"context"
	"testing"
	"time"

	"bridge/sink"
	"bridge/sink/jetstream"
	"bridge/sink/sinktest"
	"bridge/tests/testall"
	"bridge/tests/testenv"

	natsjs "github.com/nats-io/nats.go/jetstream"
)

// replicated returns a stream with three replicas.
func replicated(t *testing.T, js natsjs.JetStream) (stream natsjs.Stream, name string) {
	t.Helper()
	name = testenv.NewStreamName()
	config := natsjs.StreamConfig{Name: name, Subjects: []string{name + ".>"}, Replicas: 3}
	eventually(t, 30*time.Second, "create a stream with three replicas", func() bool {
		// A request that meets no leader gets no answer.
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		var err error
		stream, err = js.CreateStream(ctx, config)
		return err == nil
	})
	return stream, name
}

func TestLeaderChanges(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	servers := testenv.OwnNATSCluster(t)
	stream, name := replicated(t, servers[0].JetStream(t))
	p := testenv.StartProxy(t, servers[1].Addr())
	s := open(t, jetstream.Options{URLs: []string{"nats://" + p.Addr()}, Stream: name})
	nc := servers[2].Connect(t)
	changes, stop := harming(t, stream, 50*time.Millisecond, 500*time.Millisecond, func() {
		// A request that meets no leader asks nobody to step down.
		_, _ = nc.Request("$JS.API.STREAM.LEADER.STEPDOWN."+name, nil, time.Second)
		p.Drop()
	})
	var sent [][]sink.Message
	for round := 0; changes.Load() < 10 && !t.Failed(); round++ {
		sent = append(sent, publishers(t, s, name+".a", load{n: 2, each: 2000, keys: 50, round: round})...)
	}
	stop()
	t.Logf("%d leader changes", changes.Load())
	awaitReplica(t, stream)
	wantWhole(t, read(t, stream, ""), sent...)
}

// awaitReplica waits until the replica that is read has what the leader has: it may lag behind.
func awaitReplica(t *testing.T, stream natsjs.Stream) {
	t.Helper()
	eventually(t, 30*time.Second, "the replica that is read has what the leader has", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		info, err := stream.Info(ctx)
		return err == nil && info.Cluster.Leader != "" && uint64(len(read(t, stream, ""))) == info.State.Msgs
	})
}

func TestForeignMessagesInACluster(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	servers := testenv.OwnNATSCluster(t)
	js := servers[0].JetStream(t)
	stream, name := replicated(t, js)
	s := open(t, jetstream.Options{URLs: []string{servers[1].URL()}, Stream: name})
	ctx := deadline(t, 8*time.Minute)
	stop := meanwhile(0, 3*time.Millisecond, func() {
		if _, err := js.Publish(ctx, name+".foreign", []byte("x")); err != nil {
			t.Error(err)
		}
	})
	sent := publishers(t, s, name+".a", load{n: 4, each: 3000, keys: 50})
	t.Logf("%d foreign messages", stop())
	awaitReplica(t, stream)
	wantWhole(t, read(t, stream, name+".a"), sent...)
}

// TestOffsetsInACluster cuts connections and changes leaders at the same time.
func TestOffsetsInACluster(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	servers := testenv.OwnNATSCluster(t)
	js := servers[0].JetStream(t)
	nc := servers[2].Connect(t)
	sinktest.RunOffsets(t, func(t *testing.T) sinktest.Fixture {
		stream, name := replicated(t, js)
		p := testenv.StartProxy(t, servers[1].Addr())
		cuts := 0
		return sinktest.Fixture{
			Sink:         open(t, jetstream.Options{URLs: []string{"nats://" + p.Addr()}, Stream: name}),
			Destinations: []string{name + ".a", name + ".b"},
			Features:     sinktest.Features{Headers: true, Reads: true, Drops: true},
			MaxBytes:     maxPayload,
			Cut: func(testing.TB) {
				if cuts++; cuts%10 == 0 {
					_, _ = nc.Request("$JS.API.STREAM.LEADER.STEPDOWN."+name, nil, time.Second)
				}
				p.Drop()
			},
			Read: func(t testing.TB, destination string) []sinktest.Record { return records(read(t, stream, destination)) },
		}
	})
}
