package app

import "testing"

// moves are lives of the entity M. Each calls meanwhile once, in its middle; it may start another
// bridge.
var moves = map[string]func(h *household, meanwhile func()){
	"an entity goes to another table and comes back as it was": func(h *household, meanwhile func()) {
		first := h.insert("d_0", "M", "active")
		h.published("M", "active")
		h.tables["d_0"].Delete(first)
		second := h.insert("d_1", "M", "moved")
		h.published("M", "moved")
		meanwhile()
		h.tables["d_1"].Delete(second)
		h.insert("d_0", "M", "active")
		h.published("M", "active")
	},
	"while the bus stands still, a row changes, and its entity goes to another table": func(h *household, meanwhile func()) {
		row := h.insert("d_0", "M", "active")
		h.published("M", "active")
		release := h.bus.Pause(0)
		h.sent(func() { h.update("d_0", row, "M", "old") })
		h.tables["d_0"].Delete(row)
		h.insert("d_1", "M", "new")
		meanwhile()
		release()
		h.published("M", "new")
	},
	"while the bus stands still, an entity goes to another table and comes back": func(h *household, meanwhile func()) {
		first := h.insert("d_0", "M", "active")
		h.published("M", "active")
		release := h.bus.Pause(0)
		h.tables["d_0"].Delete(first)
		var second uint64
		h.sent(func() { second = h.insert("d_1", "M", "moved") })
		meanwhile()
		h.tables["d_1"].Delete(second)
		h.insert("d_0", "M", "active")
		release()
	},
	"an entity comes back in another table while its delete is on its way": func(h *household, meanwhile func()) {
		row := h.insert("d_0", "M", "active")
		h.published("M", "active")
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
	"the former row of an entity is found gone while its new one is on its way": func(h *household, meanwhile func()) {
		row := h.insert("d_0", "M", "active")
		h.published("M", "active")
		release := h.bus.Pause(0)
		h.tables["d_0"].Delete(row)
		h.sent(func() { h.insert("d_1", "M", "moved") })
		h.reconcile()
		meanwhile()
		release()
		h.published("M", "moved")
	},
	"an entity goes, and then its second row": func(h *household, meanwhile func()) {
		first := h.insert("d_0", "M", "active")
		h.published("M", "active")
		second := h.insert("d_1", "M", "moved")
		h.published("M", "moved")
		h.saved()
		h.tables["d_0"].Delete(first)
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
					life(h, func() { meanwhile(h) })
					h.compare()
				})
			}
		}
	}
}
