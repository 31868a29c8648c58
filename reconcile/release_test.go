package reconcile_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/event"
	"example.org/bridge/reconcile"
	"example.org/bridge/source"
	"example.org/bridge/source/ledger"
)

// TestReleaseComparesIDsInOnePass has rows with the even ids, and some that appeared under odd ones
// long after GAP_TTL: the ledger in the checkpoint says which, and the table is read once, in
// pages.
func TestReleaseComparesIDsInOnePass(t *testing.T) {
	const rows, stray = 30_000, 1 << 40
	w := newWorld(t, event.Release)
	w.options.SaveEvery = time.Hour
	for id := uint64(2); id <= 2*rows; id += 2 {
		w.table.InsertAt(id, fmt.Sprint(id), "1", "0")
	}
	w.table.InsertAt(stray, "stray", "1", "0")
	w.tail(rows + 1)
	w.age(stray, 555)
	late := []uint64{1, 777, 2*rows - 1, 2*rows + 5_000_000, stray - 1}
	for part, err := range w.store.Parts(t.Context(), key, store.Gaps, 0) {
		if err != nil {
			t.Fatal(err)
		}
		// A read of parts of the ledger ends before such an id.
		if part.Number > 1 && part.Number < 2*rows {
			late = append(late, part.Number)
		}
	}
	for _, id := range late {
		w.table.InsertAt(id, fmt.Sprint("late", id), "1", "0")
	}
	// At the front of the wide gap the tail looks for rows itself, and an id in flight is found by
	// it, too.
	w.table.InsertAt(2*rows+7, "front", "1", "0")
	w.table.InsertAt(555, "flight", "1", "0")
	w.table.Delete(10)

	published := len(w.bus)
	if dry := w.run(reconcile.Mode{DryRun: true}); dry.Missed != uint64(len(late)) || len(w.bus) != published {
		t.Errorf("a dry run found %+v", dry)
	}
	reads, most := 0, 0
	w.options.Source = hooked{Shard: w.table, readIDs: func(ids *source.IDs, read func() error) error {
		err := read()
		reads, most = reads+1, max(most, len(ids.List))
		return err
	}}
	report := w.run(reconcile.Mode{})
	if report.Missed != uint64(len(late)) || len(w.bus) != published+len(late) {
		t.Errorf("report %+v, %d events", report, len(w.bus)-published)
	}
	if reads > 20 || most > 10_000 {
		t.Errorf("%d reads of ids, of %d at most: want a few, of a page each", reads, most)
	}
	if again := w.run(reconcile.Mode{}); again.Missed != 0 {
		t.Errorf("the next run published %d", again.Missed)
	}
}

// age saves the gap ledger as it is a day after the rows of the table, and those of other, were
// published, when the row flight is in flight, if it is not 0.
func (w *world) age(position, flight uint64, other ...uint64) {
	w.t.Helper()
	l, err := ledger.New(ledger.Options{}, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	var page source.Page
	if err := w.table.Read(context.Background(), source.Query{Limit: 1 << 20}, &page); err != nil {
		w.t.Fatal(err)
	}
	ids := other
	for _, row := range page.Rows {
		ids = append(ids, row.ID)
	}
	slices.Sort(ids)
	var flying []uint64
	if flight > 0 {
		flying = []uint64{flight}
	}
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	l.Advance(position, ids, now)
	now = now.Add(25 * time.Hour)
	for range 1000 {
		l.Observe(ledger.Evidence{Ranges: l.Hot(now).IDs, IDs: flying, Now: now})
		ranges := l.Sweep(now)
		if len(ranges) == 0 {
			break
		}
		l.Swept(ledger.Evidence{Ranges: ranges, IDs: flying, Now: now})
	}
	if s := l.Stats(now); s.Cold > 0 || s.Hot != uint64(len(flying)) {
		w.t.Fatalf("%+v", s)
	}
	w.ledger, w.aged = l, now
	w.saveLedger(l.Changed())
}
