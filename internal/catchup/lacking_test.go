package catchup_test

import (
	"strings"
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
	b := catchup.Lacking(image, "logs", copied, func() uint32 { return 0 })
	if len(b.Shards) != 1 || b.Shards[0].Key != key("log_*") {
		t.Errorf("the store lacks %+v", b.Shards)
	}
}

// TestAStoreLosesWhatALaterProcessHasDropped: a process that has waited for longer than a table was
// gone neither goes on behind the former table of that name, nor knows it as gone.
func TestAStoreLosesWhatALaterProcessHasDropped(t *testing.T) {
	key := func(shard string) store.Key { return store.Key{Stream: "logs", Shard: shard} }
	image := &store.Image{Epoch: 5, Shards: map[store.Key]store.Progress{
		key("log_*"): {}, key("log_1"): {Started: true, Position: 7}, key("log_2"): {Started: true, Position: 9}, key("\x02log_2"): {Position: 1}, key("orders"): {Position: 3},
	}}
	copied := &catchup.Copy{
		Shards:  []store.ShardChange{{Key: key("log_*"), Progress: &store.Progress{}}, {Key: key("log_1"), Progress: &store.Progress{Started: true}}},
		Forgets: func(shard string) (may, table bool) { return strings.Contains(shard, "log_"), shard == "log_2" },
	}
	for _, c := range []struct {
		epoch uint64
		want  int
	}{{5, 0}, {6, 2}} {
		copied.Epoch = c.epoch
		b := catchup.Lacking(image, "logs", copied, func() uint32 { return 0 })
		if len(b.Shards) != c.want {
			t.Errorf("a copy of epoch %d changes %+v", c.epoch, b.Shards)
		}
		for _, change := range b.Shards {
			p := change.Progress
			if !change.Remove || change.Key == key("log_2") && (!p.Started || p.Position != 0 || p.Since <= 6) || change.Key == key("\x02log_2") && p != nil {
				t.Errorf("what was dropped becomes %+v", change)
			}
		}
	}
}
