package ledger_test

import (
	"testing"
	"time"

	"example.org/bridge/source"
	"example.org/bridge/source/ledger"
	"example.org/bridge/tests/testall"
)

// stray returns a ledger of a table that had rows up to 100 when a row with the id high was
// inserted, and deleted, long ago.
func stray(t *testing.T, opts ledger.Options, high uint64) (*ledger.Ledger, time.Time) {
	t.Helper()
	l := mustLedger(t, opts, 100)
	l.See(high, base)
	if opts.Policy == ledger.GapHold {
		l.Notice([]uint64{high}, base)
	}
	l.Advance(high, []uint64{high}, base)
	pollWith(l, after(time.Second))
	pollWith(l, after(25*time.Hour))
	sweep(l, after(25*time.Hour))
	if s := l.Stats(after(25 * time.Hour)); s.Unpolled != high-101 || s.Hot+s.Cold != 0 {
		t.Fatalf("%+v", s)
	}
	return l, after(25 * time.Hour)
}

// TestTheLowEndOfAWideGapStaysPolled inserts rows there, long after the TTL, in order and with
// holes.
func TestTheLowEndOfAWideGapStaysPolled(t *testing.T) {
	polls := testall.Cases(120, 400)
	for name, opts := range map[string]ledger.Options{
		"late": {}, "strided": {Order: source.OrderStrided}, "segmented": {Order: source.OrderSegmented}, "hold": {Policy: ledger.GapHold},
	} {
		t.Run(name, func(t *testing.T) {
			l, now := stray(t, opts, 9_000_000_000_000_000_000)
			id := uint64(101)
			for poll := range polls {
				rows := l.Hot(now).Rows
				for n := range uint64(2000) {
					if id++; id%100 == 0 {
						continue
					}
					if !covers(rows, id) {
						t.Fatalf("at poll %d row %d is not polled, but %v", poll, id, rows)
					}
					if n%500 == 0 && !l.Missing(id) {
						t.Fatalf("row %d is not late", id)
					}
					l.Fill(id, now)
				}
				now = now.Add(200 * time.Millisecond)
				if poll%100 == 99 {
					again := opts
					again.Away = time.Hour
					l = mustRestore(t, again, l.Position(), l.All())
				}
				// Ids that were skipped just now are polled like a gap behind the tail.
				probe := pollWith(l, now, id/100*100)
				if left := id / 100 * 100; !covers(probe.Rows, left) || !covers(probe.IDs, left) {
					t.Fatalf("at poll %d row %d, which was skipped, is not polled", poll, left)
				}
			}
			if s := l.Stats(now); s.Pending == 0 || s.Hot < uint64(12*polls) || s.Hot+s.Unpolled < 1<<60 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// TestSeveralStrayIDs has more of them than are kept: the widest gaps keep their fronts, and
// nothing is forgotten.
func TestSeveralStrayIDs(t *testing.T) {
	l := mustLedger(t, ledger.Options{}, 0)
	top, wide := uint64(0), []source.Range(nil)
	for i := range uint64(40) {
		first := top + 1
		top += 5_000_000 << (i % 20)
		l.Advance(top, []uint64{top}, after(time.Duration(i)*time.Minute))
		wide = append(wide, source.Range{First: first, Last: top - 1})
	}
	now := after(48 * time.Hour)
	pollWith(l, now)
	sweep(l, now)
	rows := l.Hot(now).Rows
	for _, r := range wide {
		if !l.Missing(r.First) || !l.Missing(r.Last) {
			t.Errorf("%v is forgotten", r)
		}
		if widest := r.Last-r.First > 5_000_000<<17; widest && !covers(rows, r.First) {
			t.Errorf("the low end of %v, one of the widest, is not polled", r)
		}
	}
	if len(rows) != 8 {
		t.Errorf("looks for %d fronts", len(rows))
	}
}
