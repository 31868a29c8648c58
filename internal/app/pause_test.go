package app

import (
	"errors"
	"testing"

	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/shard"
	"example.org/bridge/reconcile"
)

// pause pauses a table of the stream, or has it go on, empty for all.
func (s toyServers) pause(table string, resume bool) httpapi.Paused {
	s.t.Helper()
	done, err := s.app.Daemon().Pause(s.t.Context(), httpapi.PauseRequest{Stream: "moves", Table: table, Resume: resume})
	if err != nil {
		s.t.Fatal(err)
	}
	return done
}

// TestAPausedTableOfSeveral: of entities that tables share those are published whose row is in a
// table that is not paused. The others wait, also behind a restart, and nothing is deleted that was
// not read.
func TestAPausedTableOfSeveral(t *testing.T) {
	s := newServers(t)
	s.begun()
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
	if accepted, err := s.app.Daemon().Reconcile("moves", reconcile.Mode{}); err != nil || accepted.Shards != 2 {
		t.Errorf("a reconcile: %+v, %v", accepted, err)
	}
	s.eventually("b is compared", func() bool {
		r := s.shard("b/shop.t").Reconcile
		return !r.Running && !r.EndedAt.IsZero() && r.Waiting == 0
	})
	got := s.folded()
	for name, want := range map[string]string{"arthur": "arthur is new", "adele": "adele is new", "alma": "", "boris": "boris is new"} {
		if got[name] != want {
			t.Errorf("%s is published as %q while its table is paused: %s", name, got[name], s.history())
		}
	}
	if reasons := s.app.Daemon().Ready(t.Context()); len(reasons) > 0 {
		t.Errorf("not ready: %+v", reasons)
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
