package buscopy_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"example.org/bridge/internal/buscopy"
	"example.org/bridge/internal/buscopy/buckettest"
	"example.org/bridge/sink"
	sinkjetstream "example.org/bridge/sink/jetstream"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testenv"
)

var buckets atomic.Int64

func newBucket() string { return fmt.Sprint("buscopy-", buckets.Add(1)) }

func openKV(t *testing.T, url, bucket string) *buscopy.Messages {
	t.Helper()
	return buscopy.NewKV(openBus(t, url, bucket), bucket)
}

func openBus(t *testing.T, url, bucket string) *sinkjetstream.Sink {
	t.Helper()
	return must.Get(sinkjetstream.Open(sinkjetstream.Options{
		Connection: sinkjetstream.Connection{URLs: []string{url}}, Bucket: bucket, CreateStream: true,
	}))(t)
}

// countedKV is a bus that counts the messages that were read.
type countedKV struct {
	*sinkjetstream.Sink
	reader sink.Reader
	read   *atomic.Int64
}

func (b countedKV) Only(subject string) sink.Reader {
	b.reader = b.Sink.Only(subject)
	return b
}

func (b countedKV) Read(ctx context.Context, span sink.Span, each func(*sink.Stored) error) (uint64, error) {
	return b.reader.Read(ctx, span, func(m *sink.Stored) error { b.read.Add(1); return each(m) })
}

// TestKVReadsNoOtherKeys: each process looks at the number of shares, beside the progress of all.
func TestKVReadsNoOtherKeys(t *testing.T) {
	t.Parallel()
	bucket := newBucket()
	bus := openBus(t, testenv.NATS(t).URL(), bucket)
	b := countedKV{bus, bus, new(atomic.Int64)}
	m := buscopy.NewKV(b, bucket)
	t.Cleanup(func() { must.OK(t, m.Close()) })
	next := m.Follow("d.-shares.")
	for i, want := range []string{"[{d.-shares.s1 0}]", "[{d.-shares.s1 1}]"} {
		must.OK(t, m.Put(t.Context(), "d.-shares.s1", fmt.Append(nil, i)))
		for n := range 20 {
			must.OK(t, m.Put(t.Context(), fmt.Sprint("d.orders.", n), []byte("copy")))
		}
		entries := must.Get(next(t.Context()))(t)
		if got := fmt.Sprintf("%s", entries); got != want || b.read.Load() != int64(i+1) {
			t.Errorf("it finds %s in %d messages, want %s in %d", got, b.read.Load(), want, i+1)
		}
	}
}

func TestKVSuite(t *testing.T) {
	t.Parallel()
	s := testenv.NATS(t)
	buckettest.Run(t, buckettest.Options{Open: func(t *testing.T) func() buscopy.Bucket {
		bucket := newBucket()
		return func() buscopy.Bucket { return openKV(t, s.URL(), bucket) }
	}})
}
