package shard

import (
	"slices"
	"testing"

	"bridge/checkpoint"
	"bridge/sink"
	"bridge/source/ledger"
)

func TestUnsaved(t *testing.T) {
	begin := func() *unsaved {
		return newUnsaved(&checkpoint.State{Position: ledger.Position{ID: 10}, Offsets: []sink.Offset{{TP: "t/0", Last: 5}}}, newOffsets(&Options{}))
	}
	acked := func(last uint64, number uint64) *batch {
		return &batch{batchState: batchState{last: last}, batchJournal: batchJournal{number: number}}
	}
	t.Run("a request has the position of what was acknowledged, and its offsets", func(t *testing.T) {
		u := begin()
		if !u.empty() {
			t.Error("something is unsaved at the beginning")
		}
		u.acknowledge(acked(12, 3), []sink.Offset{{TP: "t/0", Last: 7}, {TP: "t/1", Last: 1}})
		u.acknowledge(acked(15, 4), []sink.Offset{{TP: "t/0", Last: 6}})
		request := u.request(nil)
		want := []sink.Offset{{TP: "t/0", Last: 7}, {TP: "t/1", Last: 1}}
		if s := request.state; s.Position.ID != 15 || s.Keep != 5 || !slices.Equal(s.Offsets, want) {
			t.Errorf("position %d, keep %d, offsets %+v", s.Position.ID, s.Keep, s.Offsets)
		}
		if !u.empty() {
			t.Error("what is requested is unsaved")
		}
	})
	t.Run("what is called once a batch is saved goes with its request, once", func(t *testing.T) {
		u := begin()
		var calls []uint64
		u.saved = func(ledger, view uint64) { calls = append(calls, ledger, view) }
		b := acked(12, 0)
		b.ledgerCall, b.seq = 2, 9
		b.saved = func() { calls = append(calls, 1) }
		u.acknowledge(b, nil)
		// The memory of the batch is used again before it is saved.
		b.ledgerCall, b.seq = 0, 0
		for _, done := range slices.Concat(u.request(nil).done, u.request(nil).done) {
			done()
		}
		if !slices.Equal(calls, []uint64{1, 2, 9}) {
			t.Errorf("called with %v", calls)
		}
	})
	t.Run("a request that somebody waits for does not wait for a journal", func(t *testing.T) {
		u := begin()
		u.patient = true
		b := acked(12, 0)
		u.acknowledge(b, nil)
		if !u.request(nil).patient {
			t.Error("it does not wait though nobody waits for it")
		}
		b.saved = func() {}
		u.acknowledge(b, nil)
		if u.request(nil).patient {
			t.Error("it waits")
		}
	})
	t.Run("a journal goes with what is acknowledged, not with what is on its way", func(t *testing.T) {
		u := begin()
		u.acknowledge(acked(12, 1), nil)
		next := acked(20, 2)
		after := u.after(next)
		request := u.request(&checkpoint.Journal{Number: 2, After: after})
		if request.state.Position.ID != 12 || request.state.Keep != 2 || len(request.state.Journals) != 1 {
			t.Errorf("%+v", request.state)
		}
		if after.Position.ID != 20 {
			t.Errorf("position %d behind the journal", after.Position.ID)
		}
	})
}
