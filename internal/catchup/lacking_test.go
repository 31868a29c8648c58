package catchup_test

import (
	"testing"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/internal/catchup"
)

// TestAStoreLacksWhatItDoesNotKnow: a process that has waited takes from a copy also what nothing
// was decided about, such as the tables and patterns that another process has looked at.
func TestAStoreLacksWhatItDoesNotKnow(t *testing.T) {
	key := func(shard string) store.Key { return store.Key{Stream: "logs", Shard: shard} }
	image := &store.Image{Shards: map[store.Key]store.Progress{key("log_1"): {Started: true, Position: 7}, key("log_2"): {}}}
	copied := &catchup.Copy{}
	for _, shard := range []string{"log_*", "log_1", "log_2"} {
		copied.Shards = append(copied.Shards, store.ShardChange{Key: key(shard), Progress: &store.Progress{}})
	}
	b := catchup.Lacking(image, "logs", copied)
	if len(b.Shards) != 1 || b.Shards[0].Key != key("log_*") {
		t.Errorf("the store lacks %+v", b.Shards)
	}
}
