package stream_test

import (
	"context"
	"testing"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/checkpoint/store/storetest/memory"
	"example.org/bridge/internal/stream"
	"example.org/bridge/sink"
	"example.org/bridge/source"
	"example.org/bridge/source/ledger"
)

// TestPartsStayInMemoryUntilTheyAreApplied has an owner hand over much at once.
func TestPartsStayInMemoryUntilTheyAreApplied(t *testing.T) {
	m := memory.New()
	p, err := stream.OpenProgress(context.Background(), m, key, store.Progress{}, ledger.Options{MaxBytes: 1, Order: source.OrderStrict})
	if err != nil {
		t.Fatal(err)
	}
	s := &shard{p: p, store: m}
	advance := func(through, step uint64) store.ShardChange {
		b := stream.Read{Through: through, At: base, Now: base}
		for id := p.Position() + step; id <= through; id += step {
			b.Passed = append(b.Passed, id)
		}
		change, _, err := p.Advance(&b)
		if err != nil {
			t.Fatal(err)
		}
		return change
	}
	for id := uint64(1); id <= 3; id++ {
		change := advance(id, 1)
		s.apply(t, change)
	}
	// Another ledger, whose changes are counted from the first.
	p.Note(9, sink.FromReconcile, &sink.State{Epoch: 5, Seq: 1, Since: 5})
	for id := uint64(30_000_000); id < 30_900_000; id += 300 {
		p.Note(id, sink.FromReconcile, &sink.State{Epoch: 5, Seq: 1, Since: 5})
	}
	waiting := advance(20_000_000, 200)
	if !p.Ahead(30_000_300) || p.Ahead(30_000_301) || !p.Ahead(30_899_700) || p.Err() != nil {
		t.Fatalf("what is ahead is forgotten: %v", p.Err())
	}
	for id := uint64(11); id < 20_000_000; id += 99_999 {
		if want := id%200 != 0; p.Ledger().Missing(id) != want || p.Err() != nil {
			t.Fatalf("%d is missing: %t; %v", id, !want, p.Err())
		}
	}
	in := p.Ledger().Stats(base).Bytes
	s.apply(t, waiting)
	advance(20_000_001, 1)
	if out := p.Ledger().Stats(base).Bytes; out > in*3/4 {
		t.Errorf("%d bytes before they were applied, %d after", in, out)
	}
}
