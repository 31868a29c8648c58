package app

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/shard"
	"example.org/bridge/internal/stream"
	"example.org/bridge/sink"
)

// list waits until the full list is in a state.
func (h *household) list(state stream.RepublishState) (list *shard.RepublishStatus) {
	h.t.Helper()
	until(h.t, "the full list is "+string(state), func() any { return fmt.Sprintf("%+v", h.app.Daemon().Status().Streams[0].List) }, func() bool {
		list = h.app.Daemon().Status().Streams[0].List
		return list != nil && list.State == state
	})
	return list
}

// listed returns the state of each entity between the boundaries of each list that has ended, and
// how many lists have begun and not ended.
func (h *household) listed() (lists []map[string]string, open int) {
	h.t.Helper()
	began, held := "", map[string]string(nil)
	messages := h.bus.Messages(h.topics[0])
	for i := range messages {
		m := &messages[i]
		kind := strings.Split(m.List, ";")
		switch {
		case kind[0] == sink.ListBegins:
			began, held = kind[1], make(map[string]string)
			open++
		case kind[0] == sink.ListEnds && kind[1] == began:
			lists, held = append(lists, held), nil
			open--
		case held != nil:
			if s := h.say(m); s.state == "deleted" {
				delete(held, s.name)
			} else {
				held[s.name] = s.state
			}
		}
	}
	return lists, open
}

// TestFullList has lists of two tables: one that waits for a table over a restart, and one that is
// cancelled.
func TestFullList(t *testing.T) {
	h := newServers(t)
	h.start()
	t.Cleanup(func() { h.stop() })
	h.republishAll(httpapi.ErrCannotRepublish)
	for i := range 6 {
		h.insert("a/shop.t", fmt.Sprint("a", i+1), "old")
		h.insert("b/shop.t", fmt.Sprint("b", i+1), "old")
	}
	h.saved()
	h.update("a/shop.t", 2, "a2", "new")
	h.published("a2", "new")
	h.republishAll(nil)
	h.list(stream.RepublishDone)
	if lists, open := h.listed(); len(lists) != 1 || open != 0 || !maps.Equal(lists[0], h.rows()) {
		t.Errorf("the lists are %v, %d are open", lists, open)
	}

	// The table b does not answer: the list has no end, whatever a does.
	h.away.Store("b", true)
	h.republishAll(nil)
	h.republishAll(httpapi.ErrCannotRepublish)
	h.republish(httpapi.RepublishRequest{From: 1}, httpapi.ErrCannotRepublish)
	h.republish(httpapi.RepublishRequest{Cancel: true, Table: "a/shop.t"}, httpapi.ErrCannotRepublish)
	h.halfListed()
	h.restart(false)
	if lists, open := h.listed(); len(lists) != 1 || open != 1 {
		t.Errorf("the lists are %v, %d are open", lists, open)
	}
	h.away.Delete("b")
	began := h.list(stream.Republishing).List
	if ended := h.list(stream.RepublishDone).List; ended != began {
		t.Errorf("the list %s goes on as %s", began, ended)
	}
	if lists, open := h.listed(); len(lists) != 2 || open != 0 || !maps.Equal(lists[1], h.rows()) {
		t.Errorf("the lists are %v, %d are open", lists, open)
	}

	// One that is cancelled has no end.
	h.away.Store("b", true)
	h.republishAll(nil)
	h.halfListed()
	h.republish(httpapi.RepublishRequest{Cancel: true}, nil)
	h.away.Delete("b")
	h.list(stream.RepublishCancelled)
	h.restart(true)
	h.saved()
	if lists, open := h.listed(); len(lists) != 2 || open != 1 {
		t.Errorf("the lists are %v, %d are open", lists, open)
	}
}

// halfListed waits until the table a is published again for a list.
func (h *household) halfListed() {
	h.t.Helper()
	h.eventually("the table a is listed", func() bool {
		list, a := h.list(stream.Republishing), h.shard("a/shop.t").Republish
		return list.List != "" && a.List == list.List && a.State == stream.RepublishDone
	})
}

// republishAll asks for a full list.
func (h *household) republishAll(want error) {
	h.t.Helper()
	h.republish(httpapi.RepublishRequest{All: true}, want)
}

// TestFullListByTheClock: the first list is due at once, the next one after the interval, also over
// a restart.
func TestFullListByTheClock(t *testing.T) {
	h := newServers(t)
	h.cfg.Streams[0].FullListInterval = time.Hour
	h.insert("a/shop.t", "a1", "old")
	h.insert("b/shop.t", "b1", "old")
	h.start()
	t.Cleanup(func() { h.stop() })
	h.eventually("a list has ended", func() bool { lists, _ := h.listed(); return len(lists) == 1 })
	first := h.list(stream.RepublishDone).List
	h.restart(false)
	h.saved()
	if again := h.list(stream.RepublishDone).List; again != first {
		t.Errorf("the list %s follows %s at once", again, first)
	}
	h.stop()
	h.cfg.Streams[0].FullListInterval = time.Millisecond
	h.start()
	h.eventually("further lists have ended", func() bool { lists, _ := h.listed(); return len(lists) > 2 })
}
