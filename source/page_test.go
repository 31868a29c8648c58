package source_test

import (
	"bytes"
	"fmt"
	"testing"

	"bridge/source"
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
