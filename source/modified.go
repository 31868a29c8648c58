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
	// Uncommitted includes rows of open transactions, in their uncommitted state. It and Ranges
	// need Traits.Uncommitted.
	Uncommitted bool
}

// Changes is the result of one ReadChanges.
type Changes struct {
	// List is in ascending order of (MODIFIED, id), or of the ids.
	List []Cursor
	// More says that Limit ended the read.
	More bool
	// Now and Server are as in Page.
	Now    time.Time
	Server string
}

// ErrAltered is returned if the values of a query do not have the form of its column, because the
// column was altered since. The next page has the new columns.
var ErrAltered = errors.New("the column was altered")

// ChangeReader reads which rows changed, for the second cursor. Every Shard is one.
type ChangeReader interface {
	// ReadChanges overwrites c with ids and values of MODIFIED, which it reads by an index that
	// begins with MODIFIED. It fails with ErrUnfit if the spec names no MODIFIED column or no index
	// begins with it, and with ErrAltered if the values of the query are of another kind than the
	// column's. It leaves out rows whose MODIFIED is NULL.
	ReadChanges(ctx context.Context, q ChangeQuery, c *Changes) error
}
