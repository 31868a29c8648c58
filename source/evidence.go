package source

import (
	"context"
	"time"
)

// IDReader reads ids alone, for the gap ledger: what is in flight, and what has turned up among the cold ids. Every Shard is
// one.
type IDReader interface {
	// ReadIDs reads the ids that exist in ranges, which must be ascending and disjoint, into ids; what that held before is
	// overwritten. With uncommitted it also shows rows of transactions that are still open, where Traits says that the
	// server can. At most limit ids are read.
	ReadIDs(ctx context.Context, ranges []Range, uncommitted bool, limit int, ids *IDs) error
	// Traits tells how the server hands out ids and what it can show.
	Traits(ctx context.Context) (Traits, error)
}

// IDs is what one ReadIDs returned.
type IDs struct {
	// List is ascending.
	List []uint64
	// Cut says that limit ended the read: there may be more ids behind the last one.
	Cut bool
	// Now is the database's clock at the start of the statement, in UTC.
	Now time.Time
	// Server identifies the server that answered, as in Page.
	Server string
}

// Traits is what a server and a table are like, as far as gaps are concerned.
type Traits struct {
	// Order is how the server hands out ids, and OrderWhy the observation that says so.
	Order    IDOrder
	OrderWhy string
	// Evidence says that ReadIDs can show the rows of open transactions, and that this server is the one that takes the
	// writes; EvidenceWhy says why, or why not.
	Evidence    bool
	EvidenceWhy string
	// OneWriter says that the database has one writer at a time and no row can appear below one that was read (SQLite).
	OneWriter bool
	// Writer says that what a read by Query.Keys does not find is not there: this server takes the writes, as far as a login
	// with SELECT alone can tell, or waits at such a read for what the others have taken. WriterWhy says why, or why not. An
	// absence that another server shows may be its lag, and must not be judged.
	Writer    bool
	WriterWhy string
	// ModifiedIndexed says that an index begins with the MODIFIED column, so that ReadChanges works.
	ModifiedIndexed bool
	// LockWait is how long a statement may wait for a lock between taking its id and inserting the row; 0 when unknown.
	LockWait time.Duration
}
