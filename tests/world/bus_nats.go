package world

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testenv"
)

type onNATS struct{ *Bus }

func (onNATS) String() string   { return "nats" }
func (b onNATS) Server() Server { return b.NATS }

func (b onNATS) Env() Env {
	e := Env{"BRIDGE_SINK_URL": b.NATS.URL()}
	if b.once != "" {
		e["BRIDGE_DELIVERY"], e["BRIDGE_NATS_STREAM"], e["BRIDGE_NATS_CLAIM_SUBJECT"] = "exactly-once", b.once, b.once+".claim"
	}
	return e
}

// name returns the stream of a destination, and prefix what its subjects begin with.
func (b *Bus) stream(name string) string { return cmp.Or(b.once, name) }

func (b *Bus) prefix(name string) string {
	if b.once != "" {
		return b.once + "." + name
	}
	return name
}

// connections has one of each test and server: a test that polls opens no other one.
var connections sync.Map

// The test closes the connection.
func (b *Bus) js(t testing.TB) jetstream.JetStream {
	t.Helper()
	type key struct {
		t      testing.TB
		server *testenv.NATSServer
	}
	of := key{t, b.NATS}
	open, there := connections.LoadOrStore(of, sync.OnceValue(func() jetstream.JetStream { return b.NATS.JetStream(t) }))
	if !there {
		t.Cleanup(func() { connections.Delete(of) })
	}
	return open.(func() jetstream.JetStream)()
}

func (b *Bus) found(t testing.TB, name string) jetstream.Stream {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return must.Get(b.js(t).Stream(ctx, b.stream(name)))(t)
}

// Open makes the stream of a destination, once where all share it.
func (b onNATS) Open(t testing.TB, name string) string {
	t.Helper()
	stream := b.stream(name)
	if _, err := b.js(t).Stream(t.Context(), stream); b.once == "" || err != nil {
		b.NATS.CreateStream(t, jetstream.StreamConfig{
			Name: stream, Subjects: []string{stream + ".>"}, Storage: jetstream.FileStorage, Duplicates: 2 * time.Minute,
			Replicas: len(b.Members), AllowAtomicPublish: b.once != "",
		})
	}
	return b.prefix(name) + ".{type}"
}

func (b onNATS) remove(t testing.TB, name string) {
	t.Helper()
	must.OK(t, b.js(t).DeleteStream(t.Context(), name))
}

func (b onNATS) Count(t testing.TB, name string) (n int64) {
	t.Helper()
	stream := b.found(t, name)
	if b.once == "" {
		return int64(stream.CachedInfo().State.Msgs)
	}
	info := must.Get(stream.Info(t.Context(), jetstream.WithSubjectFilter(b.prefix(name)+".>")))(t)
	for _, of := range info.State.Subjects {
		n += int64(of)
	}
	return n
}

func (b onNATS) ends(t testing.TB, name string) Offsets {
	t.Helper()
	return Offsets{0: int64(b.found(t, name).CachedInfo().State.LastSeq)}
}

func (b onNATS) consume(ctx context.Context, t testing.TB, name string, from, ends Offsets, each func(Message)) error {
	stream, err := b.js(t).Stream(ctx, b.stream(name))
	if err != nil {
		return err
	}
	config := jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverAllPolicy}
	if from[0] > 0 {
		config.DeliverPolicy, config.OptStartSeq = jetstream.DeliverByStartSequencePolicy, uint64(from[0])+1
	}
	if b.once != "" {
		config.FilterSubjects = []string{b.prefix(name) + ".>"}
	}
	return testenv.EachMessage(ctx, stream, config, ends == nil, func(m jetstream.Msg) {
		meta := must.Get(m.Metadata())(t)
		if ends != nil && meta.Sequence.Stream > uint64(ends[0]) {
			return
		}
		r := Message{Partition: name, Value: m.Data(), Headers: make(map[string]string), Stored: meta.Timestamp, At: meta.Timestamp, Offset: int64(meta.Sequence.Stream)}
		for k, v := range m.Headers() {
			r.Headers[k] = v[0]
		}
		each(r)
	})
}

func (b onNATS) Publisher(t testing.TB, name string) func(context.Context, ...Message) error {
	t.Helper()
	js := b.js(t)
	return func(ctx context.Context, messages ...Message) error {
		for _, m := range messages {
			// The headers of JetStream itself would have it drop what is there already.
			msg := &nats.Msg{Subject: b.prefix(name) + "." + TypeOf(m), Data: m.Value, Header: nats.Header{}}
			for name, value := range m.Headers {
				if !strings.HasPrefix(name, "Nats-") {
					msg.Header.Set(name, value)
				}
			}
			if _, err := js.PublishMsg(ctx, msg); err != nil {
				return err
			}
		}
		return nil
	}
}

func (b onNATS) Expire(t testing.TB, name string, keep int64) {
	t.Helper()
	must.OK(t, b.found(t, name).Purge(t.Context(), jetstream.WithPurgeKeep(uint64(keep))))
}

func (b onNATS) Limit(t testing.TB, name string, bytes int) {
	t.Helper()
	b.Configure(t, name, func(c *jetstream.StreamConfig, _ jetstream.StreamState) { c.MaxMsgSize = int32(cmp.Or(bytes, -1)) })
}

// Configure changes a stream of JetStream, given how it stands.
func (b *Bus) Configure(t testing.TB, name string, change func(*jetstream.StreamConfig, jetstream.StreamState)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	now := b.found(t, name).CachedInfo()
	change(&now.Config, now.State)
	must.Get(b.js(t).UpdateStream(ctx, now.Config))(t)
}

// cluster returns what NATS says of the replicas of a stream, nothing while it does not.
func (b onNATS) cluster(t testing.TB, name string) *jetstream.ClusterInfo {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if stream, err := b.js(t).Stream(ctx, b.stream(name)); err == nil && stream.CachedInfo().Cluster != nil {
		return stream.CachedInfo().Cluster
	}
	return new(jetstream.ClusterInfo)
}

func (b onNATS) whole(t testing.TB, name string) bool {
	t.Helper()
	of := b.cluster(t, name)
	return of.Leader != "" && !slices.ContainsFunc(of.Replicas, func(p *jetstream.PeerInfo) bool { return !p.Current || p.Offline })
}

func (b onNATS) MoveLeaders(t testing.TB, name string) (moved int) {
	t.Helper()
	// A request that meets no leader asks nobody to step down.
	before := b.cluster(t, name).Leader
	if before == "" {
		return 0
	}
	var stepped struct{ Success bool }
	answer, err := b.js(t).Conn().Request("$JS.API.STREAM.LEADER.STEPDOWN."+b.stream(name), nil, 10*time.Second)
	if err == nil {
		must.OK(t, json.Unmarshal(answer.Data, &stepped))
	} else {
		after := b.cluster(t, name).Leader
		stepped.Success = after != "" && after != before
	}
	if stepped.Success {
		moved++
	}
	return moved
}
