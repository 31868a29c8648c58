package app

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.org/bridge/internal/config"
	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/shard"
	"example.org/bridge/internal/share"
	"example.org/bridge/internal/stream"
	"example.org/bridge/sink"
	"example.org/bridge/tests/must"
)

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
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newServers(t)
		h.away.Store("b", true)
		h.start()
		h.republishAll(httpapi.ErrCannotRepublish)
		h.away.Delete("b")
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

		// A row that takes an entity over behind the list changes nothing of that.
		h.tables["a/shop.t"].Delete(2)
		h.insert("a/shop.t", "a2", "new")
		h.saved()
		h.restart(false)
		h.publishes("a/shop.t", "a8", "old")
		if own := h.shard("a/shop.t").Republish; own.State != stream.RepublishDone {
			t.Errorf("the table of a list that has ended: %+v", own)
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
	})
}

// halfListed waits until the table a is published again for a list.
func (h *household) halfListed() {
	h.t.Helper()
	h.eventually("the table a is listed", func() bool {
		list, a := h.list(stream.Republishing), h.shard("a/shop.t").Republish
		return list.List != "" && a.List == list.List && a.State == stream.RepublishDone
	})
}

func (h *household) republishAll(want error) {
	h.t.Helper()
	h.republish(httpapi.RepublishRequest{All: true}, want)
}

// TestFullListByTheClock: the first list is due at once, the next one after the interval, also over
// a restart.
func TestFullListByTheClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newServers(t)
		h.cfg.Streams[0].FullListInterval = time.Hour
		h.insert("a/shop.t", "a1", "old")
		h.insert("b/shop.t", "b1", "old")
		h.start()
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
		// A reload of limits alone leaves the app as it is.
		h.app.streams[0].rate.Set(2000)
		h.eventually("a list has half of the new rate", func() bool {
			last := h.app.streams[0].feed.Lists().Last()
			return last != nil && last.Rate == 1000
		})
		// One that takes longer than the interval is not asked for again and again.
		h.away.Store("b", true)
		number, looks, polls := uint64(0), make(map[*stream.Republish]bool), 0
		h.eventually("a second of a list that does not end", func() bool {
			last := h.app.streams[0].feed.Lists().Last()
			if polls++; last.Number != number {
				number, polls = last.Number, 0
				clear(looks)
			}
			looks[last] = true
			return polls > 200
		})
		if len(looks) > 10 {
			t.Errorf("the checkpoint is asked %d times a second", len(looks))
		}
	})
}

// TestFullListOfWhatTheBusSays: an entity that lives by the bus is in the list, also where its row
// is gone and the guard holds its delete back, and where another row has taken it over meanwhile. A
// list that begins again ends.
func TestFullListOfWhatTheBusSays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newServers(t)
		h.cfg.Streams[0].ReconcileMaxDeletes = 0.1
		for i := range 200 {
			h.insert("a/shop.t", fmt.Sprint("a", i+2), "old")
		}
		h.insert("b/shop.t", "b1", "old")
		h.start()
		h.saved()
		for i := range 150 {
			h.tables["a/shop.t"].Delete(uint64(i + 10))
		}
		h.reconcile()
		h.eventually("the guard holds deletes back", func() bool { return h.shard("a/shop.t").Reconcile.Guard != "" })
		h.away.Store("b", true)
		h.republishAll(nil)
		h.halfListed()
		lists, last := h.app.streams[0].feed.Lists(), h.app.streams[0].feed.Lists().Last()
		must.OK(t, lists.End(t.Context(), last.Number, "", ""))
		h.eventually("the list begins again", func() bool {
			list := h.list(stream.Republishing)
			return list.List != "" && string(list.List) != last.List
		})
		h.halfListed()
		h.tables["a/shop.t"].Delete(2)
		h.insert("a/shop.t", "a3", "old")
		h.away.Delete("b")
		h.list(stream.RepublishDone)
		if lists, open := h.listed(); len(lists) != 1 || open != 1 || len(lists[0]) != 201 || !maps.Equal(lists[0], h.folded()) {
			t.Errorf("%d lists have ended, %d are open, the first has %d of %d entities", len(lists), open, len(lists[0]), len(h.folded()))
		}
	})
}

// TestFullListBesideDeadLetters: an entity of which the bus has refused the first event is in no
// list, and no list ends where the bus may have an older event of one that was refused.
func TestFullListBesideDeadLetters(t *testing.T) {
	h := newServers(t, "BRIDGE_STREAM_MOVES_DEAD_LETTER", "dead", "BRIDGE_STREAM_MOVES_DEAD_LETTER_LIMIT", "3")
	h.bus.Create("dead")
	h.bus.Reject(func(m *sink.Message) string {
		if m.Destination == "moves" && strings.Contains(string(m.Value), "bad") {
			return "too large"
		}
		return ""
	})
	h.insert("a/shop.t", "a1", "old")
	h.insert("a/shop.t", "a2", "bad")
	h.start()
	h.saved()
	h.republishAll(nil)
	h.list(stream.RepublishDone)
	if lists, _ := h.listed(); len(lists) != 1 || !maps.Equal(lists[0], map[string]string{"a1": "old"}) || len(h.bus.Messages("dead")) != 1 {
		t.Errorf("the lists are %v with %d dead letters", lists, len(h.bus.Messages("dead")))
	}
	if refused := h.shard("a/shop.t").Republish.Refused; refused != 1 {
		t.Errorf("%d entities are said to be in no list", refused)
	}

	// A table that begins again, since a row of it takes an entity over, says it once.
	h.away.Store("b", true)
	h.republishAll(nil)
	h.halfListed()
	h.tables["a/shop.t"].Delete(1)
	h.insert("a/shop.t", "a1", "old")
	h.publishes("a/shop.t", "a4", "old")
	h.away.Delete("b")
	h.list(stream.RepublishDone)
	if refused := h.shard("a/shop.t").Republish.Refused; refused != 1 {
		t.Errorf("%d entities are said to be in no list after the second one", refused)
	}
	h.update("a/shop.t", 3, "a1", "bad")
	h.eventually("the change is refused", func() bool { return len(h.bus.Messages("dead")) == 2 })
	h.republishAll(nil)
	if list := h.list(stream.RepublishFailed); !strings.Contains(string(list.Error), "dead letter") {
		t.Errorf("the list has failed with %q", list.Error)
	}
	if lists, open := h.listed(); len(lists) != 2 || open != 1 || len(h.bus.Messages("dead")) != 2 {
		t.Errorf("the lists are %v, %d are open, with %d dead letters", lists, open, len(h.bus.Messages("dead")))
	}
}

// TestFullListAndShares: a list that was begun by one process fails where the tables are shared.
func TestFullListAndShares(t *testing.T) {
	h := newServers(t)
	h.insert("a/shop.t", "a1", "old")
	h.insert("b/shop.t", "b1", "old")
	h.start()
	h.saved()
	h.away.Store("b", true)
	h.republishAll(nil)
	h.halfListed()
	h.stop()
	h.away.Delete("b")
	h.cfg.Share = config.Share{Share: share.Share{Number: 2}}
	h.start()
	if list := h.list(stream.RepublishFailed); !strings.Contains(string(list.Error), "SHARE") {
		t.Errorf("the list has failed with %q", list.Error)
	}
}
