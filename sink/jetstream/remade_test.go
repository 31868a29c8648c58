package jetstream_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"example.org/bridge/client"
	clientjetstream "example.org/bridge/client/jetstream"
	"example.org/bridge/sink"
	"example.org/bridge/sink/jetstream"
	"example.org/bridge/sink/sinktest"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testenv"
)

// wantThere fails the test unless each message that a batch's outcome puts on a stream, as it is
// now, is there. It returns how many are.
func wantThere(t *testing.T, stream natsjs.Stream, batch []sink.Message, out sink.Outcome) (n int) {
	t.Helper()
	all := testenv.Consume(t, stream, "")
	created := stream.CachedInfo().Created.UTC().Format(time.RFC3339Nano)
	for i, at := range out.At {
		switch {
		case out.TPs[at.TP].Incarnation != created:
		case at.Offset == 0 || at.Offset > uint64(len(all)) || all[at.Offset-1].ID != batch[i].ID:
			t.Fatalf("message %d is not at %+v, the stream has %d", i, at, len(all))
		default:
			n++
		}
	}
	return n
}

func TestAStreamThatIsCreatedAgain(t *testing.T) {
	t.Parallel()
	server := testenv.AnyNATS(t)
	js := server.JetStream(t)
	for name, repeats := range map[string]int{"takes what is published with fences": 0, "takes what is published without fences": 2} {
		t.Run(name, func(t *testing.T) {
			config := server.CreateStream(t, natsjs.StreamConfig{}).CachedInfo().Config
			var sessions atomic.Int64
			s := open(t, jetstream.Options{Connection: at(server.URL(), config.Name), Session: func(stream string) {
				if stream != config.Name {
					t.Errorf("a session of %q", stream)
				}
				sessions.Add(1)
			}})
			before := messages(config.Name+".a", "before", 200, 10)
			for range 1 + repeats {
				sinktest.MustPublish(t, s, before)
			}
			stream := remake(t, js, config)
			// Without fences one answer shows it, and those with it still name the former stream.
			first, second := messages(config.Name+".a", "first", 100, 10), messages(config.Name+".a", "second", 100, 10)
			sinktest.MustPublish(t, s, first)
			out := sinktest.MustPublish(t, s, second)
			wantWhole(t, testenv.Consume(t, stream, ""), first, second)
			if n := wantThere(t, stream, second, out); n != len(second) || len(out.TPs) != 1 {
				t.Errorf("%d messages are said to lie on the stream as it is now, of %+v", n, out.TPs)
			}
			if n := sessions.Load(); n != 2 {
				t.Errorf("%d sessions, want one for each making of the stream", n)
			}
		})
	}

	t.Run("has no messages that the former one has acknowledged to the same call", func(t *testing.T) {
		p, s, stream, name := behindProxy(t, server, natsjs.StreamConfig{})
		held := p.PauseAfter(8 << 10)
		batch, done := messages(name+".a", "long", 10_000, 100), make(chan sink.Outcome, 1)
		go func() {
			out, err := s.Publish(sinktest.Deadline(t), batch)
			if err != nil || !out.AllAcked() {
				t.Errorf("%d of %d acknowledged: %v", out.Acked(), len(batch), err)
			}
			done <- out
		}()
		// The first answers have come, and not enough of them for the last message to be sent.
		<-held
		again := remake(t, js, stream.CachedInfo().Config)
		p.Heal()
		out := <-done
		if n := wantThere(t, again, batch, out); n == 0 || n == len(batch) || len(out.TPs) != 2 {
			t.Errorf("%d of %d messages are said to lie on the stream as it is now, the TPs are %+v", n, len(batch), out.TPs)
		}
	})
}

// TestConsumersThatRepublish is what docs/how-to.md says of headers that NATS keeps: a message that
// is published again with all of them is refused, and a stream that sources this one has none.
func TestConsumersThatRepublish(t *testing.T) {
	t.Parallel()
	server := testenv.AnyNATS(t)
	for _, claim := range []bool{false, true} {
		stream, options := claimed(t, server, natsjs.StreamConfig{})
		if !claim {
			options.Claim = ""
		}
		const rows = 20
		sinktest.MustPublish(t, open(t, options), messages(options.Stream+".a", "row", rows, 5))
		other := server.CreateStream(t, natsjs.StreamConfig{}).CachedInfo().Config.Name + ".b"
		refused := map[bool]int{}
		for _, m := range testenv.Consume(t, stream, options.Stream+".a") {
			for _, all := range []bool{true, false} {
				again := &nats.Msg{Subject: other, Data: m.Value, Header: nats.Header{}}
				for header, value := range m.Headers {
					if all || !strings.HasPrefix(header, "Nats-") {
						again.Header.Set(header, value)
					}
				}
				if _, err := server.JetStream(t).PublishMsg(sinktest.Deadline(t), again); err != nil {
					refused[all]++
				}
			}
		}
		if refused[true] != rows || refused[false] != 0 {
			t.Errorf("exactly once %t: %d of %d messages are refused with all headers, %d without those of NATS", claim, refused[true], rows, refused[false])
		}
		copied := server.CreateStream(t, natsjs.StreamConfig{Sources: []*natsjs.StreamSource{{Name: options.Stream}}})
		sinktest.Until(t, "the source is copied", func() bool { return len(testenv.Consume(t, copied, "")) >= rows })
		for _, m := range testenv.Consume(t, copied, "") {
			for header := range m.Headers {
				if strings.HasPrefix(header, "Nats-Expected-") || strings.HasPrefix(header, "Nats-Batch-") {
					t.Fatalf("the copy of %s has the header %s", m.ID, header)
				}
			}
		}
	}
}

// hubAndLeaf starts two servers, each with a domain of its own that is called so.
func hubAndLeaf(t *testing.T) (hub, leaf *testenv.NATSServer) {
	port := testenv.FreePort(t)
	hub = testenv.InProcessNATS(t, func(o *server.Options) {
		o.ServerName, o.JetStreamDomain, o.LeafNode.Host, o.LeafNode.Port = "hub", "hub", "127.0.0.1", port
	})
	leaf = testenv.InProcessNATS(t, func(o *server.Options) {
		o.ServerName, o.JetStreamDomain = "leaf", "leaf"
		o.LeafNode.Remotes = []*server.RemoteLeafOpts{{URLs: []*url.URL{{Scheme: "nats", Host: fmt.Sprint("127.0.0.1:", port)}}}}
	})
	return hub, leaf
}

// TestADomainOfJetStream publishes to and reads from a stream of a hub, over a leaf node with a
// domain of its own.
func TestADomainOfJetStream(t *testing.T) {
	t.Parallel()
	hub, leaf := hubAndLeaf(t)
	hub.CreateStream(t, natsjs.StreamConfig{Name: "EVENTS", Subjects: []string{"in.>", "claim"}, AllowAtomicPublish: true, Duplicates: 2 * time.Minute})
	for _, claim := range []string{"", "claim"} {
		o := jetstream.Options{
			Connection: jetstream.Connection{URLs: []string{leaf.URL()}, Stream: "EVENTS", JetStreamDomain: "hub"},
			Published:  []string{"in.a"}, Claim: claim,
		}
		s := open(t, o)
		sinktest.MustPublish(t, s, messages("in.a", "s"+claim, 10, 3))
		n := 0
		if _, err := s.Read(sinktest.Deadline(t), sink.Span{TP: "EVENTS", From: 1, To: 11}, func(*sink.Stored) error { n++; return nil }); err != nil || n != 10 {
			t.Errorf("%d messages were read: %v", n, err)
		}
		if found := inspected(t, o).Findings; len(found) > 0 {
			t.Errorf("found %+v", found)
		}
	}
	consumer := must.Get(clientjetstream.New(clientjetstream.Options{URLs: []string{leaf.URL()}, Stream: "EVENTS", JetStreamDomain: "hub"}))(t)
	ctx, cancel := context.WithCancel(sinktest.Deadline(t))
	defer cancel()
	handled := 0
	subscription := client.Subscription{Opening: client.Opening{Destinations: []string{"in.a"}}, Group: "g", Joined: func() {}}
	if err := consumer.Consume(ctx, subscription, func(context.Context, string, *sink.Stored) error {
		if handled++; handled == 20 {
			cancel()
		}
		return nil
	}); err != nil || handled < 20 {
		t.Errorf("%d messages were consumed: %v", handled, err)
	}
	bucket := open(t, jetstream.Options{
		Connection: jetstream.Connection{URLs: []string{leaf.URL()}, JetStreamDomain: "hub"},
		Bucket:     "b", CreateStream: true,
	})
	sinktest.MustPublish(t, bucket, messages("$KV.b.key", "bucket", 3, 1))
	if stream, err := hub.JetStream(t).Stream(t.Context(), "KV_b"); err != nil || len(testenv.Consume(t, stream, "$KV.b.key")) != 1 {
		t.Errorf("the bucket has not the last message: %v", err)
	}
}

// TestADomainBesideThatOfTheStream has a stream of the leaf's own domain take the same subjects,
// under the same name: what it answers does not count.
func TestADomainBesideThatOfTheStream(t *testing.T) {
	t.Parallel()
	hub, leaf := hubAndLeaf(t)
	config := natsjs.StreamConfig{Name: "EVENTS", Subjects: []string{"in.>", "claim"}, AllowAtomicPublish: true, Duplicates: 2 * time.Minute}
	stream := hub.CreateStream(t, config)
	config.Subjects, config.AllowAtomicPublish = []string{"in.>"}, false
	leaf.CreateStream(t, config)
	publish := func(series, claim string, within time.Duration) (acked int, err error) {
		s := open(t, jetstream.Options{
			Connection: jetstream.Connection{URLs: []string{leaf.URL()}, Stream: "EVENTS", JetStreamDomain: "hub"}, Published: []string{"in.a"}, Claim: claim,
		})
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		out, err := s.Publish(ctx, messages("in.a", series, 10, 3))
		return out.Acked(), err
	}
	if acked, err := publish("once", "", time.Minute); acked < 10 || err != nil {
		t.Errorf("%d messages were acknowledged: %v", acked, err)
	}
	if acked, err := publish("exactly once", "claim", time.Minute); acked < 10 && !errors.Is(err, sink.ErrUnknownOutcome) {
		t.Errorf("in a batch %d messages were acknowledged: %v", acked, err)
	}
	// The refusal of the leaf may come before the hub has stored the batch.
	must.Until(t, time.Minute, "the stream has each of 20 messages once", func() any {
		if n := len(testenv.Consume(t, stream, "in.a")); n != 20 {
			return n
		}
		return nil
	})
	config.Subjects, config.MaxMsgs, config.Discard = []string{"in.>", "claim"}, 1, natsjs.DiscardNew
	must.Get(hub.JetStream(t).UpdateStream(t.Context(), config))(t)
	if acked, _ := publish("full", "", time.Second); acked > 0 {
		t.Errorf("%d messages were acknowledged that the stream has not", acked)
	}
}

// TestHandshakeFirst connects to a server that speaks TLS from the first byte.
func TestHandshakeFirst(t *testing.T) {
	t.Parallel()
	certs := testenv.NewCerts(t)
	pair, err := tls.LoadX509KeyPair(certs.ServerCert, certs.ServerKey)
	must.OK(t, err)
	nats := testenv.InProcessNATS(t, func(o *server.Options) {
		o.TLSConfig, o.TLSTimeout, o.TLSHandshakeFirst = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, 60, true
	})
	o := jetstream.Options{
		Connection: jetstream.Connection{
			URLs: []string{nats.URL()}, Stream: "EVENTS", HandshakeFirst: true,
			TLS: func() (*tls.Config, error) { return &tls.Config{InsecureSkipVerify: true}, nil },
		},
		CreateStream: true, Subjects: []string{"in.a"}, Fault: func(tp string, err error) { t.Log(tp, err) },
	}
	sinktest.MustPublish(t, open(t, o), messages("in.a", "s", 3, 1))
}
