package sink_test

import (
	"testing"

	"bridge/sink"
)

func TestRepairID(t *testing.T) {
	m := sink.Message{ID: "id"}
	if got := m.Dedup(); got != "id" {
		t.Errorf("without a DedupID repeats are dropped by %q", got)
	}
	m.DedupID = sink.RepairID(m.ID, &sink.State{Epoch: 0x19ab3c4d5e6f, Seq: 0x2a1})
	if got := m.Dedup(); got != "id/19ab3c4d5e6f.2a1" {
		t.Errorf("repeats are dropped by %q", got)
	}
}
