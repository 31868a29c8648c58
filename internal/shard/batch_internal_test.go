package shard

import (
	"testing"
	"time"

	"example.org/bridge/event"
	"example.org/bridge/sink"
)

// TestABatchKeepsNoValues: batches are used again, while their buffers may be dropped.
func TestABatchKeepsNoValues(t *testing.T) {
	b := &batch{messages: make([]sink.Message, 1)}
	b.bare(&event.Event{Headers: []event.Header{{Name: "a", Value: []byte("b")}}}, time.Now(), "")
	bares, headers := b.bares, b.headers
	b.recycle()
	if bares[0].Headers != nil || headers[0].Value != nil {
		t.Errorf("it keeps %v and %v", bares[0].Headers, headers[0])
	}
}
