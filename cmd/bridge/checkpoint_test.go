package main

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/checkpoint/store/pebble"
	"example.org/bridge/internal/config"
	"example.org/bridge/internal/stream"
	"example.org/bridge/reconcile"
	"example.org/bridge/source/ledger"
	"example.org/bridge/tests/must"
)

var (
	saved = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	first = store.Key{Stream: "orders", Shard: "t_0"}
	other = store.Key{Stream: "orders", Shard: "t_1"}
)

func inStore(t *testing.T, path string, do func(store.Store)) {
	t.Helper()
	s := must.Get(pebble.Open(t.Context(), path, pebble.Options{}))(t)
	do(s)
	must.OK(t, s.Close())
}

func apply(t *testing.T, path string, b store.Batch) {
	t.Helper()
	inStore(t, path, func(s store.Store) {
		must.OK(t, s.Apply(t.Context(), &b))
	})
}

func putPart(t *testing.T, path string, key store.Key, part store.Part) {
	t.Helper()
	apply(t, path, store.Batch{Shards: []store.ShardChange{{Key: key, Parts: []store.Part{part}}}})
}

// gapsAt20 returns a ledger with the position 20, where the ids 7 to 9 are missing, as parts.
func gapsAt20(t *testing.T) []store.Part {
	t.Helper()
	l := must.Get(ledger.New(ledger.Options{}, 0))(t)
	l.Advance(20, []uint64{1, 2, 3, 4, 5, 6, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20}, saved)
	var parts []store.Part
	for _, chunk := range l.Changed() {
		parts = append(parts, store.Part{Kind: store.Gaps, Number: chunk.Key, Bytes: chunk.Bytes})
	}
	return parts
}

// filled returns a configuration whose checkpoint has two shards of orders and one of bills, and
// one of orders that has not begun.
func filled(t *testing.T) (settingsOf, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bridge.db")
	b := store.Batch{Epoch: 5, Registrations: []store.Registration{
		{Number: 1, Stream: "orders", TP: "orders/3", Incarnation: "old", Next: 40, Retired: true},
		{Number: 2, Stream: "orders", TP: "orders/3", Incarnation: "new", Next: 13}, {Number: 3, Stream: "bills", TP: "orders/3", Next: 0},
	}}
	bills := store.Key{Stream: "bills", Shard: "b"}
	runs := map[store.Key]reconcile.Run{
		bills: {Started: saved, Ended: saved.Add(time.Minute), Verified: saved},
		first: {Started: saved, Ended: saved.Add(time.Minute), Guard: "too many are gone"},
	}
	for _, key := range []store.Key{first, other, {Stream: "orders", Shard: "t_2"}, bills} {
		change := store.ShardChange{Key: key, Progress: &store.Progress{Position: 20, Started: key.Shard != "t_2", Saved: saved}}
		if key != other {
			change.Parts = gapsAt20(t)
		}
		if run, ok := runs[key]; ok {
			form := must.Get(json.Marshal(run))(t)
			change.Parts = append(change.Parts, store.Part{Kind: store.Reconcile, Bytes: form})
		}
		b.Shards = append(b.Shards, change)
	}
	apply(t, path, b)
	return settingsOf{"BRIDGE_CHECKPOINT_URL": "file:" + path}, path
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// TestSuccessIsPrintedWhenAllIsClosed has a command print while the store can be opened.
func TestSuccessIsPrintedWhenAllIsClosed(t *testing.T) {
	env, path := filled(t)
	printed := false
	stdout := writerFunc(func(b []byte) (int, error) {
		printed = true
		inStore(t, path, func(store.Store) {})
		return len(b), nil
	})
	if status := newProcess(env.Environ(), stdout, t.Output()).run(t.Context(), []string{"checkpoint", "reset", "orders"}); status != exitFine || !printed {
		t.Errorf("status %d, printed %t", status, printed)
	}
}

func after(t *testing.T, path string) (image store.Image) {
	t.Helper()
	inStore(t, path, func(s store.Store) {
		var err error
		if image, err = s.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	return image
}

// TestCheckpointSetInANewFolder makes the checkpoint of a shard that has none.
func TestCheckpointSetInANewFolder(t *testing.T) {
	dir := t.TempDir()
	env := settingsOf{"BRIDGE_CHECKPOINT_URL": "file:" + filepath.Join(dir, "new.db")}
	const bridge = 65532
	if os.Geteuid() == 0 {
		// The service of the packages has a user of its own.
		must.OK(t, os.Chown(dir, bridge, bridge))
	}
	mustCall(t, env, exitFine, "had no checkpoint, is now at id 7 there was no checkpoint at "+filepath.Join(dir, "new.db")+": this command has made it", "checkpoint set orders db.t_9 7")
	err := filepath.WalkDir(dir, func(name string, one fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := one.Info()
		if owner := info.Sys().(*syscall.Stat_t); err == nil && os.Geteuid() == 0 && (owner.Uid != bridge || owner.Gid != bridge) {
			t.Errorf("%s belongs to %d", name, owner.Uid)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	mustCall(t, env, exitFine, "RECONCILE orders db.t_9 7 0", "checkpoint show")
}

// TestCheckpointResetOfUnknownTables takes them from the configuration.
func TestCheckpointResetOfUnknownTables(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bridge.db")
	apply(t, path, store.Batch{Registrations: []store.Registration{{Number: 1, Stream: "orders", TP: "orders/0"}}})
	mustCall(t, settingsOf{"BRIDGE_CHECKPOINT_URL": "file:" + path}, exitFailed, "set the variables of bridge", "checkpoint reset orders")
	env := with("BRIDGE_CHECKPOINT_URL", "file:"+path)
	mustCall(t, env, exitFine, "", "checkpoint reset orders")
	image := after(t, path)
	if stream.IgnoreBelow(&image, "orders", load(t, env).Streams[0].Tables) != image.Epoch || image.Epoch == 0 {
		t.Errorf("%+v", image)
	}
}

func TestCheckpointPath(t *testing.T) {
	for url, want := range map[string]string{
		"": "bridge.db", "file:data/b.db": "data/b.db", "file:/abs/b.db": "/abs/b.db", "file:///abs/a%20b%23.d": "/abs/a b#.d",
		"file:": "", "file:///": "", "file:a?b": "", "file:a#b": "", "file:a%zz": "", "file:a%00": "",
	} {
		if got, err := config.LoadCheckpointPath([]string{"BRIDGE_CHECKPOINT_URL=" + url}); (err == nil) != (want != "") || got != want {
			t.Errorf("%q leads to %q, %v, want %q", url, got, err, want)
		}
	}
}
