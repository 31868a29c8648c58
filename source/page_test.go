package source_test

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"example.org/bridge/source"
)

// fill gives p rows of three columns, the second of which is size bytes and the third NULL.
func fill(p *source.Page, rows, size int) {
	p.Reset()
	for id := range rows {
		p.Append(uint64(id), 3)
		p.Set(0, fmt.Appendf(nil, "%d", id))
		p.Set(1, bytes.Repeat([]byte{byte(id)}, size))
	}
}

func expectFilled(t *testing.T, p *source.Page, rows, size int) {
	t.Helper()
	if len(p.Rows) != rows {
		t.Fatalf("%d rows, want %d", len(p.Rows), rows)
	}
	for id, row := range p.Rows {
		want := fmt.Sprintf("%d", id)
		if got := row.Values; row.ID != uint64(id) || string(got[0]) != want || !bytes.Equal(got[1], bytes.Repeat([]byte{byte(id)}, size)) || got[2] != nil {
			t.Fatalf("row %d is %d %q", id, row.ID, row.Values)
		}
	}
}

func TestAPageHasTheValuesThatWereSet(t *testing.T) {
	var p source.Page
	for _, c := range []struct{ rows, size int }{{1, 10}, {3000, 200}, {5, 1 << 20}, {20_000, 3}, {0, 0}, {3000, 200}, {40, 300_000}, {100, 1}} {
		fill(&p, c.rows, c.size)
		expectFilled(t, &p, c.rows, c.size)
	}
}

func TestPageKeepsMemoryOfOrdinarySize(t *testing.T) {
	var p source.Page
	value := bytes.Repeat([]byte("v"), 300)
	read := func(rows int) func() {
		return func() {
			p.Reset()
			for id := range rows {
				p.Append(uint64(id), 4)
				for i := range 3 {
					p.Set(i, value)
				}
			}
		}
	}
	read(5000)()
	// 4.5 MB of values are a little more than is kept.
	for _, rows := range []int{5000, 5} {
		if n := testing.AllocsPerRun(10, read(rows)); n > 5 {
			t.Errorf("%g allocations for a page of %d rows after one of 5,000", n, rows)
		}
	}
}

func TestRangesAtTheBounds(t *testing.T) {
	const last = math.MaxUint64
	ends := source.RangesOf([]uint64{0, 1, last - 1, last})
	if want := []source.Range{{Last: 1}, {First: last - 1, Last: last}}; !slices.Equal(ends, want) {
		t.Fatalf("%v, want %v", ends, want)
	}
	if got := source.RangesOf(nil); got != nil {
		t.Errorf("of no ids: %v", got)
	}
	if got := source.RangesAbove(ends, last); len(got) > 0 {
		t.Errorf("above the last id: %v", got)
	}
	if got := source.RangesThrough(ends, last); !slices.Equal(got, ends) {
		t.Errorf("through the last id: %v", got)
	}
	if got := source.RangesThrough(ends[1:], 0); len(got) > 0 {
		t.Errorf("through id 0: %v", got)
	}
	if got := source.JoinRanges(slices.Clone(ends), last-4); len(got) != 2 {
		t.Errorf("%d ids lie between %v", uint64(last-3), got)
	}
	if got := source.JoinRanges(slices.Clone(ends), last-3); len(got) != 1 {
		t.Errorf("no more than %d ids lie between %v", uint64(last-3), got)
	}
	nested := []source.Range{{First: 1, Last: 9}, {First: 2, Last: 3}, {First: 10, Last: 11}}
	if got := source.JoinRanges(nested, 0); !slices.Equal(got, []source.Range{{First: 1, Last: 11}}) {
		t.Errorf("ranges that overlap and touch: %v", got)
	}
}

// TestRanges compares ranges with the ids in them.
func TestRanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOf(rapid.Uint64Range(0, 40)).Draw(t, "ids")
		slices.Sort(ids)
		at := rapid.Uint64Range(0, 41).Draw(t, "at")
		between := rapid.Uint64Range(0, 5).Draw(t, "between")
		ranges := source.RangesOf(ids)
		before := slices.Clone(ranges)
		ids = slices.Compact(ids)
		expect := func(what string, ranges []source.Range, apart uint64, has func(id uint64) bool) {
			for i := 1; i < len(ranges); i++ {
				if ranges[i-1].Last+apart >= ranges[i].First {
					t.Errorf("%s: %v are too close", what, ranges)
				}
			}
			for id := range uint64(50) {
				if in := slices.ContainsFunc(ranges, func(r source.Range) bool { return r.Has(id) }); in != has(id) {
					t.Errorf("%s: %d is in %v: %v", what, id, ranges, in)
				}
			}
		}
		has := func(id uint64) bool { return slices.Contains(ids, id) }
		expect("of ids", ranges, 1, has)
		expect("above", source.RangesAbove(ranges, at), 1, func(id uint64) bool { return id > at && has(id) })
		expect("through", source.RangesThrough(ranges, at), 1, func(id uint64) bool { return id <= at && has(id) })
		if !slices.Equal(ranges, before) {
			t.Errorf("%v have become %v", before, ranges)
		}
		expect("joined", source.JoinRanges(ranges, between), between+1, func(id uint64) bool {
			i, found := slices.BinarySearch(ids, id)
			return found || i > 0 && i < len(ids) && ids[i]-ids[i-1]-1 <= between
		})
	})
}
