package checkpoint

import (
	"cmp"
	"slices"

	"bridge/source"
)

// Union returns the ids of ranges, which may overlap and come in any order, as ascending ranges
// with ids between them.
func Union(ranges ...source.Range) []source.Range {
	sorted := slices.Clone(ranges)
	slices.SortFunc(sorted, func(a, b source.Range) int { return cmp.Compare(a.First, b.First) })
	joined := sorted[:0]
	for _, r := range sorted {
		if n := len(joined); n > 0 && (r.First <= joined[n-1].Last || r.First == joined[n-1].Last+1) {
			joined[n-1].Last = max(joined[n-1].Last, r.Last)
		} else {
			joined = append(joined, r)
		}
	}
	return joined
}

// Without returns the ids of ranges that are not in drop, in the form of Union.
func Without(ranges, drop []source.Range) []source.Range {
	ranges, drop = Union(ranges...), Union(drop...)
	var left []source.Range
	for _, r := range ranges {
		for len(drop) > 0 && drop[0].Last < r.First {
			drop = drop[1:]
		}
		left = without(left, r, drop)
	}
	return left
}

// without appends to left what of r is not in drop, whose ranges ascend.
func without(left []source.Range, r source.Range, drop []source.Range) []source.Range {
	for _, d := range drop {
		if d.First > r.Last {
			break
		}
		if r.First < d.First {
			left = append(left, source.Range{First: r.First, Last: d.First - 1})
		}
		if d.Last >= r.Last {
			return left
		}
		r.First = d.Last + 1
	}
	return append(left, r)
}
