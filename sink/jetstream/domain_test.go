package jetstream_test

import (
	"crypto/tls"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"bridge/sink"
	"bridge/sink/jetstream"
	"bridge/tests/testenv"
)

// TestADomainOfJetStream publishes to and reads from a stream of a hub, over a leaf node with a
// domain of its own.
func TestADomainOfJetStream(t *testing.T) {
	t.Parallel()
	port := testenv.FreePort(t)
	hub := testenv.InProcessNATS(t, func(o *server.Options) {
		o.ServerName, o.JetStreamDomain, o.LeafNode.Host, o.LeafNode.Port = "hub", "hub", "127.0.0.1", port
	})
	leaf := testenv.InProcessNATS(t, func(o *server.Options) {
		o.ServerName, o.JetStreamDomain = "leaf", "leaf"
		o.LeafNode.Remotes = []*server.RemoteLeafOpts{{URLs: []*url.URL{{Scheme: "nats", Host: fmt.Sprint("127.0.0.1:", port)}}}}
	})
	hub.CreateStream(t, natsjs.StreamConfig{Name: "EVENTS", Subjects: []string{"in.>", "claim"}, AllowAtomicPublish: true, Duplicates: 2 * time.Minute})
	for _, claim := range []string{"", "claim"} {
		o := jetstream.Options{URLs: []string{leaf.URL()}, Stream: "EVENTS", Published: []string{"in.a"}, JetStreamDomain: "hub", Claim: claim}
		s := open(t, o)
		mustPublish(t, s, messages("in.a", "s"+claim, 10, 3))
		n := 0
		if _, err := s.Read(deadline(t, time.Minute), sink.Span{TP: "EVENTS", From: 1, To: 11}, func(*sink.Stored) error { n++; return nil }); err != nil || n != 10 {
			t.Errorf("%d messages were read: %v", n, err)
		}
		if found := inspected(t, o).Findings; len(found) > 0 {
			t.Errorf("found %+v", found)
		}
	}
	bucket := open(t, jetstream.Options{URLs: []string{leaf.URL()}, Bucket: "b", CreateStream: true, JetStreamDomain: "hub"})
	mustPublish(t, bucket, messages("$KV.b.key", "bucket", 3, 1))
	if stream, err := hub.JetStream(t).Stream(t.Context(), "KV_b"); err != nil || len(read(t, stream, "$KV.b.key")) != 1 {
		t.Errorf("the bucket has not the last message: %v", err)
	}
}

// TestHandshakeFirst connects to a server that speaks TLS from the first byte.
func TestHandshakeFirst(t *testing.T) {
	t.Parallel()
	certs := testenv.NewCerts(t)
	pair, err := tls.LoadX509KeyPair(certs.ServerCert, certs.ServerKey)
	if err != nil {
		t.Fatal(err)
	}
	nats := testenv.InProcessNATS(t, func(o *server.Options) {
		o.TLSConfig, o.TLSTimeout, o.TLSHandshakeFirst = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, 60, true
	})
	o := jetstream.Options{
		URLs: []string{nats.URL()}, Stream: "EVENTS", CreateStream: true, Subjects: []string{"in.a"}, HandshakeFirst: true, Fault: func(tp string, err error) { t.Log(tp, err) },
		TLS: func() (*tls.Config, error) { return &tls.Config{InsecureSkipVerify: true}, nil },
	}
	mustPublish(t, open(t, o), messages("in.a", "s", 3, 1))
}
