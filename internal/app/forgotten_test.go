package app

import (
	"testing"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/internal/app/apptest"
	"example.org/bridge/internal/catchup"
)

// TestAForgottenTableComesBackOnce: a table that was dropped for long and made again is published
// from its first row once, also by a standby whose folder still knows the former one, as gone or
// not.
func TestAForgottenTableComesBackOnce(t *testing.T) {
	findOften(t)
	s := apptest.NewShop(t)
	create := func(rows int) {
		s.Exec(t, "CREATE TABLE log_2 (id INTEGER PRIMARY KEY AUTOINCREMENT, total INT)")
		for range rows {
			s.Exec(t, "INSERT INTO log_2 (total) VALUES (1)")
		}
	}
	s.Env["BRIDGE_STREAMS"] = "orders,logs"
	s.Env["BRIDGE_STREAM_LOGS_TABLE"], s.Env["BRIDGE_STREAM_LOGS_KIND"] = "log_*", "release"
	create(4)
	r := newReloading(t, s)
	r.shown(t, 4, "log_2 running 4")
	key := store.Key{Stream: "logs", Shard: "log_2"}
	load := func() store.Image {
		image, err := r.disk.Load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return image
	}
	former := load()
	keptLeft = 0
	s.Exec(t, "DROP TABLE log_2")
	until(t, "log_2 is forgotten", func() any { return r.log }, func() bool {
		image := load()
		_, known := image.Shards[key]
		_, marked := image.Shards[leftKey(key)]
		return !known && !marked
	})
	create(9)
	r.shown(t, 9, "log_2 running 9")
	// A standby has the store of before, and takes what it lacks of the copy.
	image := load()
	copied := &catchup.Copy{Epoch: image.Epoch, Forgets: func(shard string) (may, table bool) { return true, shard == key.Shard }}
	for one, p := range image.Shards {
		if one.Stream == "logs" {
			copied.Shards = append(copied.Shards, store.ShardChange{Key: one, Progress: &p})
		}
	}
	for _, marked := range []bool{false, true} {
		if marked {
			former.Shards[leftKey(key)] = store.Progress{Floor: isGone}
		}
		b := catchup.Lacking(&former, "logs", copied)
		taken, removed := false, false
		for _, change := range b.Shards {
			taken = taken || change.Key == key && change.Progress.Position == 9
			removed = removed || change.Key == leftKey(key) && change.Remove && change.Progress == nil
		}
		if !taken || removed != marked {
			t.Errorf("marked %t: the standby takes %+v", marked, b.Shards)
		}
	}
	if _, err := r.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.shown(t, 0, "log_2 running 9")
}
