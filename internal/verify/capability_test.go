package verify_test

import (
	"testing"

	"bridge/event"
	"bridge/sink"
)

// histories publishes an entity with four events, one with three of which the last says that it is
// gone, and one with one.
//
//	0 a first   1 b first   2 a second   3 c first   4 b second   5 a third   6 b gone   7 a fourth
func histories(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, event.Capability)
	a := w.insert("a", "first")
	b := w.insert("b", "first")
	a = w.replace(a, "a", "second")
	w.insert("c", "first")
	b = w.replace(b, "b", "second")
	a = w.replace(a, "a", "third")
	w.remove(b, "b")
	w.replace(a, "a", "fourth")
	return w
}

func TestCapability(t *testing.T) {
	for _, c := range []struct {
		name    string
		tamper  func(t *testing.T, w *world)
		finding string
	}{
		{"a clean bus is good", func(*testing.T, *world) {}, ""},
		{"the first message is removed", func(_ *testing.T, w *world) { w.bus.cut(0) }, "brokenLink 1"},
		{"the last one is removed", func(_ *testing.T, w *world) { w.bus.cut(7) }, "stale 1"},
		{"the only one is removed", func(_ *testing.T, w *world) { w.bus.cut(3) }, "missing 1"},
		{"the deleted one is removed", func(_ *testing.T, w *world) { w.bus.cut(6) }, "extra 1"},
		{"the first message is altered", func(t *testing.T, w *world) { w.bus.edit(t, 0, "first", "firsT") }, "altered 1"},
		{"the deleted one is altered", func(t *testing.T, w *world) { w.bus.edit(t, 6, `"id":5`, `"id":4`) }, "altered 1"},
		{"the time of one is altered", func(t *testing.T, w *world) { w.bus.edit(t, 2, `"time":17`, `"time":16`) }, "altered 1"},
		{"a blank is added to one", func(t *testing.T, w *world) { w.bus.edit(t, 2, `,"data"`, `, "data"`) }, "altered 1"},
		{"a link is altered", func(t *testing.T, w *world) { w.bus.edit(t, 2, `"target":"`, `"target":"0`) }, "brokenLink 1, altered 1"},
		{"one is cut short", func(t *testing.T, w *world) {
			m := *w.bus.messages[2]
			m.Value = m.Value[:len(m.Value)-4]
			w.bus.messages[2] = &m
		}, "brokenLink 1, altered 1"},
		{"the first two of an entity are swapped", func(_ *testing.T, w *world) { w.bus.swap(0, 2) }, "outOfOrder 1"},
		{"the last two are swapped", func(_ *testing.T, w *world) { w.bus.swap(5, 7) }, "stale 1, outOfOrder 1"},
		{"the deleted one comes too early", func(_ *testing.T, w *world) { w.bus.swap(4, 6) }, "extra 1, outOfOrder 1"},
		{"an entity that no row has is added", func(_ *testing.T, w *world) {
			w.insert("d", "first")
			w.table.Delete(7)
		}, "extra 1"},
		{"a newer state is added", func(_ *testing.T, w *world) {
			w.last["c"] = w.bus.messages[3].Header[sink.HeaderID]
			id := w.insert("c", "second")
			w.table.Delete(id)
		}, "stale 1"},
		{"an event that follows nothing is added", func(_ *testing.T, w *world) {
			delete(w.last, "c")
			id := w.insert("c", "zeroth")
			w.table.Delete(id)
			last := len(w.bus.messages) - 1
			w.bus.swap(3, last)
		}, "outOfOrder 1"},
		{"messages that are no events", func(_ *testing.T, w *world) {
			m := w.copyOf(3)
			m.Header[sink.HeaderStream], m.Value = "", []byte("hello")
			w.bus.messages = append(w.bus.messages, m)
		}, "foreign 1"},
		{"a copy is an event of another stream", func(_ *testing.T, w *world) {
			m := w.copyOf(3)
			m.Header[sink.HeaderStream] = "others"
			w.bus.messages = append(w.bus.messages, m)
		}, ""},
		{"a repeat ends with an older state", func(_ *testing.T, w *world) {
			w.bus.messages = append(w.bus.messages, w.bus.messages[5])
		}, "stale 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := histories(t)
			c.tamper(t, w)
			want(t, w.check(), c.finding)
		})
	}
}
