package bench

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"bridge/sink"
	ours "bridge/sink/jetstream"
	"bridge/tests/bench/report"
	"bridge/tests/testenv"
)

// natsBus counts and reads with nats.go.
type natsBus struct {
	server *testenv.NATSServer
	js     jetstream.JetStream
	once   bool
}

// requestTimeout bounds requests to a busy server. By itself the library waits for 5 s.
const requestTimeout = time.Minute

func openJetStream(t *testing.T) bus {
	t.Helper()
	server := testenv.NATS(t)
	return natsBus{server: server, js: server.JetStream(t)}
}

func (b natsBus) name() string    { return "jetstream" }
func (b natsBus) product() string { return "nats-server" }
func (b natsBus) version() string { return b.server.Version }
func (b natsBus) servers() string { return b.server.URL() }
func (b natsBus) library() string { return "nats.go" }
func (b natsBus) ours() string    { return "jetstream" }

func (b natsBus) exactlyOnce() bus { b.once = true; return b }

func (b natsBus) env(target string) env {
	e := env{"BRIDGE_SINK_URL": b.server.URL(), "BRIDGE_NATS_STREAM": target}
	if b.once {
		e["BRIDGE_DELIVERY"], e["BRIDGE_NATS_CLAIM_SUBJECT"] = report.ExactlyOnce, target+".claim"
	}
	return e
}

func (b natsBus) open(t testing.TB, target string) string {
	t.Helper()
	config := jetstream.StreamConfig{
		Name: target, Subjects: []string{target + ".>"}, Storage: jetstream.FileStorage, Duplicates: 2 * time.Minute,
		AllowAtomicPublish: b.once,
	}
	if _, err := testenv.CreateStream(t.Context(), b.js, config); err != nil {
		t.Fatal(err)
	}
	return target + ".{type}"
}

func (b natsBus) drop(t testing.TB, target string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), requestTimeout)
	defer cancel()
	if err := b.js.DeleteStream(ctx, target); err != nil {
		t.Fatal(err)
	}
}

func (b natsBus) count(t testing.TB, target string) int64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), requestTimeout)
	defer cancel()
	stream, err := b.js.Stream(ctx, target)
	if err != nil {
		t.Fatal(err)
	}
	return int64(stream.CachedInfo().State.Msgs)
}

func (b natsBus) bytes(t testing.TB, target string) int64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), requestTimeout)
	defer cancel()
	stream, err := b.js.Stream(ctx, target)
	if err != nil {
		t.Fatal(err)
	}
	return int64(stream.CachedInfo().State.Bytes)
}

func (b natsBus) follow(t testing.TB, target string, each func(arrival)) (stop func()) {
	t.Helper()
	consumer, err := b.js.OrderedConsumer(t.Context(), target, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverAllPolicy})
	if err != nil {
		t.Fatal(err)
	}
	messages, err := consumer.Messages()
	if err != nil {
		t.Fatal(err)
	}
	return consume(t, messages.Stop, func(ctx context.Context) error {
		for {
			m, err := messages.Next(jetstream.NextContext(ctx))
			if errors.Is(err, jetstream.ErrNoHeartbeat) {
				continue
			}
			if err != nil {
				return err
			}
			at := time.Now()
			// A claim has no row.
			if row := rowOf(m.Headers().Get(sink.HeaderRowID), m.Data()); row > 0 {
				each(arrival{row, at, m.Data()})
			}
		}
	})
}

// window is how many messages may be on the way, as it is by default in our sink.
const window = 1000

// publishNATS publishes a spool with nats.go: message ids, acknowledgements, the same window as our
// sink.
func publishNATS(j job, begin func()) (count, size int64, err error) {
	messages, err := openSpool(j.Spool)
	if err != nil {
		return 0, 0, err
	}
	nc, err := nats.Connect(j.Servers, nats.Timeout(requestTimeout))
	if err != nil {
		return 0, 0, err
	}
	defer nc.Close()
	failed := make(chan error, 1)
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(window),
		jetstream.WithPublishAsyncErrHandler(func(_ jetstream.JetStream, _ *nats.Msg, err error) {
			select {
			case failed <- err:
			default:
			}
		}))
	if err != nil {
		return 0, 0, err
	}
	// The library keeps a message until it is acknowledged.
	pool := make([]nats.Msg, 4*window)
	for i := range pool {
		pool[i].Header = natsHeaders()
	}
	begin()
	for m, ok := messages.next(); ok; m, ok = messages.next() {
		one := &pool[count%int64(len(pool))]
		*one = nats.Msg{Subject: j.Destination, Data: m.value, Header: one.Header}
		id := string(m.id)
		one.Header[jetstream.MsgIDHeader][0], one.Header[sink.HeaderID][0], one.Header[sink.HeaderRowID][0] = id, id, string(m.row)
		if _, err := js.PublishMsgAsync(one, jetstream.WithStallWait(time.Minute)); err != nil {
			return count, size, err
		}
		count++
		size += int64(len(m.value))
	}
	select {
	case <-js.PublishAsyncComplete():
	case err = <-failed:
	}
	return count, size, err
}

// natsHeaders are the headers of all messages of a target in the pool; all but three values stay.
func natsHeaders() nats.Header {
	header := nats.Header{jetstream.MsgIDHeader: {""}}
	names, values := headersOf(usual.message("", time.Now()))
	for i, name := range names {
		header[name] = []string{values[i]}
	}
	return header
}

// publishOurJetStream publishes a spool with our sink.
func publishOurJetStream(j job, begin func()) (count, size int64, err error) {
	s, err := ours.Open(ours.Options{URLs: strings.Split(j.Servers, ","), Stream: j.Target})
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return publishOurs(s, j, begin)
}
