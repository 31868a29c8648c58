package source

import (
	"context"
	"slices"
	"sort"
	"time"
)

// IDReader reads ids without rows, for the gap ledger: to find out which missing ids are pending,
// and which cold ids have appeared. Every Shard is one.
type IDReader interface {
	// ReadIDs overwrites ids with the ids that exist in ranges, which must be ascending and
	// disjoint. If uncommitted is set, they include the rows of open transactions; see
	// Traits.Uncommitted. It reads at most limit ids.
	ReadIDs(ctx context.Context, ranges []Range, uncommitted bool, limit int, ids *IDs) error
	// Traits returns how the server allocates ids and which rows it shows.
	Traits(ctx context.Context) (Traits, error)
}

type IDs struct {
	List []uint64
	// Cut says that limit ended the read: there may be more ids after the last one.
	Cut bool
	// Now is the database's clock at the start of the statement, in UTC.
	Now time.Time
	// Server identifies the server that answered, as in Page.
	Server string
}

// Traits are the properties of a server and a table that matter for gaps.
type Traits struct {
	// Server is the server that the traits hold for, as in Page; empty if several have answered.
	Server string
	// Order is how the server allocates ids. OrderWhy is the observation that proves it.
	Order    IDOrder
	OrderWhy string
	// Evidence says that ReadIDs shows all rows of open transactions, and that this server takes
	// the writes. EvidenceWhy says why, or why not.
	Evidence    bool
	EvidenceWhy string
	// Uncommitted says that ReadIDs shows rows of open transactions, but perhaps not all. An id
	// that it shows is pending. An id that it does not show is vacant only if Evidence is set, too.
	Uncommitted bool
	// Writer says that a row which a read by Query.Keys does not find is absent: this server takes
	// the writes, as far as a login with SELECT alone can see, or such a read waits for the writes
	// of other servers. WriterWhy says why, or why not. On a server that lags, the row may exist
	// elsewhere.
	Writer    bool
	WriterWhy string
	// LockWait is how long a statement may wait for a lock between allocating its id and inserting
	// the row; 0 if unknown.
	LockWait time.Duration
}

// IDOrder says how ids are allocated.
type IDOrder string

const (
	// OrderStrict: one counter.
	OrderStrict IDOrder = "strict"
	// OrderStrided: the counters of several nodes interleave.
	OrderStrided IDOrder = "strided"
	// OrderSegmented: writers hold blocks of ids and use them up at their own pace.
	OrderSegmented IDOrder = "segmented"
	// OrderNone: no order, so no tail and no ledger.
	OrderNone IDOrder = "none"
)

// RangesOf returns ascending ids, of which some may repeat, as the fewest ranges, ascending and
// disjoint; nil where there are no ids.
func RangesOf(ids []uint64) (ranges []Range) {
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
