package verify_test

import (
	"testing"

	"bridge/event"
	"bridge/sink"
)

// tombstone sends the tombstone of the last message.
func (w *world) tombstone() {
	last := w.copyOf(len(w.bus.messages) - 1)
	last.Value = nil
	if w.stamp.Epoch != 0 {
		last.Header[sink.HeaderState] = string(sink.AppendState(nil, &w.stamp))
		w.stamp.Seq++
		w.stamp.Acked++
	}
	w.bus.messages = append(w.bus.messages, last)
}

func TestTombstones(t *testing.T) {
	begin := func(t *testing.T) *world {
		w := newWorld(t, event.Capability)
		w.stamp = sink.State{Epoch: 7, Seq: 1}
		w.insert("b", "on")
		w.remove(w.insert("a", "on"), "a")
		return w
	}
	t.Run("follow their events, and are none", func(t *testing.T) {
		w := begin(t)
		w.tombstone()
		w.insert("a", "on")
		r := w.check()
		want(t, r, "")
		if s := r.Streams[0]; s.Tombstones != 1 || s.Events != 4 || s.Repeats != 0 || s.Live != 2 {
			t.Errorf("%+v", s)
		}
	})
	t.Run("follow nothing else", func(t *testing.T) {
		w := begin(t)
		w.insert("c", "on")
		w.tombstone()
		want(t, w.check(), "altered 1")
	})
	t.Run("have the key of their event", func(t *testing.T) {
		w := begin(t)
		w.tombstone()
		w.bus.messages[3].Key = []byte("b")
		want(t, w.check(), "altered 1")
	})
	t.Run("are alone for a while where compaction has removed their events", func(t *testing.T) {
		w := begin(t)
		w.tombstone()
		w.bus.cut(1)
		w.bus.cut(1)
		w.bus.partition.Thinned = true
		want(t, w.check(), " | removed 2")
	})
}
