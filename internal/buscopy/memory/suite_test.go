package memory_test

import (
	"testing"

	"example.org/bridge/internal/buscopy"
	"example.org/bridge/internal/buscopy/buckettest"
	"example.org/bridge/internal/buscopy/memory"
)

func TestSuite(t *testing.T) {
	t.Parallel()
	buckettest.Run(t, buckettest.Options{Open: func(*testing.T) func() buscopy.Bucket {
		b := new(memory.Bucket)
		return func() buscopy.Bucket { return b }
	}})
}
