package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"bridge/checkpoint"
	"bridge/checkpoint/memory"
	"bridge/source/ledger"
)

// A store keeps the position of each shard, and a view of what was last published of each entity.
func ExampleStore() {
	ctx := context.Background()
	var store checkpoint.Store = memory.New()
	key := checkpoint.Key{Stream: "orders", Shard: "shop.orders"}

	_, err := store.Load(ctx, key)
	fmt.Println(errors.Is(err, checkpoint.ErrNotFound))

	// A save is atomic: the position and the entries of the view change together.
	err = store.Save(ctx, key, checkpoint.State{
		Position: ledger.Position{ID: 7},
		View:     []checkpoint.Change{{Entity: []byte("A-1"), Known: checkpoint.Known{Row: 7, Fate: checkpoint.Live}}},
		Saved:    time.Now(),
	})
	if err != nil {
		panic(err)
	}
	state, err := store.Load(ctx, key)
	fmt.Println(state.Position.ID, err)
	known, err := store.Lookup(ctx, key, [][]byte{[]byte("A-1"), []byte("A-2")}, nil)
	fmt.Println(known[0].Row, known[1].Fate == checkpoint.Unknown, err)
	// Output:
	// true
	// 7 <nil>
	// 7 true <nil>
}

// A change of settings that decide what saved state means is found by comparing two meanings.
func ExampleMeaning_Differences() {
	saved := checkpoint.Meaning{Kind: "capability", ID: "id", Key: []string{"order_no"}}
	now := checkpoint.Meaning{Kind: "release", ID: "id", Key: []string{"order_no"}}
	fmt.Println(saved.Differences(&now))
	// Output: KIND was capability and is release
}
