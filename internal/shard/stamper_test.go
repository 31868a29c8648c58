package shard_test

import (
	"slices"
	"testing"

	"example.org/bridge/sink"
)

// TestStampsNameWhatIsLost sends a part of a batch again, as a dead letter is in it, and has the
// outcome of the next one be unknown. No seq is used twice, and the numbers of what was
// acknowledged have no gap in a term: a reader finds by them exactly what the bus has lost.
func TestStampsNameWhatIsLost(t *testing.T) {
	b := newBench(t)
	b.opts.DeadLetter, b.opts.BatchRows = deadTopic, 10
	b.bus.Reject(func(m *sink.Message) string {
		if m.RowID == 4 && m.Destination == topic {
			return "refused"
		}
		return ""
	})
	b.insert(25)
	b.runTo(t, 25)
	lost := &lostAnswer{Sink: b.bus, gate: make(chan struct{})}
	close(lost.gate)
	b.sink = lost
	b.insert(25)
	b.runTo(t, 50)
	dead := b.bus.Messages(deadTopic)
	if len(dead) != 1 || dead[0].State.Event == [16]byte{} || dead[0].State.Key != "4" || string(dead[0].Key) != "4" {
		t.Fatalf("the dead letters are %+v", dead)
	}
	type term struct {
		epoch uint64
		term  uint32
	}
	numbers, acked, seqs := make(map[term][]uint32), make(map[term]uint32), make(map[[2]uint64]bool)
	for _, m := range append(b.bus.Messages(topic), dead...) {
		s, of := m.State, term{m.State.Epoch, m.State.Term}
		if seq := [2]uint64{s.Epoch, s.Seq}; seqs[seq] || s.Seq == 0 {
			t.Errorf("row %d has the seq %d, as another", m.RowID, s.Seq)
		} else {
			seqs[seq] = true
		}
		numbers[of], acked[of] = append(numbers[of], s.Acked+s.Index), max(acked[of], s.Acked)
	}
	if len(numbers) != 3 || len(seqs) != 50 {
		t.Errorf("%d messages of %d terms: one of the first process, two of the next", len(seqs), len(numbers))
	}
	for of, list := range numbers {
		for n := range acked[of] {
			if !slices.Contains(list, n) {
				t.Errorf("a reader misses number %d of %+v", n, of)
			}
		}
		slices.Sort(list)
		if len(slices.Compact(list)) != len(list) {
			t.Errorf("numbers of %+v are used twice: %v", of, list)
		}
	}
}
