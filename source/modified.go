package source

import (
	"context"
	"errors"
	"time"
)

// Cursor is a position in the order of (MODIFIED, id). The zero value is before everything.
type Cursor struct {
	// Modified is the value of the MODIFIED column in its normal form.
	Modified string
	// ID is the id of the row.
	ID uint64
}

// ChangeQuery asks for the rows after After in the order of (MODIFIED, id) whose MODIFIED is at
// most Through.
type ChangeQuery struct {
	After Cursor
	// Through is a value of the MODIFIED column in its normal form, empty for no bound.
	Through string
	// Limit is the highest number of rows, at least 1.
	Limit int
	// Ranges, when not nil, are the ids whose rows are wanted, in place of After and Through:
	// ascending and disjoint. They come in ascending order of their ids.
	Ranges []Range
	// Uncommitted shows the rows of open transactions as they are there. It and Ranges need
	// Traits.Uncommitted.
	Uncommitted bool
}

// Changes is what one ReadChanges returned.
type Changes struct {
	// List is in ascending order of (MODIFIED, id), or of the ids.
	List []Cursor
	// More says that Limit ended the read.
	More bool
	// Now and Server are as in Page.
	Now    time.Time
	Server string
}

// ErrAltered is returned for a query whose values do not have the form of its column: that was
// altered since. What the next page says of the columns is right.
var ErrAltered = errors.New("the column was altered")

// ChangeReader reads where rows changed, for the second cursor. Every Shard is one.
type ChangeReader interface {
	// ReadChanges reads ids and MODIFIED alone, by the index that MODIFIED leads, into c; what that
	// held before is overwritten. It fails with ErrUnfit when the spec names no MODIFIED column or
	// no index begins with it, and with ErrAltered when the query has values of another kind than
	// the column's. Rows whose MODIFIED is NULL are left out.
	ReadChanges(ctx context.Context, q ChangeQuery, c *Changes) error
}
