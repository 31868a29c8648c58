package source

import (
	"context"
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

// IDs is the result of one ReadIDs.
type IDs struct {
	// List is ascending.
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
	// ModifiedIndexed says that an index begins with the MODIFIED column, so that ReadChanges
	// works.
	ModifiedIndexed bool
	// LockWait is how long a statement may wait for a lock between allocating its id and inserting
	// the row; 0 if unknown.
	LockWait time.Duration
}

// IDOrder says how ids are allocated.
type IDOrder string

// The orders of ids.
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
