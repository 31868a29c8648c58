package verify_test

import (
	"testing"

	"bridge/event"
	"bridge/internal/verify"
	"bridge/sink"
	"bridge/source"
)

// TestTheHeaderThatSteersRecovery plants faults in bridge-state alone.
func TestTheHeaderThatSteersRecovery(t *testing.T) {
	for _, kind := range []event.Kind{event.Capability, event.Release} {
		t.Run("another digest: "+string(kind), func(t *testing.T) {
			w := stamped(t, kind)
			w.rows(3)
			w.setState(1, func(s *sink.State) { s.Digest[3]++ })
			want(t, w.check(), "altered 1")
		})
		t.Run("another digest, where the body does not tell all of its row: "+string(kind), func(t *testing.T) {
			w := withColumns(t, kind, source.Column{Name: "value", Kind: source.JSON})
			w.stamp = sink.State{Epoch: 7, Seq: 1}
			for _, name := range []string{"a", "b", "c"} {
				w.publish(w.table.Insert(name, `{ "b": 1 }`))
			}
			w.setState(1, func(s *sink.State) { s.Digest[3]++ })
			want(t, w.check(), "altered 1")
		})
		t.Run("a row that is there is said to be gone: "+string(kind), func(t *testing.T) {
			w := stamped(t, kind)
			w.rows(3)
			w.setState(1, func(s *sink.State) { s.Kind, s.Digest = sink.StateAbsent, [16]byte{} })
			want(t, w.check(), "altered 1")
		})
	}
	t.Run("a row that is gone is said to be deleted by a column", func(t *testing.T) {
		w := stamped(t, event.Capability)
		w.remove(w.insert("a", "first"), "a")
		w.setState(1, func(s *sink.State) { s.Kind = sink.StateTombstone })
		want(t, w.check(), "altered 1")
	})
	t.Run("another key, on a bus without keys", func(t *testing.T) {
		w := stamped(t, event.Capability)
		w.rows(3)
		w.remove(1, "name-0")
		for i, m := range w.bus.messages {
			key := string(m.Key)
			m.Key = nil
			w.setState(i, func(s *sink.State) { s.Key = key })
		}
		want(t, w.check(), "")
		w.bus.read = 0
		w.setState(1, func(s *sink.State) { s.Key = "name-0" })
		w.setState(3, func(s *sink.State) { s.Key = "name-2" })
		want(t, w.check(), "altered 2")
	})
}

func TestRepeatsOfExactlyOnce(t *testing.T) {
	// once is a world whose messages are published with exactly-once.
	once := func(t *testing.T, kind event.Kind) *world {
		w := stamped(t, kind)
		w.rows(5)
		for _, m := range w.bus.messages {
			m.Once = true
		}
		return w
	}
	// again repeats an event with a stamp of its own.
	again := func(w *world, i int, epoch uint64, once bool) {
		w.bus.messages = append(w.bus.messages, w.copyOf(i))
		last := len(w.bus.messages) - 1
		w.setState(last, func(s *sink.State) {
			s.Epoch, s.Seq, s.Acked, s.Index = epoch, uint64(last), 0, 0
			if epoch == 0x1f {
				s.Acked = 5
			}
		})
		w.bus.messages[last].Once = once
	}
	for _, kind := range []event.Kind{event.Capability, event.Release} {
		t.Run("are faults: "+string(kind), func(t *testing.T) {
			w := once(t, kind)
			w.bus.messages = append(w.bus.messages, w.copyOf(3))
			// Another program need not copy how it was published.
			w.bus.messages[5].Once = false
			again(w, 2, 0x1f, true)
			again(w, 1, 0x2f, true)
			want(t, w.check(), "repeated 3")
		})
		t.Run("are none of a run with at-least-once: "+string(kind), func(t *testing.T) {
			w := once(t, kind)
			again(w, 2, 0x2f, false)
			w.bus.messages = append(w.bus.messages, w.copyOf(5))
			r := w.check()
			want(t, r, "")
			if got := repeats(r); got != "copy 1, again 1" {
				t.Errorf("repeats %q", got)
			}
		})
		t.Run("may be what was in flight before the first run with it: "+string(kind), func(t *testing.T) {
			w := stamped(t, kind)
			w.rows(5)
			again(w, 2, 0x2f, true)
			r := w.check()
			want(t, r, "")
			if got := repeats(r); got != "again 1" {
				t.Errorf("repeats %q", got)
			}
			// The second run with it has no such excuse.
			w.bus.read = 0
			again(w, 3, 0x3f, true)
			want(t, w.check(), "repeated 1")
		})
		t.Run("may be asked for with bridge checkpoint set: "+string(kind), func(t *testing.T) {
			w := once(t, kind)
			again(w, 2, 0x2f, true)
			w.setState(5, func(s *sink.State) { s.Since = 0x2e })
			want(t, w.check(), "")
		})
		t.Run("may be what a person resends of dead letters: "+string(kind), func(t *testing.T) {
			w := once(t, kind)
			again(w, 2, 0x2f, true)
			again(w, 2, 0x2f, true)
			again(w, 3, 0x2f, true)
			w.bus.messages = append(w.bus.messages, w.copyOf(2))
			w.refuse(8, 3)
			r := w.check()
			want(t, r, "repeated 1")
			if got := repeats(r); got != "again 2" {
				t.Errorf("repeats %q", got)
			}
		})
	}
}

func TestMessagesInAnotherPartition(t *testing.T) {
	for _, kind := range []event.Kind{event.Capability, event.Release} {
		// The key of the message i has the hash i, and two partitions the messages of their keys.
		spread := func(t *testing.T) *world {
			w := stamped(t, kind)
			w.rows(6)
			w.bus.partition = verify.Partition{Name: "T/0", Destination: "T"}
			w.bus.others = []verify.Partition{{Name: "T/1", Destination: "T", Number: 1}}
			for i, m := range w.bus.messages {
				m.Hash, m.Partition = uint32(i), i%2
			}
			return w
		}
		check := func(w *world) *verify.Report {
			w.bus.read = 0
			return w.check(func(o *verify.Options) { o.Shards[0].Destinations = []string{"T"} })
		}
		t.Run("are faults: "+string(kind), func(t *testing.T) {
			w := spread(t)
			want(t, check(w), "")
			w.bus.messages[4].Partition = 1
			r := check(w)
			want(t, r, "otherPartition 1")
			if e := examplesOf(r, "otherPartition")[0]; e.Row != 5 || e.Partition != "T/1" || e.What != "the partition of its key is 0" {
				t.Errorf("%+v", e)
			}
		})
		t.Run("may be from before a partition was added: "+string(kind), func(t *testing.T) {
			w := spread(t)
			for _, m := range w.bus.messages[:4] {
				m.Partition = 0
			}
			want(t, check(w), "")
			w.bus.messages[4].Partition = 1
			// Its partition is younger than the other, but not than itself.
			want(t, check(w), "otherPartition 1")
		})
	}
	t.Run("are history where the entity has a newer one", func(t *testing.T) {
		w := stamped(t, event.Capability)
		w.replace(w.insert("a", "first"), "a", "second")
		w.bus.partition = verify.Partition{Name: "T/0", Destination: "T"}
		w.bus.others = []verify.Partition{{Name: "T/1", Destination: "T", Number: 1}}
		w.bus.messages[0].Partition = 1
		want(t, w.check(func(o *verify.Options) { o.Shards[0].Destinations = []string{"T"} }), "")
	})
}
