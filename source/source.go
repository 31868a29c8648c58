package source

import (
	"context"
	"errors"
	"time"
)

// Errors of a shard that do not heal by trying again: a person has to change the database or the configuration. They
// stop the stream of the shard, not the process. Test with errors.Is; the wrapping error names the object and the remedy.
var (
	// ErrMissing is returned when the database, the table or a column does not exist.
	ErrMissing = errors.New("missing in the source")
	// ErrDenied is returned when the login may not SELECT from the table or the column.
	ErrDenied = errors.New("access to the source denied")
	// ErrUnfit is returned when the table cannot be tailed as configured: the id is not an integer or not unique,
	// CREATED is not a time, say.
	ErrUnfit = errors.New("table unfit for the stream")
)

// Source is a database that holds shards. It is safe for concurrent use.
type Source interface {
	// Shard returns the reader of one table. It touches no network: a table that is missing shows at the first Read.
	Shard(spec Spec) Shard
	// Ready returns nil when the server can be reached and accepts the login.
	Ready(ctx context.Context) error
	// Close releases all connections. No Shard may be used afterwards.
	Close() error
}

// Shard reads one physical table. It is used by one goroutine at a time, not always the same, on behalf of the owner of the shard.
type Shard interface {
	IDReader
	ChangeReader
	// Read fills p with the records that q asks for, in ascending order of their ids, each id once. What p held before
	// is overwritten. On an error p holds nothing that may be used. Errors other than ErrMissing, ErrDenied and
	// ErrUnfit are transient: the caller tries again after a pause, for ever.
	Read(ctx context.Context, q Query, p *Page) error
	// NextID returns the id that the server will give to the next row at the earliest (AUTO_INCREMENT), 0 when the
	// server does not tell. An answer at or below a position means that ids are being used again: the table was
	// truncated, restored or its counter reset.
	NextID(ctx context.Context) (uint64, error)
}

// Glancer is a Shard that can say cheaply that there is nothing new.
type Glancer interface {
	// Glance fills p as a Read of no records would: Columns, Now, MaxID and Server. What p held before is overwritten. It may begin up
	// to wait later, to go together with the glances of other shards. seen is false where only a Read can tell, also that
	// the source is away; the error is that of ctx.
	Glance(ctx context.Context, wait time.Duration, p *Page) (seen bool, err error)
}

// Spec says which table a shard is and which columns play a role. Names are as the server knows them, unquoted.
type Spec struct {
	// Table is the physical table, "table" or "database.table".
	Table string
	// ID is the column of the increasing id: integer, unique, indexed.
	ID string
	// Key names the columns that identify the entity. Empty means the id.
	Key []string
	// UniqueKey says that an entity must be a single row: a table where that is not proved by a unique index over columns of
	// Key that are NOT NULL is unfit.
	UniqueKey bool
	// Created, Modified and Deleted are optional; empty means that the table has no such column.
	Created, Modified, Deleted string
	// Fields names the columns to read besides those above. Nil means all columns of the table.
	Fields []string
}

// MaxKeys is the highest number of tuples in Query.Keys.
const MaxKeys = 1000

// Query asks for one page: ids in (After, Through], or in Ranges, or rows by their Keys, at most Limit records, about MaxBytes of
// values.
type Query struct {
	// After is the id below the first one wanted; 0 reads from the beginning.
	After uint64
	// Through is the last id wanted; 0 means no bound.
	Through uint64
	// Ranges, when not nil, are the ids wanted, in place of After and Through: ascending and disjoint.
	Ranges []Range
	// Keys, when not nil, are the rows wanted, in place of After, Through and Ranges: at most MaxKeys tuples of values in the order
	// of Columns.Key and in the normal form of their columns, nil for NULL. Every row whose key is byte for byte one of them
	// comes; the server may compare more loosely (letter case, trailing spaces), so rows with similar keys may come too, and the
	// caller compares. A tuple that no row of the table can hold finds nothing.
	//
	// The rows are found by the unique index that proves that an entity is a single row: where none does, the table is unfit.
	// A page that Limit or MaxBytes ends (Page.More) says nothing about the tuples that it has no record of: ask for those again.
	// The statement may be split: each part is a moment of its own, Page.Now is before all of them.
	Keys [][][]byte
	// Limit is the highest number of records, at least 1.
	Limit int
	// MaxBytes ends the page after the record that brings its values to this size, so that one record always fits,
	// however big. 0 means no bound.
	MaxBytes int
}
