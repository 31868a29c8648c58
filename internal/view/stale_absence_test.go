package view

import (
	"context"
	"testing"

	"bridge/checkpoint/store"
	"bridge/checkpoint/store/memory"
)

// An absence that was proved before the attempt of its owner ended is not published by the next
// one, which has no permission.
func TestStaleAbsence(t *testing.T) {
	ctx := context.Background()
	s := memory.New()
	e := store.Entry{Shard: "a", Row: 1, State: store.Live, Digest: [16]byte{1}, Event: [16]byte{9}, At: store.At{TP: 1, Offset: 1}, Epoch: 1, Seq: 1}
	if err := s.Apply(ctx, &store.Batch{Views: []store.ViewChange{{Stream: "s", Changes: []store.Change{{Entity: []byte("x"), Entry: e}}}}}); err != nil {
		t.Fatal(err)
	}
	v := New("s", s, func(n uint32) uint32 { return n })
	var handed []Move
	m := NewMovers(v, MoversOptions{
		Shards: []string{"a", "b"},
		Read: func(context.Context, string, [][]byte) (Reading, error) {
			return Reading{Rows: make([][]Found, 1)}, nil
		},
		Publish: func(_ context.Context, shard string, moves []Move) error {
			// While this waited for another shard, the attempt of a has ended, and the next begun.
			v.Stop("a")
			handed = moves
			return nil
		},
	})
	m.Nominate("a", []byte("x"))
	if _, err := m.Pass(ctx); err != nil {
		t.Fatal(err)
	}
	// Now x is inserted into b. The owner of a goes on with what it was handed.
	c := v.Begin("a")
	if len(c.Permit(handed)) == 0 {
		return // the caller leaves it to Movers
	}
	list, err := v.Absent(ctx, c, [][]byte{[]byte("x")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if list[0].News {
		t.Errorf("it publishes that x is gone, which nobody has proved since: %+v", list[0])
	}
}
