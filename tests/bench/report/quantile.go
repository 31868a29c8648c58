package report

import (
	"math"
	"slices"
)

// Median returns the middle of values, the mean of the two in the middle of an even number, 0 of
// none.
func Median(values []float64) float64 {
	n := len(values)
	if n == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	if n%2 == 1 {
		return sorted[n/2]
	}
	return (sorted[n/2-1] + sorted[n/2]) / 2
}

// RowsForP999 is of how many rows the latency that one of a thousand exceeds is shown: ten are
// above it then. Of fewer it is chance.
const RowsForP999 = 10_000

// Percentile returns the smallest of ascending values that so many percent of them do not exceed
// (nearest rank), 0 of none.
func Percentile(ascending []float64, percent float64) float64 {
	if len(ascending) == 0 {
		return 0
	}
	// The product of 99.9 and 1000 is a little more than 99900.
	rank := int(math.Ceil(percent*float64(len(ascending))/100 - 1e-9))
	return ascending[min(max(rank, 1), len(ascending))-1]
}
