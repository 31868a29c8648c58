package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"example.org/bridge/internal/config/configtest"
	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/stream"
	"example.org/bridge/source"
	sourcememory "example.org/bridge/source/sourcetest/memory"
	"example.org/bridge/tests/must"
)

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
	id := h.publishes("d_1", "a", "here")
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
	byTable := *newServed(t).app.streams[0].Stream
	byTable.Key = nil
	one := &shown{appStream: &appStream{Stream: &byTable}}
	if _, err := one.table(""); !errors.Is(err, httpapi.ErrBadQuery) || !strings.Contains(err.Error(), "shard=d_0") {
		t.Errorf("without a table: %v", err)
	}
	if table, err := one.table("d_1"); table != "d_1" || err != nil {
		t.Errorf("got %s, %v", table, err)
	}
}

// newKeyed returns the tables orders_0 and orders_1, whose key is a name, and what reads them.
func newKeyed(t *testing.T, list ...source.Column) (tables, *keys) {
	t.Helper()
	cfg := load(t, configtest.With("BRIDGE_STREAM_ORDERS_KEY", "name", "BRIDGE_STREAM_ORDERS_MODIFIED", "modified"))
	s := &cfg.Streams[0]
	db := make(tables)
	for _, table := range s.Tables {
		db[s.Spec(table).Table] = sourcememory.NewTable(s.Spec(table), list...)
	}
	cfg.Sources[0].Opener = toyDatabase{household: &household{tables: db}}
	from := must.Get(OpenSources(cfg, nil))(t)
	k := must.Get(newKeys(cfg, &appStream{Stream: s}, from, func(d *database) chan struct{} { return d.keys }))(t)
	return db, k
}

var keyedColumns = []source.Column{
	{Name: "id", Kind: source.Int}, {Name: "name", Kind: source.Text}, {Name: "modified", Kind: source.DateTime}, {Name: "state", Kind: source.Text},
}

func TestReadsByKey(t *testing.T) {
	t.Parallel()
	db, k := newKeyed(t, keyedColumns...)
	first, second := db["orders_0"], db["orders_1"]
	first.Loose = true
	first.Insert("a", "2026-01-02 03:04:05", "here")
	second.Insert("x", sourcememory.Null, "other")
	second.Insert("a", sourcememory.Null, "there")
	second.Insert("b", sourcememory.Null, "there")
	first.Insert("C", sourcememory.Null, "similar")
	entities := [][]byte{[]byte("c"), []byte("b"), []byte("a")}

	all := must.Get(k.Read(t.Context(), "", entities))(t)
	if all.Snapshot || all.Unproved || len(all.Rows) != 3 {
		t.Errorf("two tables: %+v", all)
	}
	if len(all.Rows[0]) != 0 {
		t.Errorf("a key that is similar: %+v", all.Rows[0])
	}
	if rows := all.Rows[1]; len(rows) != 1 || rows[0].Shard != "orders_1" || rows[0].Row != 3 {
		t.Errorf("b is %+v", rows)
	}
	rows := all.Rows[2]
	if len(rows) != 2 || rows[0].Shard != "orders_0" || rows[0].Row != 1 || rows[1].Shard != "orders_1" || rows[1].Row != 2 || rows[0].Digest == rows[1].Digest {
		t.Fatalf("a is %+v", rows)
	}
	if !rows[0].Modified.Equal(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)) || !rows[1].Modified.IsZero() {
		t.Errorf("a was modified at %s and %s", rows[0].Modified, rows[1].Modified)
	}

	one, err := k.Read(t.Context(), "orders_1", entities)
	if err != nil || !one.Snapshot || len(one.Rows[2]) != 1 || one.Rows[2][0].Shard != "orders_1" {
		t.Errorf("one table: %+v, %v", one, err)
	}
	second.AddColumn(source.Column{Name: "name", Kind: source.Binary})
	if both, err := k.Read(t.Context(), "", [][]byte{[]byte("YQ=="), []byte("a"), []byte("b")}); err != nil || len(both.Rows[0]) != 1 || len(both.Rows[1]) != 1 || len(both.Rows[2]) != 0 || both.Unproved {
		t.Errorf("a table whose key is of another kind: %+v, %v", both, err)
	}
	gone, err := k.Read(t.Context(), "orders_7", entities)
	if err != nil || !gone.Unproved || len(gone.Rows) != 3 {
		t.Errorf("a table that the stream has no more: %+v, %v", gone, err)
	}
}

// TestReadsByKeyOfAServerThatLags: what it lacks is not proved to be absent.
func TestReadsByKeyOfAServerThatLags(t *testing.T) {
	t.Parallel()
	db, k := newKeyed(t, keyedColumns...)
	entities := [][]byte{[]byte("a")}
	unproved := func() bool {
		t.Helper()
		reading := must.Get(k.Read(t.Context(), "", entities))(t)
		return reading.Unproved
	}
	if unproved() {
		t.Error("not proved by servers that take the writes")
	}
	db["orders_1"].Move("another", true)
	if !unproved() {
		t.Error("proved by a replica")
	}
	db["orders_1"].Move("a third one", false)
	// It is not asked again so soon.
	k.tables[1].asked = time.Now().Add(time.Hour)
	if !unproved() {
		t.Error("proved by a server that was not asked whether it takes the writes")
	}
	k.tables[1].asked = time.Time{}
	if unproved() {
		t.Error("not proved by a server that says that it takes the writes")
	}
}

// TestReadsByKeyWhileColumnsAreAltered: the values of keys are made again, for the columns as they
// are now.
func TestReadsByKeyWhileColumnsAreAltered(t *testing.T) {
	t.Parallel()
	db, k := newKeyed(t, keyedColumns...)
	entities := [][]byte{[]byte("a")}
	for i, alter := range []func(*sourcememory.Table){
		func(t *sourcememory.Table) { t.Insert("a", sourcememory.Null, "there") },
		func(t *sourcememory.Table) { t.AddColumn(source.Column{Name: "more", Kind: source.Text}) },
		func(t *sourcememory.Table) { t.DropColumn("state") },
	} {
		alter(db["orders_1"])
		reading, err := k.Read(t.Context(), "", entities)
		if err != nil || len(reading.Rows[0]) != 1 || reading.Rows[0][0].Row != 1 {
			t.Errorf("after %d changes: %+v, %v", i, reading, err)
		}
	}
	db["orders_0"].Fail(-1, source.ErrAltered)
	if _, err := k.Read(t.Context(), "", entities); err == nil || errors.Is(err, stream.ErrAway) {
		t.Errorf("of a table that is altered for ever: %v", err)
	}
	db["orders_0"].Fail(-1, source.ErrMissing)
	if _, err := k.Read(t.Context(), "", entities); !errors.Is(err, stream.ErrAway) || !errors.Is(err, source.ErrMissing) {
		t.Errorf("of a table that is not there: %v", err)
	}
}

// TestReadsByKeyOfLargeRows: a page that is cut says nothing of the rows that it lacks.
func TestReadsByKeyOfLargeRows(t *testing.T) {
	t.Parallel()
	db, k := newKeyed(t, keyedColumns...)
	large := make([]byte, pageBytes/3)
	for i := range large {
		large[i] = 'x'
	}
	var entities [][]byte
	for i := range 20 {
		name := fmt.Sprint("n", i)
		db["orders_0"].Insert(name, sourcememory.Null, string(large))
		entities = append(entities, []byte(name))
	}
	entities = append(entities, []byte("none"))
	reading, err := k.Read(t.Context(), "", entities)
	if err != nil || reading.Unproved {
		t.Fatalf("%v, unproved %v", err, reading.Unproved)
	}
	for i, rows := range reading.Rows {
		if want := min(1, len(entities)-1-i); len(rows) != want {
			t.Errorf("%s has %d rows, want %d", entities[i], len(rows), want)
		}
	}
}
