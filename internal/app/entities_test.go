package app

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"example.org/bridge/internal/httpapi"
)

// newServed returns a household whose entities are shown.
func newServed(t *testing.T) *household {
	h := newHousehold(t, "moves")
	h.cfg.Serve = true
	h.restart(false)
	h.eventually("it has caught up", func() bool { return h.app.Daemon().Status().Streams[0].CatchUp.Ready })
	return h
}

// entity returns the state of an entity, empty where there is none.
func (h *household) entity(name string) string {
	h.t.Helper()
	e, err := h.app.Daemon().Entity(h.t.Context(), httpapi.EntityQuery{Stream: "moves", Key: name})
	if errors.Is(err, httpapi.ErrNoEntity) {
		return ""
	}
	if err != nil {
		h.t.Fatal(err)
	}
	var data struct{ Name, State string }
	if err := json.Unmarshal(e.Data, &data); err != nil || data.Name != e.Key {
		h.t.Fatalf("the data of %s are %s (%v)", e.Key, e.Data, err)
	}
	return data.State
}

// TestAnEntityIsShown: one that was published, as its row is now.
func TestAnEntityIsShown(t *testing.T) {
	t.Parallel()
	h := newServed(t)
	if got := h.entity("a"); got != "" {
		t.Errorf("before it is there: %s", got)
	}
	id := h.insert("d_1", "a", "here")
	h.published("a", "here")
	h.eventually("it is shown", func() bool { return h.entity("a") == "here" })
	e, err := h.app.Daemon().Entity(t.Context(), httpapi.EntityQuery{Stream: "moves", Key: "a"})
	if m := h.bus.Messages("moves"); err != nil || e.Shard != "d_1" || e.Changed || e.Event != m[len(m)-1].ID {
		t.Errorf("got %+v, %v", e, err)
	}

	// The bus takes no more.
	release := h.bus.Pause(0)
	h.update("d_1", id, "a", "elsewhere")
	h.eventually("it shows the row", func() bool { return h.entity("a") == "elsewhere" })
	if e, err := h.app.Daemon().Entity(t.Context(), httpapi.EntityQuery{Stream: "moves", Key: "a"}); err != nil || !e.Changed {
		t.Errorf("the event of the change is not stored: %+v, %v", e, err)
	}
	release()
	h.published("a", "elsewhere")
	h.tables["d_1"].Delete(id)
	if got := h.entity("a"); got != "" {
		t.Errorf("its row is gone, and it is shown as %s", got)
	}
}

func TestWhatIsNotShown(t *testing.T) {
	t.Parallel()
	off, on := newHousehold(t, "moves"), newServed(t)
	for name, c := range map[string]struct {
		of    *household
		query httpapi.EntityQuery
		want  error
		words string
	}{
		"unless it is asked for": {off, httpapi.EntityQuery{Stream: "moves", Key: "a"}, httpapi.ErrNotServed, "BRIDGE_SERVE"},
		"of another stream":      {on, httpapi.EntityQuery{Stream: "orders", Key: "a"}, httpapi.ErrNoStream, "moves"},
		"of another table":       {on, httpapi.EntityQuery{Stream: "moves", Key: "a", Shard: "d_7"}, httpapi.ErrBadQuery, "d_0, d_1"},
		"by a key of no row":     {on, httpapi.EntityQuery{Stream: "moves", Key: "%zz+"}, httpapi.ErrNoEntity, "not published"},
	} {
		h := c.of
		h.eventually(name, func() bool {
			_, err := h.app.Daemon().Entity(context.Background(), c.query)
			return errors.Is(err, c.want) && strings.Contains(err.Error(), c.words)
		})
	}
	for _, after := range []string{"d_0", "d_7/1", "/", "d_0/x"} {
		if _, err := on.app.Daemon().EntityPage(t.Context(), httpapi.PageQuery{Stream: "moves", After: after, Limit: 1}); !errors.Is(err, httpapi.ErrBadQuery) {
			t.Errorf("after %s: %v", after, err)
		}
	}
}

// TestEachTableShowsItsEntities where the id is the key: one is named with its table.
func TestEachTableShowsItsEntities(t *testing.T) {
	t.Parallel()
	one := &shown{appStream: &appStream{}}
	h := newServed(t)
	one.appStream.Stream = h.app.streams[0].Stream
	byTable := *one.Stream
	byTable.Key = nil
	one.appStream.Stream = &byTable
	if _, err := one.table(""); !errors.Is(err, httpapi.ErrBadQuery) || !strings.Contains(err.Error(), "shard=d_0") {
		t.Errorf("without a table: %v", err)
	}
	if table, err := one.table("d_1"); table != "d_1" || err != nil {
		t.Errorf("got %s, %v", table, err)
	}
}
