package app

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/shard"
	"example.org/bridge/internal/stream"
	"example.org/bridge/sink"
	"example.org/bridge/tests/must"
)

// republish asks for rows of the stream, and fails the test unless the outcome is the one wanted.
func (h *household) republish(r httpapi.RepublishRequest, want error) (done httpapi.Republished) {
	h.t.Helper()
	r.Stream = "moves"
	must.OK(h.t, r.Check())
	done, err := h.app.Daemon().Republish(h.t.Context(), r)
	if !errors.Is(err, want) {
		h.t.Fatalf("%+v: %v", r, err)
	}
	return done
}

func (h *household) asked(table string, state stream.RepublishState) (r *shard.RepublishStatus) {
	h.t.Helper()
	h.eventually(fmt.Sprintf("what was asked of %s is %s", table, state), func() bool {
		r = h.shard(table).Republish
		return r != nil && r.State == state
	})
	return r
}

// again returns the names of the entities in the messages that were published again, sorted, and
// fails the test where such a message has another event than the one before it of its entity, or
// other bytes.
func (h *household) again() (names []string) {
	h.t.Helper()
	last := make(map[string]*sink.Message)
	messages := h.bus.Messages(h.topics[0])
	for i := range messages {
		m := &messages[i]
		name := h.say(m).name
		if before := last[name]; m.Origin == sink.FromRepublish {
			names = append(names, name)
			if before == nil || before.ID != m.ID || string(before.Value) != string(m.Value) {
				h.t.Errorf("%s is published again as %s behind %+v", name, m.Value, before)
			}
		}
		last[name] = m
	}
	slices.Sort(names)
	return names
}

// TestRepublishes publishes rows of tables again by ids, keys and a condition: those that the bus
// ends with, in the same bytes.
func TestRepublishes(t *testing.T) {
	h := newServers(t)
	h.start()
	for i := range 6 {
		h.insert("a/shop.t", fmt.Sprint("a", i+1), "old")
		h.insert("b/shop.t", fmt.Sprint("b", i+1), "old")
	}
	// Its meta.time is 0.
	h.tables["a/shop.t"].Insert("a0", "old", "1970-01-01 00:00:00.000000")
	h.saved()
	h.update("a/shop.t", 2, "a2", "new")
	h.published("a2", "new")
	h.tables["a/shop.t"].Delete(3)

	if done := h.republish(httpapi.RepublishRequest{Table: "a/shop.t", From: 2, To: 4}, nil); done.Shards != 1 || done.To != 4 {
		t.Errorf("%+v", done)
	}
	h.asked("a/shop.t", stream.RepublishDone)
	want := []string{"a2", "a4"}
	if got := h.again(); !slices.Equal(got, want) {
		t.Errorf("ids: %q came again, want %q", got, want)
	}
	h.republish(httpapi.RepublishRequest{Keys: []string{"b5", "none", "a1", "a0"}}, nil)
	for _, table := range []string{"a/shop.t", "b/shop.t"} {
		h.asked(table, stream.RepublishDone)
	}
	want = []string{"a0", "a1", "a2", "a4", "b5"}
	if got := h.again(); !slices.Equal(got, want) {
		t.Errorf("keys: %q came again, want %q", got, want)
	}
	h.republish(httpapi.RepublishRequest{From: 9}, httpapi.ErrCannotRepublish)
	h.republish(httpapi.RepublishRequest{From: 1, Table: "c"}, httpapi.ErrNoStream)
	h.republish(httpapi.RepublishRequest{Cancel: true}, httpapi.ErrCannotRepublish)

	// A row an hour is published: the rest waits, over a restart, until it is cancelled.
	slow := 1
	h.republish(httpapi.RepublishRequest{Table: "b/shop.t", From: 1, Rate: &slow}, nil)
	h.republish(httpapi.RepublishRequest{Table: "b/shop.t", From: 1}, httpapi.ErrCannotRepublish)
	h.restart(false)
	h.asked("b/shop.t", stream.Republishing)
	h.republish(httpapi.RepublishRequest{Cancel: true}, nil)
	if r := h.asked("b/shop.t", stream.RepublishCancelled); r.EndedAt.IsZero() {
		t.Errorf("%+v", r)
	}
	if differences := h.reconciled(); differences != 1 {
		t.Errorf("%d differences, want that of the deleted row", differences)
	}
}
