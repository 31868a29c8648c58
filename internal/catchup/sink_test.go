package catchup_test

import (
	"fmt"
	"testing"

	"bridge/internal/catchup"
	"bridge/sink"
	"bridge/sink/memory"
)

// TestOverASink reads what a sink has stored, whose offsets begin at 1, and finds the anchor that
// the publisher's hash makes.
func TestOverASink(t *testing.T) {
	bubble(t, "what a sink stores is read", func(t *testing.T) {
		s := memory.New(memory.Options{})
		publish := func(epoch uint64, from, to int) {
			for i := from; i < to; i++ {
				m := sink.Message{Destination: "d", Key: fmt.Append(nil, "k", i), Value: []byte("{}"), ID: fmt.Sprintf("00112233-4455-6677-8899-%012x", i),
					Domain: "test", Stream: "s", Shard: "a", RowID: uint64(i), Origin: sink.FromTail, Time: published, State: sink.State{Epoch: epoch, Seq: uint64(i), Hash: 9}}
				if out, err := s.Publish(t.Context(), []sink.Message{m}); err != nil || !out.AllAcked() {
					t.Fatalf("publish: %v", err)
				}
			}
		}
		over := func(o *catchup.Options) { o.Reader = s }
		publish(5, 1, 4)
		r := newRig(t, nil, nil, over, "s").start()
		r.wantSeen("s", "k1 k2 k3")
		g := r.registration("s", "d")
		event := [16]byte{0, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 15: 3}
		if g.Next != 4 || g.Late || g.Last.Hash != catchup.HashMessage([]byte("k3"), event, 5, 3) {
			t.Errorf("registration %+v", g)
		}
		batches, _ := r.disk.applied()
		publish(1<<50, 4, 6)
		s.Expire("d", 2)
		r = newRig(t, nil, batches, over, "s").start()
		if g := r.registration("s", "d"); g.Number != 1 || g.Next != 6 {
			t.Errorf("registration %+v", g)
		}
		batches, _ = r.disk.applied()
		s.Lose("d", 1)
		if g := newRig(t, nil, batches, over, "s").start().registration("s", "d"); g.Number != 2 || g.Next != 5 || !g.Late {
			t.Errorf("registration %+v", g)
		}
	})
}
