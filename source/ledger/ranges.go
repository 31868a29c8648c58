package ledger

import (
	"slices"
	"sort"

	"bridge/source"
)

// Clip returns the part of ranges up to through, for a read that a limit cut off after the id
// through.
func Clip(ranges []source.Range, through uint64) []source.Range {
	for i, r := range ranges {
		if r.Last > through {
			ranges = slices.Clone(ranges[:i])
			if r.First <= through {
				ranges = append(ranges, source.Range{First: r.First, Last: through})
			}
			return ranges
		}
	}
	return ranges
}

// behind returns the part of ranges above id.
func behind(ranges []source.Range, id uint64) []source.Range {
	for len(ranges) > 0 && ranges[0].Last <= id {
		ranges = ranges[1:]
	}
	if len(ranges) > 0 && ranges[0].First <= id {
		ranges = slices.Clone(ranges)
		ranges[0].First = id + 1
	}
	return ranges
}

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

// join joins ascending ranges that overlap or have at most distance ids between them.
func join(ranges []source.Range, distance uint64) []source.Range {
	kept := ranges[:0]
	for _, r := range ranges {
		if n := len(kept) - 1; n >= 0 && (r.First <= kept[n].Last || r.First-kept[n].Last-1 <= distance) {
			kept[n].Last = max(kept[n].Last, r.Last)
			continue
		}
		kept = append(kept, r)
	}
	return kept
}
