package catchup_test

import (
	"fmt"
	"testing"

	"bridge/checkpoint/store"
)

// TestManyOlderMessages: a process that had read one stream was killed while it read another, so
// what is left of that is of older epochs. It is read in chunks like any other.
func TestManyOlderMessages(t *testing.T) {
	bubble(t, "of a former process", func(t *testing.T) {
		b := newBus("d")
		const messages = 50_000
		for i := range uint64(messages) {
			b.says(ours(fmt.Sprint(i%100), 5, i+1))
		}
		before := []store.Batch{{Epoch: 1000, Registrations: []store.Registration{{Number: 1, Stream: "s", TP: "d", Incarnation: "1"}}}}
		r := newRig(t, b, before, nil, "s").start()
		if n := len(r.feeds["s"].seen); n != messages {
			t.Errorf("the feed was given %d messages", n)
		}
		batches, _ := r.disk.applied()
		if n := len(batches); n > 100 {
			t.Errorf("%d messages are applied in %d batches", messages, n)
		}
	})
}
