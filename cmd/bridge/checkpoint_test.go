package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/checkpoint/store/pebble"
	"example.org/bridge/internal/config"
	"example.org/bridge/internal/stream"
	"example.org/bridge/reconcile"
	"example.org/bridge/source"
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

func putPart(t *testing.T, path string, key store.Key, parts ...store.Part) {
	t.Helper()
	apply(t, path, store.Batch{Shards: []store.ShardChange{{Key: key, Parts: parts}}})
}

// gapsAt20 returns a ledger with the position 20, where ids are missing, as parts.
func gapsAt20(t *testing.T, published ...uint64) []store.Part {
	t.Helper()
	l := must.Get(ledger.New(ledger.Options{}, 0))(t)
	l.Advance(20, published, saved)
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
			change.Parts = gapsAt20(t, 1, 2, 3, 4, 5, 6, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20)
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

// shown returns what checkpoint show --json prints.
func shown(t *testing.T, env settingsOf) []checkpointView {
	t.Helper()
	var list struct{ Checkpoints []checkpointView }
	must.OK(t, json.Unmarshal([]byte(mustCall(t, env, exitFine, "", "checkpoint show --json").out), &list))
	return list.Checkpoints
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

func TestCheckpointShow(t *testing.T) {
	env, _ := filled(t)
	want := "STREAM   SHARD   ID   GAPS   SAVED                  VERIFIED THROUGH       RECONCILE\n" +
		"bills    b       20   1      2026-01-02T03:04:05Z   2026-01-02T03:04:05Z   ended 2026-01-02T03:05:05Z\n" +
		"orders   t_0     20   1      2026-01-02T03:04:05Z   -                      deletes held back\n" +
		"orders   t_1     20   0      2026-01-02T03:04:05Z   -                      none yet\n"
	if got := mustCall(t, env, exitFine, "", "checkpoint show"); got.out != want {
		t.Errorf("%+v, want\n%s", got, want)
	}
	list := shown(t, env)
	if len(list) != 3 || list[1].Stream != "orders" || list[1].ID != 20 || list[1].Gaps[0] != (ledger.Gap{First: 7, Last: 9, Missed: saved}) ||
		!slices.Equal(list[1].Offsets, []offsetView{{"orders/3", "new", 12}}) || len(list[0].Offsets) > 0 ||
		list[2].Reconcile != nil || list[1].Reconcile.Guard != "too many are gone" || list[0].Reconcile.VerifiedThrough.Year() != 2026 {
		t.Errorf("%+v", list)
	}
}

// TestCheckpointsThatCannotBeOpened: each command says what to do, and changes nothing.
func TestCheckpointsThatCannotBeOpened(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "none.db")
	for _, line := range []string{"show", "reset orders", "rebuild orders"} {
		mustCall(t, settingsOf{"BRIDGE_CHECKPOINT_URL": "file:" + path}, exitFailed, "there is no checkpoint at "+path, "checkpoint "+line)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("something is there now: %v", err)
	}
	mustCall(t, settingsOf{"BRIDGE_CHECKPOINT_URL": "http://x"}, exitUsage, "BRIDGE_CHECKPOINT_URL", "checkpoint show")
	must.OK(t, os.WriteFile(path, []byte("a shopping list"), 0o600))
	got := mustCall(t, settingsOf{"BRIDGE_CHECKPOINT_URL": "file:" + path}, exitFailed, "set BRIDGE_CHECKPOINT_URL to", "checkpoint show")
	if !strings.Contains(got.err, store.ErrForeign.Error()) {
		t.Errorf("%+v", got)
	}
	env, path := filled(t)
	inStore(t, path, func(store.Store) {
		for _, line := range []string{"show", "set orders t_0 1"} {
			mustCall(t, env, exitFailed, "stop bridge first", "checkpoint "+line)
		}
	})
}

func TestCheckpointMove(t *testing.T) {
	env, path := filled(t)
	meaning := store.Meaning{Kind: "release", Table: "shop.t_1", ID: "id"}
	putPart(t, path, other, append(gapsAt20(t, 1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 14, 15, 16, 17, 18, 19, 20),
		store.Part{Kind: store.MeaningPart, Bytes: store.AppendMeaning(nil, &meaning)})...)
	mustCall(t, env, exitFailed, "until the stream has caught up", "checkpoint move orders t_1 a/t_1")
	mustCall(t, env, exitFine, "", "checkpoint set orders t_1 20")
	mustCall(t, env, exitFailed, "has no checkpoint", "checkpoint move orders t_2 a/t_2")
	mustCall(t, env, exitFailed, "checkpoint of its own, at id 20", "checkpoint move orders t_1 t_0")
	mustCall(t, env, exitFine, "orders t_1: goes on as a/t_1 behind id 20, with its gaps", "checkpoint move orders t_1 a/t_1")
	list := shown(t, env)
	i := slices.IndexFunc(list, func(one checkpointView) bool { return one.Shard == "a/t_1" })
	if i < 0 || list[i].ID != 20 || len(list[i].Gaps) != 2 || slices.ContainsFunc(list, func(one checkpointView) bool { return one.Shard == "t_1" }) {
		t.Errorf("%+v", list)
	}
}

// TestCheckpointSet has what the command says and finds out. What becomes of a shard is that of
// stream.Set, and what is published then TestWhatCheckpointCommandsHavePublished.
func TestCheckpointSet(t *testing.T) {
	t.Run("moves a shard and leaves what the bus has of it out", func(t *testing.T) {
		env, path := filled(t)
		began := time.Now()
		mustCall(t, env, exitFine, "orders t_1: id 20 is now id 41, no gaps", "checkpoint set orders t_1 41")
		if one := shown(t, env)[2]; one.Shard != "t_1" || one.ID != 41 || len(one.Gaps) != 0 || one.Saved.Before(began.Add(-time.Second)) {
			t.Errorf("%+v", one)
		}
		image := after(t, path)
		if since := image.Shards[other].Since; since != image.Epoch || since < uint64(began.UnixMilli()) || image.Shards[first].Since != 0 {
			t.Errorf("%+v", image)
		}
		mustCall(t, env, exitUsage, "", "checkpoint set orders t_1 18446744073709551616")
		if one := shown(t, env)[2]; one.ID != 41 {
			t.Errorf("an id beyond 64 bits: %+v", one)
		}
	})
	t.Run("drops gaps that are damaged, which show names", func(t *testing.T) {
		env, path := filled(t)
		putPart(t, path, first, store.Part{Kind: store.Gaps, Bytes: []byte("damaged")})
		mustCall(t, env, exitFailed, "bridge checkpoint set orders t_0 20 goes on", "checkpoint show")
		mustCall(t, env, exitFine, "its gaps are dropped", "checkpoint set orders t_0 20")
		if len(shown(t, env)) != 3 {
			t.Error("a shard is missing")
		}
	})
	t.Run("keeps what is missing up to the id", func(t *testing.T) {
		for id, says := range map[string]string{"99": "3 ids up to there stay missing", "7": "1 id up to there stays missing", "0": "no gaps"} {
			env, _ := filled(t)
			mustCall(t, env, exitFine, "orders t_0: id 20 is now id "+id+", "+says, "checkpoint set orders t_0 "+id)
		}
	})
	t.Run("of ids without an order no id is one to go on behind", func(t *testing.T) {
		env, _ := filled(t)
		env = with("BRIDGE_CHECKPOINT_URL", env["BRIDGE_CHECKPOINT_URL"], "BRIDGE_STREAM_ORDERS_KIND", "capability", "BRIDGE_ID_ORDER", "none")
		mustCall(t, env, exitFailed, "bridge checkpoint reset orders", "checkpoint set orders t_1 41")
		mustCall(t, env, exitFine, "", "checkpoint set orders t_1 0")
	})
	t.Run("knows the kind of the stream by the checkpoint, by the configuration, or not", func(t *testing.T) {
		for name, c := range map[string]struct {
			kept, configured string
			floor            uint64
			snapshot         source.Range
		}{
			"release, by the checkpoint":    {"release", "", 41, source.Range{}},
			"capability, by the checkpoint": {"capability", "release", 0, source.Range{First: 21, Last: 41}},
			"release, by the configuration": {"", "release", 41, source.Range{}},
			"neither":                       {"", "", 41, source.Range{First: 21, Last: 41}},
		} {
			env, path := filled(t)
			if c.configured != "" {
				env = with("BRIDGE_CHECKPOINT_URL", env["BRIDGE_CHECKPOINT_URL"], "BRIDGE_STREAM_ORDERS_KIND", c.configured)
			}
			if c.kept != "" {
				putPart(t, path, first, store.Part{Kind: store.MeaningPart, Bytes: store.AppendMeaning(nil, &store.Meaning{Kind: c.kept, ID: "id"})})
			}
			mustCall(t, env, exitFine, "", "checkpoint set orders t_1 41")
			if p := after(t, path).Shards[other]; p.Floor != c.floor || p.Snapshot != c.snapshot {
				t.Errorf("%s: %+v", name, p)
			}
		}
	})
	t.Run("refuses a name that is not configured, unless it has a checkpoint", func(t *testing.T) {
		env, path := filled(t)
		env = with("BRIDGE_CHECKPOINT_URL", env["BRIDGE_CHECKPOINT_URL"], "BRIDGE_STREAM_ORDERS_KIND", "release", "BRIDGE_STREAM_ORDERS_TABLE", "u_{0..1},log_*")
		putPart(t, path, other, store.Part{Kind: store.MeaningPart, Bytes: store.AppendMeaning(nil, &store.Meaning{Kind: "release", ID: "id"})})
		mustCall(t, env, exitUsage, `no stream is configured as "order"`, "checkpoint set order u_0 7")
		for _, line := range []string{"set orders u_2 7", "set orders db.u_0 7", "set orders U_0 7", "move orders t_0 a/t_0"} {
			mustCall(t, env, exitUsage, "BRIDGE_STREAM_ORDERS_TABLE names no table", "checkpoint "+line)
		}
		for _, line := range []string{"set orders u_0 7", "set orders log_2 7", "set orders t_0 7"} {
			mustCall(t, env, exitFine, "is now", "checkpoint "+line)
		}
	})
	t.Run("makes the checkpoint of a shard that has none, in a new folder, too", func(t *testing.T) {
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
		if list := shown(t, env); len(list) != 1 || list[0].Shard != "db.t_9" || list[0].ID != 7 {
			t.Errorf("%+v", list)
		}
	})
}

func TestCheckpointReset(t *testing.T) {
	t.Run("forgets the shards of one stream", func(t *testing.T) {
		env, _ := filled(t)
		mustCall(t, env, exitFailed, "bills, orders", "checkpoint reset order")
		mustCall(t, env, exitFine, "orders: removed the checkpoint of 2 shards", "checkpoint reset orders")
		if list := shown(t, env); len(list) != 1 || list[0].Stream != "bills" {
			t.Errorf("%+v", list)
		}
	})
	t.Run("takes tables that the checkpoint does not know from the configuration", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "bridge.db")
		apply(t, path, store.Batch{Registrations: []store.Registration{{Number: 1, Stream: "orders", TP: "orders/0"}}})
		mustCall(t, settingsOf{"BRIDGE_CHECKPOINT_URL": "file:" + path}, exitFailed, "set the variables of bridge", "checkpoint reset orders")
		env := with("BRIDGE_CHECKPOINT_URL", "file:"+path)
		mustCall(t, env, exitFine, "", "checkpoint reset orders")
		image := after(t, path)
		if stream.IgnoreBelow(&image, "orders", load(t, env).Streams[0].Tables) != image.Epoch || image.Epoch == 0 {
			t.Errorf("%+v", image)
		}
	})
}

func TestCheckpointRebuild(t *testing.T) {
	env, path := filled(t)
	stdout := with("BRIDGE_CHECKPOINT_URL", env["BRIDGE_CHECKPOINT_URL"], "BRIDGE_SINK_URL", "stdout:")
	mustCall(t, stdout, exitFailed, "bridge checkpoint reset orders", "checkpoint rebuild orders")
	mustCall(t, env, exitFailed, "bills, orders", "checkpoint rebuild order")
	if n := len(after(t, path).Registrations); n != 3 {
		t.Errorf("%d registrations are left", n)
	}
	mustCall(t, env, exitFine, "orders: the next start reads the bus from the beginning for 3 shards", "checkpoint rebuild orders")
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
