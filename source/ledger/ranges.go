package ledger

import (
	"sort"

	"bridge/source"
)

// split calls yield for the parts of r, in ascending order, that lie inside and outside of the
// ascending, disjoint ranges.
func split(r source.Range, by []source.Range, yield func(part source.Range, inside bool)) {
	i := sort.Search(len(by), func(i int) bool { return by[i].Last >= r.First })
	for ; i < len(by) && by[i].First <= r.Last; i++ {
		if by[i].First > r.First {
			yield(source.Range{First: r.First, Last: by[i].First - 1}, false)
			r.First = by[i].First
		}
		if by[i].Last >= r.Last {
			yield(r, true)
			return
		}
		yield(source.Range{First: r.First, Last: by[i].Last}, true)
		r.First = by[i].Last + 1
	}
	yield(r, false)
}

// outside returns the parts of ranges that lie outside of the ascending, disjoint ranges by.
func outside(dst, ranges, by []source.Range) []source.Range {
	for _, r := range ranges {
		split(r, by, func(part source.Range, inside bool) {
			if !inside {
				dst = append(dst, part)
			}
		})
	}
	return dst
}

// seek returns the index of the first of the ascending ids, at or after i, that is at or above id.
func seek(ids []uint64, i int, id uint64) int {
	step := 1
	for i+step < len(ids) && ids[i+step] < id {
		i += step
		step *= 2
	}
	end := min(i+step+1, len(ids))
	return i + sort.Search(end-i, func(j int) bool { return ids[i+j] >= id })
}
