package source

import (
	"slices"
	"sort"
)

// RangesOf returns ascending ids, of which some may repeat, as the fewest ranges, ascending and
// disjoint; nil where there are no ids.
func RangesOf(ids []uint64) []Range {
	ranges := slices.Grow([]Range(nil), len(ids))
	for _, id := range ids {
		if n := len(ranges) - 1; n >= 0 && id-ranges[n].Last <= 1 {
			ranges[n].Last = id
			continue
		}
		ranges = append(ranges, Range{First: id, Last: id})
	}
	return ranges
}

// RangesAbove returns the part of ascending, disjoint ranges above id. It does not change ranges,
// and shares their memory unless id divides one of them.
func RangesAbove(ranges []Range, id uint64) []Range {
	ranges = ranges[sort.Search(len(ranges), func(i int) bool { return ranges[i].Last > id }):]
	if len(ranges) > 0 && ranges[0].First <= id {
		ranges = slices.Clone(ranges)
		ranges[0].First = id + 1
	}
	return ranges
}

// RangesThrough returns the part of ascending, disjoint ranges up to id: what a read has covered
// that a limit cut off after id. It does not change ranges, and shares their memory unless id
// divides one of them.
func RangesThrough(ranges []Range, id uint64) []Range {
	ranges = ranges[:sort.Search(len(ranges), func(i int) bool { return ranges[i].First > id })]
	if n := len(ranges) - 1; n >= 0 && ranges[n].Last > id {
		ranges = slices.Clone(ranges)
		ranges[n].Last = id
	}
	return ranges
}

// JoinRanges joins ranges in the order of their First that overlap or have at most between ids
// between them. It overwrites ranges.
func JoinRanges(ranges []Range, between uint64) []Range {
	joined := ranges[:0]
	for _, r := range ranges {
		if n := len(joined) - 1; n >= 0 && (r.First <= joined[n].Last || r.First-joined[n].Last-1 <= between) {
			joined[n].Last = max(joined[n].Last, r.Last)
			continue
		}
		joined = append(joined, r)
	}
	return joined
}
