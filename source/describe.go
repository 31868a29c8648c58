package source

import "context"

// Describer is a Source that says how a table could become a stream. It reads with SELECT and SHOW
// only.
type Describer interface {
	Lister
	Describe(ctx context.Context, table string) (Description, error)
}

// Description is how a table could become a stream: its columns by their roles, as far as types,
// indexes and names tell. A role that no column has is empty.
type Description struct {
	// ID is the column of the increasing id. Numbered says that the database hands ids out.
	ID       string
	Numbered bool
	// Key are the columns of a unique index beside the id, in which none may be NULL.
	Key []string
	// Created and Modified are columns of times. Moves says that the database itself sets Modified
	// at every update, Indexed that an index finds changes by it.
	Created, Modified string
	Moves, Indexed    bool
	// Deleted is a column that may say that a row is deleted, by its name alone.
	Deleted string
}
