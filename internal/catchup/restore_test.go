package catchup_test

import (
	"testing"

	"bridge/checkpoint/store"
	"bridge/internal/catchup"
)

func TestLacking(t *testing.T) {
	t.Parallel()
	key, other := store.Key{Stream: "s", Shard: "t"}, store.Key{Stream: "other", Shard: "t"}
	copied := func(p store.Progress) *catchup.Copy {
		return &catchup.Copy{
			Registrations: []store.Registration{{Number: 7, Stream: "s", TP: "a/0", Next: 5}},
			Shards:        []store.ShardChange{{Key: key, Progress: &p, Parts: []store.Part{{Kind: store.Gaps, Bytes: []byte("x")}}}},
		}
	}
	begun := store.Progress{Started: true, Position: 9}
	for _, c := range []struct {
		name                 string
		has                  store.Image
		is                   store.Progress
		shards, registration int
	}{
		{"an empty store lacks all", store.Image{}, begun, 1, 1},
		{"one of other streams, too", store.Image{
			Shards: map[store.Key]store.Progress{other: begun}, Registrations: []store.Registration{{Number: 7, Stream: "other", TP: "a/0"}},
		}, begun, 1, 1},
		{"one that has begun goes on from what it has", store.Image{Shards: map[store.Key]store.Progress{key: {Started: true, Position: 1}}}, begun, 0, 0},
		{"also where the copy has not begun", store.Image{Shards: map[store.Key]store.Progress{key: {Started: true, Position: 1}}}, store.Progress{}, 0, 0},
		{"one that has read the bus lacks a decision", store.Image{Registrations: []store.Registration{{Number: 1, Stream: "s", TP: "a/0", Next: 8}}}, begun, 1, 0},
		{"and one that was reset lacks the next one", store.Image{Shards: map[store.Key]store.Progress{key: {Since: 4}}}, store.Progress{Started: true, Since: 4}, 1, 0},
		{"a command on the bus is newer", store.Image{Shards: map[store.Key]store.Progress{key: {Started: true, Since: 4}}}, store.Progress{Since: 5}, 1, 0},
		{"a command on the store is newer", store.Image{Shards: map[store.Key]store.Progress{key: {Since: 6}}}, store.Progress{Started: true, Since: 5}, 0, 0},
	} {
		b := catchup.Lacking(&c.has, "s", copied(c.is))
		if len(b.Shards) != c.shards || len(b.Registrations) != c.registration {
			t.Errorf("%s: %+v", c.name, b)
		}
		if len(b.Shards) == 1 && (len(b.Shards[0].Clear) != 8 || *b.Shards[0].Progress != c.is || len(b.Shards[0].Parts) != 1) {
			t.Errorf("%s: the shard is %+v", c.name, b.Shards[0])
		}
		if len(b.Registrations) == 1 && (b.Registrations[0].Number != 0 || b.Registrations[0].Next != 5) {
			t.Errorf("%s: the registration is %+v", c.name, b.Registrations[0])
		}
	}
}
