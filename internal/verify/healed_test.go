package verify_test

import (
	"fmt"
	"strings"
	"testing"

	"bridge/event"
	"bridge/internal/verify"
	"bridge/sink"
)

// healed lists what is healed: "lost 2, brokenLink 1".
func healed(r *verify.Report) string {
	var list []string
	for _, s := range r.Streams {
		for _, f := range s.Healed {
			list = append(list, fmt.Sprintf("%s %d", f.Fault, f.Count))
		}
	}
	return strings.Join(list, ", ")
}

func TestWhatIsHealed(t *testing.T) {
	// loss loses the middle one of three events of an entity. Then bridge begins another term.
	loss := func(t *testing.T) *world {
		w := stamped(t, event.Capability)
		id := w.insert("a", "first")
		id = w.replace(id, "a", "second")
		w.replace(id, "a", "third")
		w.bus.cut(1)
		w.stamp.Term, w.stamp.Acked = 1, 0
		return w
	}
	expect := func(t *testing.T, w *world, faults, past string) {
		t.Helper()
		w.bus.read = 0
		r := w.check()
		want(t, r, faults)
		if got := healed(r); got != past {
			t.Errorf("healed %q, want %q", got, past)
		}
	}
	t.Run("a loss, once bridge goes on in another term", func(t *testing.T) {
		w := loss(t)
		expect(t, w, "lost 1, brokenLink 1", "")
		b := w.insert("b", "first")
		expect(t, w, "", "lost 1, brokenLink 1")
		w.bus.read = 0
		text := w.check().Text()
		if !strings.Contains(text, "healed, no fault: lost 1: messages that the bus") || !strings.Contains(text, "nothing is wrong") {
			t.Error(text)
		}
		w.table.Delete(b)
		expect(t, w, "lost 1, extra 1, brokenLink 1", "")
	})
	t.Run("a loss of facts, as long as no row can be gone for it", func(t *testing.T) {
		w := stamped(t, event.Release)
		w.rows(5)
		lost := w.copyOf(2)
		w.bus.cut(2)
		w.stamp.Term, w.stamp.Acked = 1, 0
		w.rows(1)
		expect(t, w, "lost 1, missing 1", "")
		w.bus.messages = append(w.bus.messages, lost)
		w.setState(5, func(s *sink.State) { s.Term, s.Seq, s.Acked = 1, 20, 1 })
		expect(t, w, "", "lost 1")
		w.bus.cut(5)
		w.table.Delete(3)
		expect(t, w, "lost 1", "")
	})
	t.Run("what an older process stored late, once a newer one has published behind it", func(t *testing.T) {
		w := stamped(t, event.Capability)
		id := w.insert("a", "first")
		before := w.last["a"]
		id = w.replace(id, "a", "second")
		late := w.bus.messages[1]
		w.bus.cut(1)
		w.last["a"] = before
		w.stamp.Epoch, w.stamp.Acked = 0x2f, 0
		id = w.replace(id, "a", "third")
		w.bus.messages = append(w.bus.messages, late)
		expect(t, w, "stale 1, outOfOrder 1", "")
		w.replace(id, "a", "fourth")
		expect(t, w, "", "outOfOrder 2")
	})
	t.Run("not what one process has stored in the wrong order", func(t *testing.T) {
		w := stamped(t, event.Capability)
		id := w.insert("a", "first")
		id = w.replace(id, "a", "second")
		id = w.replace(id, "a", "third")
		w.replace(id, "a", "fourth")
		w.bus.swap(1, 2)
		expect(t, w, "outOfOrder 1", "")
	})
}
