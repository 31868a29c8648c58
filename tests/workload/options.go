package workload

import (
	"database/sql"
	"math/rand/v2"
	"time"
)

// Dialect is the SQL of the database.
type Dialect int

// The dialects.
const (
	MySQL Dialect = iota
	SQLite
)

// Options describe a workload of rows, in the table orders.
type Options struct {
	// DB is the application's pool, which should keep an idle connection for each writer.
	DB      *sql.DB
	Dialect Dialect
	// IDs is where ids come from. Defaults to AutoIncrement.
	IDs IDs
	// Writers is how many transactions are open at the same time, at most. Defaults to 1.
	Writers int
	// Commits is how many transactions to commit; 0 goes on until the context ends.
	Commits int
	// Rate is how many transactions are begun in a second, at most; 0 is no limit.
	Rate float64
	// Seed determines what each writer does. It is part of entities and tokens.
	Seed uint64
	// Hold is how long transactions stay open.
	Hold Hold
	// Mix is what transactions do. The zero value inserts one row each.
	Mix Mix
}

// Hold is how long a transaction stays open behind its last statement: uniformly from 0 up to
// Short, or up to Long for a share of them, 0 to 1.
type Hold struct {
	Short, Long time.Duration
	LongShare   float64
}

// Mix holds the shares of transactions, together at most 1; the rest inserts one row and commits.
type Mix struct {
	// Rollback inserts one row and rolls back.
	Rollback float64
	// Burn runs an INSERT that fails with a duplicate key, which uses up an id.
	Burn float64
	// MultiRow is an INSERT of several rows, InsertSelect an INSERT … SELECT of several.
	MultiRow, InsertSelect float64
	// Replace is a REPLACE over an earlier row of the writer, Delete a DELETE of one.
	Replace, Delete float64
}

// choose draws what a transaction does.
func (m Mix) choose(rng *rand.Rand) kind {
	which := rng.Float64()
	for _, share := range []struct {
		kind kind
		of   float64
	}{{rollback, m.Rollback}, {burn, m.Burn}, {multiRow, m.MultiRow}, {insertSelect, m.InsertSelect}, {replace, m.Replace}, {remove, m.Delete}} {
		if which -= share.of; which < 0 {
			return share.kind
		}
	}
	return insert
}

// choose draws how long a transaction stays open.
func (h Hold) choose(rng *rand.Rand) time.Duration {
	bound := h.Short
	if rng.Float64() < h.LongShare {
		bound = h.Long
	}
	return time.Duration(rng.Float64() * float64(bound))
}
