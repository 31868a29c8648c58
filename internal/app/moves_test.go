package app

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/shard"
	"example.org/bridge/reconcile"
	"example.org/bridge/tests/must"
)

// moves are lives of the entity M, whose row in d_0 is active and published. Each calls meanwhile
// once, in its middle; it may start another bridge.
var moves = map[string]func(h *household, row uint64, meanwhile func()){
	"an entity goes to another table and comes back as it was": func(h *household, row uint64, meanwhile func()) {
		h.tables["d_0"].Delete(row)
		second := h.publishes("d_1", "M", "moved")
		meanwhile()
		h.tables["d_1"].Delete(second)
		h.publishes("d_0", "M", "active")
	},
	"while the bus stands still, a row changes, and its entity goes to another table": func(h *household, row uint64, meanwhile func()) {
		release := h.bus.Pause(0)
		h.sent(func() { h.update("d_0", row, "M", "old") })
		h.tables["d_0"].Delete(row)
		h.insert("d_1", "M", "new")
		meanwhile()
		release()
		h.published("M", "new")
	},
	"while the bus stands still, an entity goes to another table and comes back": func(h *household, row uint64, meanwhile func()) {
		release := h.bus.Pause(0)
		h.tables["d_0"].Delete(row)
		var second uint64
		h.sent(func() { second = h.insert("d_1", "M", "moved") })
		meanwhile()
		h.tables["d_1"].Delete(second)
		h.insert("d_0", "M", "active")
		release()
	},
	"an entity comes back in another table while its delete is on its way": func(h *household, row uint64, meanwhile func()) {
		h.saved()
		release := h.bus.Pause(0)
		h.sent(func() {
			h.tables["d_0"].Delete(row)
			h.reconcile()
		})
		h.insert("d_1", "M", "moved")
		meanwhile()
		release()
		h.published("M", "moved")
	},
	"the former row of an entity is found gone while its new one is on its way": func(h *household, row uint64, meanwhile func()) {
		release := h.bus.Pause(0)
		h.tables["d_0"].Delete(row)
		h.sent(func() { h.insert("d_1", "M", "moved") })
		h.reconcile()
		meanwhile()
		release()
		h.published("M", "moved")
	},
	"an entity goes, and its second row is one that lost against it": func(h *household, row uint64, meanwhile func()) {
		h.tables["d_1"].Insert("M", "older", "2026-01-01 00:00:00.000000")
		h.saved()
		h.reconciled()
		meanwhile()
		h.tables["d_0"].Delete(row)
		h.reconciled()
		h.published("M", "older")
	},
	"an entity goes, and then its second row": func(h *household, row uint64, meanwhile func()) {
		second := h.publishes("d_1", "M", "moved")
		h.saved()
		h.tables["d_0"].Delete(row)
		meanwhile()
		h.tables["d_1"].Delete(second)
		h.reconciled()
		h.eventually("M is gone", func() bool { _, there := h.folded()["M"]; return !there })
	},
}

// TestEntitiesThatMove: an entity belongs to its stream, so whatever table its row is in, the bus
// ends with that row.
func TestEntitiesThatMove(t *testing.T) {
	t.Parallel()
	for name, life := range moves {
		for _, topic := range []string{"x.moves", "x.{table}"} {
			for happens, meanwhile := range map[string]func(h *household){
				"":                            func(*household) {},
				", a restart":                 func(h *household) { h.restart(false) },
				", a restart without a store": func(h *household) { h.restart(true) },
			} {
				t.Run(name+", to "+topic+happens, func(t *testing.T) {
					t.Parallel()
					h := newHousehold(t, topic)
					h.insert("d_0", "stays 0", "active")
					h.insert("d_1", "stays 1", "active")
					row := h.publishes("d_0", "M", "active")
					life(h, row, func() { meanwhile(h) })
					h.compare()
				})
			}
		}
	}
}

// pause pauses a table of the stream, or has it go on, empty for all.
func (s *household) pause(table string, resume bool) httpapi.Paused {
	s.t.Helper()
	return must.Get(s.app.Daemon().Pause(s.t.Context(), httpapi.PauseRequest{Stream: "moves", Table: table, Resume: resume}))(s.t)
}

// TestAPausedTableOfSeveral: of entities that tables share those are published whose row is in a
// table that is not paused. The others wait, also behind a restart, and nothing is deleted that was
// not read.
func TestAPausedTableOfSeveral(t *testing.T) {
	s := newServers(t)
	s.filled()
	s.saved()
	if done := s.pause("a/shop.t", false); done.Shards != 1 || done.Publishing != 0 || done.PausedAt.IsZero() || done.NotOnBus != "" {
		t.Errorf("%+v", done)
	}
	a, b := s.tables["a/shop.t"], s.tables["b/shop.t"]
	// Ids 1 to 3 are anna, arthur and adele, and bertha, boris and bianca.
	a.Delete(1)
	s.insert("b/shop.t", "anna", "has moved to b")
	s.update("a/shop.t", 2, "arthur", "has changed")
	a.Delete(3)
	s.insert("a/shop.t", "alma", "is new")
	s.insert("b/shop.t", "bruno", "is new")
	s.published("anna", "has moved to b")
	s.published("bruno", "is new")

	s.restart(false)
	b.Delete(2)
	s.insert("a/shop.t", "boris", "has moved to a")
	s.eventually("b runs and a is paused", func() bool {
		return s.shard("b/shop.t").State == shard.Running && s.shard("a/shop.t").State == shard.Paused
	})
	if accepted, err := s.app.Daemon().Reconcile("moves", reconcile.Mode{}); err != nil || accepted.Shards != 1 {
		t.Errorf("a reconcile: %+v, %v", accepted, err)
	}
	s.eventually("b is compared", func() bool {
		r := s.shard("b/shop.t").Reconcile
		return !r.Running && !r.EndedAt.IsZero() && r.Waiting == 0
	})
	if a := s.shard("a/shop.t").Reconcile; a.Waiting != 0 || a.Totals.Failed != 0 {
		t.Errorf("a, which is paused: %d requests, %d runs that failed", a.Waiting, a.Totals.Failed)
	}
	got := s.folded()
	for name, want := range map[string]string{"arthur": "arthur is new", "adele": "adele is new", "alma": "", "boris": "boris is new"} {
		if got[name] != want {
			t.Errorf("%s is published as %q while its table is paused: %s", name, got[name], s.history())
		}
	}
	if reasons := s.app.Daemon().Ready(t.Context()); len(reasons) > 0 {
		t.Errorf("not ready: %+v", reasons)
	}
	s.republish(httpapi.RepublishRequest{From: 1, Table: "a/shop.t"}, nil)
	if again := s.shard("a/shop.t").Republish; again == nil || again.Waits != "the table is paused" {
		t.Errorf("rows of a paused table are published again: %+v", again)
	}
	for table, want := range map[string]error{"shop.t": httpapi.ErrNoStream, "": nil} {
		if _, err := s.app.Daemon().Pause(t.Context(), httpapi.PauseRequest{Stream: "moves", Table: table}); !errors.Is(err, want) {
			t.Errorf("%q: %v", table, err)
		}
	}
	if _, err := s.app.Daemon().Reconcile("moves", reconcile.Mode{}); !errors.Is(err, httpapi.ErrCannotReconcile) {
		t.Errorf("all is paused, and a reconcile: %v", err)
	}
	if _, err := s.app.Daemon().Pause(t.Context(), httpapi.PauseRequest{Stream: "moves", Table: "b/shop.t", Resume: true}); !errors.Is(err, httpapi.ErrCannotPause) {
		t.Errorf("a table of a paused stream is resumed: %v", err)
	}
	s.pause("", true)
	s.eventually("both run", func() bool {
		return s.shard("b/shop.t").State == shard.Running && s.shard("a/shop.t").State == shard.Running
	})
	s.compare()
}

// syncedStore is a store whose syncs are those of a test.
type syncedStore struct {
	keptStore
	sync func(context.Context) error
}

func (s syncedStore) Sync(ctx context.Context) error { return s.sync(ctx) }

// TestAPauseIsAsTheStoreSays: a caller who leaves behind the write calls nothing off, a disk that
// fails leaves no pause that begins later, and a command that changes nothing is durable as well.
func TestAPauseIsAsTheStoreSays(t *testing.T) {
	s := newServers(t)
	ctx, leave := context.WithCancel(t.Context())
	synced, broken := 0, errors.New("the disk is broken")
	var fails error
	a := must.Get(Open(t.Context(), Options{Config: s.cfg, Logger: textLogger(t.Output()), openStore: func(context.Context, string, *slog.Logger) (store.Store, error) {
		return syncedStore{keptStore{s.store}, func(ctx context.Context) error {
			if _, limited := ctx.Deadline(); !limited || ctx.Err() != nil {
				// It is not that of the pause.
				return ctx.Err()
			}
			leave()
			synced++
			return errors.Join(fails, ctx.Err())
		}}, nil
	}}))(t)
	s.app = a
	defer start(t, a)()
	s.eventually("it runs", func() bool {
		return s.shard("a/shop.t").State == shard.Running && s.shard("b/shop.t").State == shard.Running
	})
	ask := func(ctx context.Context, table string, resume bool) error {
		_, err := a.Daemon().Pause(ctx, httpapi.PauseRequest{Stream: "moves", Table: table, Resume: resume})
		return err
	}
	if err := ask(ctx, "", false); err != nil || ctx.Err() == nil || synced != 1 {
		t.Errorf("a caller who has left: %v, %d syncs", err, synced)
	}
	for _, resume := range []bool{true, false} {
		for i, fault := range []error{broken, nil, nil} {
			before := synced
			fails = fault
			if err := ask(t.Context(), "", resume); !errors.Is(err, fault) || synced != before+1 {
				t.Errorf("resume is %v, time %d: %v, %d syncs", resume, i, err, synced-before)
			}
			for _, table := range []string{"a/shop.t", "b/shop.t"} {
				if since := s.shard(table).PausedAt; since.IsZero() != resume {
					t.Errorf("resume is %v, time %d: %s is paused since %v", resume, i, table, since)
				}
			}
		}
	}
}
