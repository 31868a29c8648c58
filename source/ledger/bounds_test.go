package ledger_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"example.org/bridge/source"
	"example.org/bridge/source/ledger"
	"example.org/bridge/tests/testall"
)

func TestAReadThatWasCutOffIsContinued(t *testing.T) {
	l := mustLedger(t, ledger.Options{}, 0)
	l.Advance(1001, []uint64{1001}, base)
	all := make([]uint64, 1000)
	for i := range all {
		all[i] = uint64(i + 1)
	}
	for id := uint64(0); id < 1000; id += 100 {
		probe := l.Hot(base)
		if probe.IDs[0].First != id+1 {
			t.Fatalf("after a cut at %d reads from %d", id, probe.IDs[0].First)
		}
		l.Observe(ledger.Evidence{Ranges: source.RangesThrough(probe.IDs, id+100), IDs: all[:id+100], Now: base})
	}
	if s := l.Stats(base); s.Pending != 1000 {
		t.Errorf("%+v", s)
	}
	l.CutOff(400)
	if probe := l.Hot(base); probe.Rows[0].First != 401 {
		t.Errorf("after a cut of the rows at 400 reads %+v", probe.Rows)
	}
	if probe := l.Hot(base); probe.Rows[0].First != 1 || probe.IDs[0].First != 1 {
		t.Errorf("after a whole read reads %+v", probe)
	}
}

// TestIDsWithoutEvidenceAreReadFirst has more hot ids than a read of rows takes: an id that was
// just missed may have committed since, and must not wait for an evidence to show it.
func TestIDsWithoutEvidenceAreReadFirst(t *testing.T) {
	l := mustLedger(t, ledger.Options{}, 0)
	var published []uint64
	for id := uint64(1); id <= 4000; id++ {
		if id%5 != 0 {
			published = append(published, id)
		}
	}
	l.Advance(3999, published, base)
	pollWith(l, base)
	l.Advance(4001, []uint64{4001}, after(time.Second))
	if probe := l.Hot(after(time.Second)); !covers(probe.Rows, 4000) {
		t.Errorf("reads %v, and not 4000, which no evidence has covered", probe.Rows)
	}
}

func covers(ranges []source.Range, id uint64) bool {
	return slices.ContainsFunc(ranges, func(r source.Range) bool { return r.First <= id && id <= r.Last })
}

// TestLateRowsComeWithinTwoPolls measures from commit to publication under the load of the property
// test.
func TestLateRowsComeWithinTwoPolls(t *testing.T) {
	const every = 100 * time.Millisecond
	for _, order := range []source.IDOrder{source.OrderStrict, source.OrderSegmented} {
		t.Run(string(order), func(t *testing.T) {
			w := newTable(newRand(1))
			o := newOwner(w, ledger.Options{Order: order, GapTTL: time.Hour})
			o.limit = 20_000
			for range 500 {
				for range 3 {
					w.begin()
					w.pass(every / 3)
				}
				o.poll()
				o.ack(10)
			}
			var delays []time.Duration
			for id, at := range o.late {
				delays = append(delays, at.Sub(w.commits[id]))
			}
			slices.Sort(delays)
			p99, last := delays[len(delays)*99/100], delays[len(delays)-1]
			if len(delays) < 100 || p99 > 2*every {
				t.Errorf("of %d late rows p99 came after %s, the last after %s", len(delays), p99, last)
			}
			if o.queries > 2*500 {
				t.Errorf("%d queries in 500 polls", o.queries)
			}
		})
	}
}

// TestEveryPendingIDIsReadInTurn opens transactions, of one id each, and polls: a transaction whose
// commit no evidence has shown must be read soon, and a poll must not read far more than it must.
func TestEveryPendingIDIsReadInTurn(t *testing.T) {
	for _, n := range []int{129, 250, 400, 900} {
		for _, step := range []int{6, 8, 17, 30} {
			for _, regular := range []bool{true, false} {
				t.Run(fmt.Sprintf("%d ids, %d apart, regular %t", n, step, regular), func(t *testing.T) {
					readInTurn(t, n, step, regular)
				})
			}
		}
	}
}

func readInTurn(t *testing.T, n, step int, regular bool) {
	const warm, polls = 20, 80
	l, rng := mustLedger(t, ledger.Options{}, 0), newRand(1)
	pending, published, id := []uint64(nil), []uint64(nil), uint64(0)
	for range n {
		pending = append(pending, id+1)
		width := step
		if !regular {
			width = 2 + rng.IntN(2*step-3)
		}
		for range width - 1 {
			published = append(published, id+2)
			id++
		}
		id++
	}
	l.Advance(id, published, base)
	last, read := make(map[uint64]int), uint64(0)
	for poll := range polls {
		now := after(time.Duration(poll) * 200 * time.Millisecond)
		probe := l.Hot(now)
		var shown []uint64
		for _, id := range pending {
			if covers(probe.IDs, id) {
				shown = append(shown, id)
			}
			if covers(probe.Rows, id) {
				last[id] = poll
			}
			if poll >= warm && poll-last[id] > n/100 {
				t.Fatalf("poll %d: id %d was read %d polls ago", poll, id, poll-last[id])
			}
		}
		for _, r := range probe.Rows {
			read += r.Last - r.First + 1
		}
		l.Observe(ledger.Evidence{Ranges: probe.IDs, IDs: shown, Now: now})
	}
	// Beyond what the ranges of a probe hold, ids that are not missing are read, too.
	most := uint64(n)
	if n > 250 {
		most = uint64(13 * n)
	}
	if read/polls > most {
		t.Errorf("a poll reads %d ids for the rows of %d", read/polls, n)
	}
}

func TestALargeTransactionIsReadOnceItCommits(t *testing.T) {
	const n = 100_000
	l := mustLedger(t, ledger.Options{}, 0)
	l.Advance(n+1, []uint64{n + 1}, base)
	all := make([]uint64, n)
	for i := range all {
		all[i] = uint64(i + 1)
	}
	pollWith(l, base, all...)
	read := map[uint64]bool{}
	for i := range 60 {
		probe := pollWith(l, after(time.Duration(i)*time.Second), all...)
		width := uint64(0)
		for _, r := range probe.Rows {
			width += r.Last - r.First + 1
			for id := r.First; id <= r.Last; id++ {
				read[id] = true
			}
		}
		if width == 0 || width > 3000 || !slices.Equal(probe.IDs, ranges(1, n)) {
			t.Fatalf("while it is pending reads %d rows, ids in %v", width, probe.IDs)
		}
	}
	if len(read) < n {
		t.Errorf("looks at %d ids of %d in turn", len(read), n)
	}
	now := after(time.Hour)
	rows := pollWith(l, now, all...).Rows
	l.Fill(rows[0].First, now)
	if rows := l.Hot(now).Rows; len(rows) > 2 || rows[0].First != 1 || rows[len(rows)-1].Last != n {
		t.Errorf("once a row of it was found reads %v", rows)
	}
}

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

// heapOf returns what build makes and the memory that it keeps alive.
func heapOf[T any](build func() T) (T, float64) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	v := build()
	runtime.GC()
	runtime.ReadMemStats(&after)
	return v, float64(after.HeapAlloc) - float64(before.HeapAlloc)
}

func poll(l *ledger.Ledger, now time.Time) {
	probe := l.Hot(now)
	l.Observe(ledger.Evidence{Ranges: probe.IDs, Now: now})
}

// burned returns a ledger with a million ids burned at random among a hundred million, passed at
// 20,000 ids a second.
func burned(t testing.TB) (*ledger.Ledger, time.Time) {
	rng := rand.New(rand.NewPCG(1, 2))
	l := mustLedger(t, ledger.Options{}, 0)
	now := base
	var page []uint64
	for id := uint64(1); id <= 100_000_000; id++ {
		if rng.IntN(100) > 0 {
			page = append(page, id)
		}
		if id%4000 == 0 && len(page) > 0 {
			now = now.Add(200 * time.Millisecond)
			l.Advance(page[len(page)-1], page, now)
			page = page[:0]
		}
	}
	return l, now
}

// TestMillionsOfGaps compares the memory of a million gaps with its bound: no more when their time
// passes, and a bit an id where they are dense.
func TestMillionsOfGaps(t *testing.T) {
	testall.Long(t)
	const n = 1_000_000
	for name, test := range map[string]struct {
		build func() *ledger.Ledger
		bytes float64
	}{
		"stride 2":                    {func() *ledger.Ledger { return passEveryOther(t, n) }, 0.6e6},
		"at random, one in a hundred": {func() *ledger.Ledger { l, _ := burned(t); return l }, 2.2e6},
	} {
		t.Run(name, func(t *testing.T) {
			l, heap := heapOf(func() *ledger.Ledger {
				l := test.build()
				l.Changed()
				return l
			})
			if s := l.Stats(base); s.Hot+s.Cold < n*9/10 || float64(l.SavedBytes()) > test.bytes {
				t.Fatalf("%+v", s)
			}
			if heap > test.bytes+1e6 {
				t.Errorf("they take %.0f bytes, want %.0f and a MB of noise", heap, test.bytes)
			}
			changed := 0
			_, more := heapOf(func() *ledger.Ledger {
				now := after(48 * time.Hour)
				poll(l, now)
				for r := l.Sweep(now); len(r) > 0; r = l.Sweep(now) {
					l.Swept(ledger.Evidence{Ranges: r, Now: now})
					changed = max(changed, len(l.Changed()))
				}
				return l
			})
			if s := l.Stats(after(48 * time.Hour)); s.Unpolled < n*9/10 || s.Hot+s.Cold > 0 {
				t.Fatalf("%+v", s)
			}
			if more > 1e6 {
				t.Errorf("when the TTL passes they take %.0f bytes more", more)
			}
			if changed > 2000 {
				t.Errorf("one save then writes %d parts", changed)
			}
			runtime.KeepAlive(l)
		})
	}
}

func passEveryOther(t *testing.T, n int) *ledger.Ledger {
	l := mustLedger(t, ledger.Options{}, 0)
	page := make([]uint64, 2000)
	for i := 0; i < n; i += len(page) {
		for j := range page {
			page[j] = 2 * uint64(i+j+1)
		}
		l.Advance(page[len(page)-1], page, after(time.Duration(i)*100*time.Microsecond))
	}
	return l
}
