package buscopy_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"example.org/bridge/internal/buscopy"
	"example.org/bridge/internal/buscopy/buckettest"
	sinkjetstream "example.org/bridge/sink/jetstream"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testenv"
)

var buckets atomic.Int64

func newBucket() string { return fmt.Sprint("buscopy-", buckets.Add(1)) }

func openKV(t *testing.T, url, bucket string) *buscopy.Messages {
	t.Helper()
	bus := must.Get(sinkjetstream.Open(sinkjetstream.Options{
		Connection: sinkjetstream.Connection{URLs: []string{url}}, Bucket: bucket, CreateStream: true,
	}))(t)
	return buscopy.NewKV(bus, bucket)
}

func TestKVSuite(t *testing.T) {
	t.Parallel()
	s := testenv.NATS(t)
	buckettest.Run(t, buckettest.Options{Open: func(t *testing.T) func() buscopy.Bucket {
		bucket := newBucket()
		return func() buscopy.Bucket { return openKV(t, s.URL(), bucket) }
	}})
}
