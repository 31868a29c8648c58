package jetstream_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"
	natsjetstream "github.com/nats-io/nats.go/jetstream"

	"bridge/internal/buscopy"
	"bridge/internal/buscopy/buckettest"
	"bridge/internal/buscopy/jetstream"
	sinkjetstream "bridge/sink/jetstream"
	"bridge/tests/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// buckets numbers those of the tests.
var buckets atomic.Int64

func newBucket() string { return fmt.Sprint("buscopy-", buckets.Add(1)) }

func open(t *testing.T, url, bucket string) *buscopy.Messages {
	t.Helper()
	bus, err := sinkjetstream.Open(sinkjetstream.Options{
		URLs: []string{url}, Bucket: bucket, CreateStream: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	return jetstream.New(bus, bucket)
}

func TestSuite(t *testing.T) {
	t.Parallel()
	s := testenv.NATS(t)
	buckettest.Run(t, buckettest.Options{Open: func(t *testing.T) func() buscopy.Bucket {
		bucket := newBucket()
		return func() buscopy.Bucket { return open(t, s.URL(), bucket) }
	}})
}

// TestTheBucket is one that clients of NATS know.
func TestTheBucket(t *testing.T) {
	t.Parallel()
	s := testenv.NATS(t)
	bucket := newBucket()
	b := open(t, s.URL(), bucket)
	defer func() { _ = b.Close() }()
	for _, value := range []string{"1", "2"} {
		if err := b.Put(t.Context(), "d.s.1.0.0", []byte(value)); err != nil {
			t.Fatal(err)
		}
	}
	nc, err := nats.Connect(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := natsjetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	kv, err := js.KeyValue(t.Context(), bucket)
	if err != nil {
		t.Fatal(err)
	}
	entry, err := kv.Get(t.Context(), "d.s.1.0.0")
	if err != nil || string(entry.Value()) != "2" {
		t.Errorf("%v, %v", entry, err)
	}
	status, err := kv.Status(t.Context())
	if err != nil || status.History() != 1 || status.Values() != 1 {
		t.Errorf("%+v, %v", status, err)
	}
}
