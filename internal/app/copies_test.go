package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.org/bridge/checkpoint/store"
	storememory "example.org/bridge/checkpoint/store/storetest/memory"
	"example.org/bridge/internal/app/apptest"
	"example.org/bridge/internal/buscopy"
	"example.org/bridge/internal/buscopy/buckettest"
	"example.org/bridge/internal/config"
	"example.org/bridge/internal/config/configtest"
	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/shard"
	"example.org/bridge/internal/share"
	"example.org/bridge/internal/stream"
	"example.org/bridge/sink"
	"example.org/bridge/source"
	sourcememory "example.org/bridge/source/sourcetest/memory"
	"example.org/bridge/tests/must"
)

// onBus has a household keep progress on the bus, and begin at the latest row.
func (h *household) onBus() {
	h.cfg.CheckpointTopic = "progress"
	h.cfg.Streams = slices.Clone(h.cfg.Streams)
	h.cfg.Streams[0].Start = config.Start{Latest: true}
}

// begun waits until both tables are read.
func (h *household) begun() {
	h.t.Helper()
	h.eventually("both tables are read", func() bool {
		return !slices.ContainsFunc(h.app.Daemon().Status().Streams[0].Shards, func(s shard.Status) bool { return s.LastPoll.IsZero() })
	})
}

// TestNoRowIsReadBeforeTheBusKnowsTheStart: a process whose decision is in the store alone, because
// it was killed before the bus had it, does not go on without the bus either.
func TestNoRowIsReadBeforeTheBusKnowsTheStart(t *testing.T) {
	t.Parallel()
	h := newHousehold(t, "x.moves")
	h.stop()
	h.onBus()
	away := errors.New("the bus takes no progress")
	puts := 0
	h.bucket.Fail(func(key string) error {
		if strings.HasSuffix(key, ".0.0") {
			puts++
			return away
		}
		return nil
	})
	h.start()
	h.insert("d_0", "N", "active")
	for range 2 {
		h.eventually("the decision waits", func() bool { return strings.Contains(fmt.Sprint(h.app.Daemon().Ready(t.Context())), away.Error()) })
		if s := h.app.Daemon().Status().Streams[0].Shards[0]; !s.LastPoll.IsZero() && s.Position > 0 {
			t.Errorf("a shard reads: %+v", s)
		}
		h.restart(false)
	}
	h.bucket.Fail(nil)
	h.begun()
	h.eventually("it is ready", func() bool { return len(h.app.Daemon().Ready(t.Context())) == 0 })
	if s := h.app.Daemon().Status().Streams[0].Progress; s == nil || s.WrittenAt.IsZero() || s.Bytes == 0 {
		t.Errorf("the status says %+v of the progress", s)
	}
	if n := len(h.bus.Messages("x.moves")); n > 1 {
		t.Errorf("%d messages: %s", n, h.history())
	}
}

// TestACopyHasTheTablesOfPatterns: a process without a folder knows from the copy that all tables
// of a stream were reset since a message of another meaning, also those of patterns.
func TestACopyHasTheTablesOfPatterns(t *testing.T) {
	t.Parallel()
	s := apptest.NewShop(t)
	s.Env["BRIDGE_STREAM_ORDERS_TABLE"] = "order_*"
	cfg := load(t, s.Env)
	kept := storememory.New()
	key := func(table string) store.Key { return store.Key{Stream: "orders", Shard: table} }
	save := func(key store.Key, p store.Progress) {
		p.Saved = time.UnixMicro(1)
		must.OK(t, kept.Apply(t.Context(), &store.Batch{Shards: []store.ShardChange{{Key: key, Progress: &p}}}))
	}
	save(key("order_*"), store.Progress{})
	save(key("order_1"), store.Progress{Since: 7})
	save(key("order_2"), store.Progress{Since: 8})
	save(key("order_3"), store.Progress{Since: 3})
	save(leftKey(key("order_3")), store.Progress{Floor: isGone})
	o := keeperOptions(cfg, new(buckettest.Memory), slog.New(slog.DiscardHandler))
	o.Still = func(_ context.Context, do func(store.Store) error) error { return do(kept) }
	o.Epoch = func(string) uint64 { return 9 }
	k := buscopy.NewKeeper(o)
	must.OK(t, k.Write(t.Context(), "orders"))
	copied, err := copyOf(t.Context(), k, cfg, &cfg.Streams[0])
	if err != nil || copied.IgnoreBelow != 7 || len(copied.Shards) != 5 {
		t.Errorf("%+v, %v", copied, err)
	}
}

// newOnBus begins a life with a bridge that keeps progress on the bus and begins at the latest row:
// a release stream of each name has the one table of that name, and a topic.
func newOnBus(t *testing.T, names ...string) *household {
	env := configtest.Env{"BRIDGE_STREAMS": strings.Join(names, ",")}
	for _, name := range names {
		of := "BRIDGE_STREAM_" + strings.ToUpper(name) + "_"
		env[of+"TABLE"], env[of+"KIND"], env[of+"DESTINATION"] = name, "release", "x."+name
	}
	h := emptyHousehold(t, env)
	h.cfg.CheckpointTopic = "progress"
	for i := range h.cfg.Streams {
		s := &h.cfg.Streams[i]
		s.Start = config.Start{Latest: true}
		h.tables[s.Name] = sourcememory.NewTable(s.Spec(s.Name), source.Column{Name: "id", Kind: source.Int}, source.Column{Name: "name", Kind: source.Text})
		h.tables[s.Name].Insert("old")
		h.bus.Create(s.Destination)
	}
	h.start()
	return h
}

func (h *household) isRead(stream string) {
	h.t.Helper()
	h.eventually(stream+" is read", func() bool {
		return slices.ContainsFunc(h.app.Daemon().Status().Streams, func(s httpapi.StreamStatus) bool {
			return s.Name == stream && !s.Shards[0].LastPoll.IsZero()
		})
	})
}

// TestAStreamThatWaitsKeepsItsCopy: while one stream runs, another one that has not gone on from
// its copy yet leaves it as it is. It has the only decision about START: the next process publishes
// the row of meanwhile.
func TestAStreamThatWaitsKeepsItsCopy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newOnBus(t, "a", "b")
		h.isRead("a")
		h.isRead("b")
		h.stop()
		h.tables["b"].Insert("new")
		must.Get(h.bus.Publish(t.Context(), []sink.Message{{Destination: "x.b", Key: []byte("k"), Value: []byte("another's")}}))(t)
		h.store = storememory.New()
		h.slow.Store("x.b")
		h.start()
		h.isRead("a")
		h.slow.Store("")
		h.restart(true)
		h.isRead("b")
		h.eventually("the row is published", func() bool { return len(h.bus.Messages("x.b")) == 2 })
	})
}

// TestAFolderOfAFormerNumberOfShares: the number of shares changes, and changes back, and the
// folder of before is there. What was published meanwhile has expired, and is not announced again.
func TestAFolderOfAFormerNumberOfShares(t *testing.T) {
	t.Parallel()
	h := newOnBus(t, "b")
	count := func(want int) {
		h.t.Helper()
		h.eventually(fmt.Sprint(want, " are published"), func() bool { return len(h.bus.Messages("x.b")) >= want })
	}
	insert := func(n int) {
		for range n {
			h.tables["b"].Insert("row")
		}
	}
	h.isRead("b")
	insert(3)
	count(3)
	h.stop()
	folder := h.store
	h.store, h.cfg.Share = storememory.New(), config.Share{Share: share.Share{Index: 0, Number: 1}}
	h.start()
	h.isRead("b")
	insert(7)
	count(10)
	h.stop()
	for _, tp := range []string{"x.b", "x.b/0"} {
		h.bus.Expire(tp, 1000)
	}
	h.store, h.cfg.Share = folder, config.Share{}
	h.start()
	h.isRead("b")
	insert(1)
	count(11)
	h.restart(false)
	if n := len(h.bus.Messages("x.b")); n != 11 {
		t.Errorf("%d messages, want 11", n)
	}
	// A command works whether or not others hear of it.
	h.bucket.Fail(func(key string) error {
		if strings.HasSuffix(key, "s2.0") {
			return errors.New("no sign of life is taken")
		}
		return nil
	})
	h.inside = true
	h.restart(false)
	h.isRead("b")
	insert(1)
	count(12)
}

// TestAFolderThatOthersMade: in the temporary directory of the system, others may have made the
// folder before. The first one is made by bridge.
func TestAFolderThatOthersMade(t *testing.T) {
	t.Parallel()
	for name, plant := range map[string]func(path string) error{
		"":             nil,
		"a link":       func(path string) error { return os.Symlink(t.TempDir(), path) },
		"open":         func(path string) error { return os.Mkdir(path, 0o755) },
		"of another":   func(path string) error { return errors.Join(os.Mkdir(path, 0o700), os.Chown(path, 4711, -1)) },
		"not a folder": func(path string) error { return os.WriteFile(path, nil, 0o600) },
	} {
		for _, number := range []int{0, 1} {
			path := filepath.Join(t.TempDir(), "bridge-0123")
			cfg := &config.Config{Temporary: true, CheckpointPath: path, Share: config.Share{Share: share.Share{Number: number}}}
			if number > 0 {
				cfg.CheckpointPath = filepath.Join(path, "0-of-1")
			}
			if plant != nil {
				if err := plant(path); errors.Is(err, fs.ErrPermission) {
					continue // only root gives folders away
				} else if err != nil {
					t.Fatal(err)
				}
			}
			for range 2 {
				if err := MakeFolder(cfg); (err == nil) != (plant == nil) {
					t.Errorf("%q, %d shares: %v", name, number, err)
				}
			}
		}
	}
}

// TestAFormerNumberTakesNothingOver: a process that is not permitted ends before it fences another.
func TestAFormerNumberTakesNothingOver(t *testing.T) {
	t.Parallel()
	refused, fences := errors.New("refused"), 0
	fence := func(context.Context) error { fences++; return nil }
	for _, answer := range []error{refused, nil} {
		err := permitted(func(context.Context) error { return answer }, fence)(t.Context())
		if errors.Is(err, refused) != (answer != nil) || errors.Is(err, stream.ErrStartAgain) != (answer != nil) {
			t.Errorf("it returns %v", err)
		}
	}
	if fences != 1 {
		t.Errorf("%d fences", fences)
	}
}

// TestABusThatCannotBeReadBack: a bridge goes on by its store, under an epoch above the last one.
func TestABusThatCannotBeReadBack(t *testing.T) {
	t.Parallel()
	h := newHousehold(t, "x.moves")
	h.stop()
	h.unreadable = true
	h.start()
	row := h.publishes("d_0", "M", "active")
	first := h.app.Daemon().Status()
	h.restart(false)
	h.update("d_0", row, "M", "changed")
	h.published("M", "changed")
	second := h.app.Daemon().Status()
	if !first.Streams[0].CatchUp.Ready || first.Epoch == 0 || second.Epoch <= first.Epoch {
		t.Errorf("epoch %d and then %d, ready is %v", first.Epoch, second.Epoch, first.Streams[0].CatchUp.Ready)
	}
	h.compare()
	if n := len(h.bus.Messages("x.moves")); n != 2 {
		t.Errorf("%d messages, want 2: %s", n, h.history())
	}
}

// TestAStreamThatCannotCatchUp: its messages are about entities of another key.
func TestAStreamThatCannotCatchUp(t *testing.T) {
	t.Parallel()
	h := newHousehold(t, "x.moves")
	h.publishes("d_0", "M", "active")
	h.cfg.Streams[0].Key = []string{"state"}
	h.restart(true)
	h.insert("d_0", "N", "other")
	const why = "published with another KIND, KEY"
	h.eventually("readiness says why", func() bool { return strings.Contains(fmt.Sprint(h.app.Daemon().Ready(t.Context())), why) })
	h.eventually("its shards say why", func() bool {
		stream := h.app.Daemon().Status().Streams[0]
		return stream.CatchUp.Error != "" && strings.Contains(string(stream.CatchUp.Error), why) &&
			stream.Shards[0].State == "stopped" && stream.Shards[0].LastError != "" && strings.Contains(string(stream.Shards[0].LastError), why)
	})
	if n := len(h.bus.Messages("x.moves")); n != 1 {
		t.Errorf("%d messages, want 1: %s", n, h.history())
	}
}

// TestAllMessagesHaveExpired: a start without a checkpoint warns that nothing tells of which
// database the messages were; one with its checkpoint knows.
func TestAllMessagesHaveExpired(t *testing.T) {
	t.Parallel()
	h := newHousehold(t, "x.moves")
	h.publishes("d_0", "M", "active")
	h.publishes("d_1", "N", "active")
	h.bus.Expire("x.moves", 2)
	warns := func() bool {
		return strings.Contains(h.log.String(), `level=WARN msg="all messages of the stream have expired: whether this is the database that they were read from is not known" stream=moves`)
	}
	ready := func() bool { return len(h.app.Daemon().Ready(t.Context())) == 0 }
	h.restart(false)
	h.eventually("it is ready with its checkpoint", ready)
	if warns() {
		t.Error("it warns though the checkpoint knows the tables")
	}
	h.restart(true)
	h.eventually("it warns without its checkpoint", warns)
	h.eventually("it is ready", ready)
}
