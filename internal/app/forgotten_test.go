package app

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/internal/stream"
	"example.org/bridge/tests/must"
)

// TestAForgottenTableComesBackOnce: a table that was dropped for long and made again is published
// from its first row once, also by a standby whose folder still knows the former one, as gone or
// not.
func TestAForgottenTableComesBackOnce(t *testing.T) {
	s := newLogs(t)
	s.Create(t, "log_2", 4)
	r := newReloading(t, s)
	r.shown(t, 4, "log_2 running 4")
	key := store.Key{Stream: "logs", Shard: "log_2"}
	load := func() store.Image {
		return must.Get(r.disk.Load(t.Context()))(t)
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
	s.Create(t, "log_2", 9)
	r.shown(t, 9, "log_2 running 9")
	// A standby has the store of before, and takes what it lacks of the copy.
	image := load()
	copied := &stream.Copy{Epoch: image.Epoch, Forgets: func(shard string) (may, table bool) { return true, shard == key.Shard }}
	for one, p := range image.Shards {
		if one.Stream == "logs" {
			copied.Shards = append(copied.Shards, store.ShardChange{Key: one, Progress: &p})
		}
	}
	for _, marked := range []bool{false, true} {
		if marked {
			former.Shards[leftKey(key)] = store.Progress{Floor: isGone}
		}
		b := stream.Lacking(&former, "logs", copied, func() uint32 { return 0 })
		taken, removed := false, false
		for _, change := range b.Shards {
			taken = taken || change.Key == key && change.Progress.Position == 9
			removed = removed || change.Key == leftKey(key) && change.Remove && change.Progress == nil
		}
		if !taken || removed != marked {
			t.Errorf("marked %t: the standby takes %+v", marked, b.Shards)
		}
	}
	must.Get(r.Reload(t.Context()))(t)
	r.shown(t, 0, "log_2 running 9")
}

// TestAClockThatJumpsForgetsNoTable: one that is gone goes on where it was when it comes back.
func TestAClockThatJumpsForgetsNoTable(t *testing.T) {
	s := newLogs(t)
	keptLeft, steady = 0, func() time.Time { return time.Now().Add(-8 * 24 * time.Hour) }
	s.Create(t, "log_2", 4)
	r := newReloading(t, s)
	r.shown(t, 4, "log_2 running 4")
	s.Exec(t, "ALTER TABLE log_2 RENAME TO away")
	r.shown(t, 0, "log_2 gone 4")
	if whole, _, err := r.now.Load().findTables(t.Context()); !whole || err != nil {
		t.Fatalf("a look is whole: %t, %v", whole, err)
	}
	s.Exec(t, "ALTER TABLE away RENAME TO log_2")
	r.shown(t, 0, "log_2 running 4")
}

// TestAResetOfAPattern: START decides again about all tables, those that are new, too, and one that
// is gone stays so.
func TestAResetOfAPattern(t *testing.T) {
	s := newLogs(t)
	s.Env["BRIDGE_SINK_URL"] = "embedded://" + t.TempDir()
	s.Create(t, "log_1", 3)
	s.Create(t, "log_2", 4)
	r := newReloading(t, s)
	r.shown(t, 7, "log_1 running 3", "log_2 running 4")
	s.Exec(t, "DROP TABLE log_2")
	r.shown(t, 3, "log_1 running 3", "log_2 gone 4")
	reset := func(more string) {
		r.end()
		path, _ := strings.CutPrefix(s.Env["BRIDGE_CHECKPOINT_URL"], "file:")
		kept := must.Get(OpenStore(t.Context(), path, slog.New(slog.DiscardHandler)))(t)
		image, err := kept.Load(t.Context())
		if err == nil {
			c := stream.Reset{Stream: "logs", Shards: []string{"log_1"}, Epoch: stream.NextEpoch(&image, time.Now()), Now: time.Now()}
			err = kept.Apply(t.Context(), c.Batch(&image))
		}
		must.OK(t, errors.Join(err, kept.Close()))
		s.Create(t, more, 2)
		r = newReloading(t, s)
	}
	reset("log_3")
	r.shown(t, 5, "log_1 running 3", "log_2 gone 0", "log_3 running 2")
	s.Env["BRIDGE_STREAM_LOGS_START"] = "latest"
	reset("log_4")
	r.shown(t, 0, "log_1 running 3", "log_2 gone 0", "log_3 running 2", "log_4 running 2")
	must.Get(r.Reload(t.Context()))(t)
	r.shown(t, 0, "log_1 running 3", "log_2 gone 0", "log_3 running 2", "log_4 running 2")
	s.Create(t, "log_5", 1)
	r.shown(t, 1, "log_1 running 3", "log_2 gone 0", "log_3 running 2", "log_4 running 2", "log_5 running 1")
}
