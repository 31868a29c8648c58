package workload

import (
	"database/sql"
	"math/rand/v2"
	"time"
)

// Options describe a workload.
type Options struct {
	// DB is the application's pool. It should keep as many idle connections as there are writers,
	// for SQLite with a busy timeout.
	DB *sql.DB
	// Dialect defaults to MySQL.
	Dialect Dialect
	// Table is the table to write to, the stem of the tables' names for Ordered. Defaults to
	// "orders".
	Table string
	// IDs is where ids come from. Defaults to AutoIncrement.
	IDs IDs
	// Writers is how many transactions are open at the same time, at most. Defaults to 1.
	Writers int
	// Commits is how many transactions to commit; Run returns after them. 0 goes on until the
	// context ends.
	Commits int
	// Rate is how many transactions are begun in a second, at most, by all writers together. 0 is
	// no limit.
	Rate float64
	// Seed determines what each writer does, though not how the writers interleave. It is part of
	// entities and tokens: two workloads over one table need different seeds.
	Seed uint64
	// Grace is how long a statement under way may take once the context of a run has ended.
	// Defaults to 3 s.
	Grace time.Duration
	// Hold is how long transactions stay open.
	Hold Hold
	// Mix is what transactions do. The zero value inserts one row each.
	Mix Mix
}

// Hold is how long a transaction stays open behind its last statement.
type Hold struct {
	// Short bounds the hold of an ordinary transaction, which is uniform from 0. 0 does not hold.
	Short time.Duration
	// Long bounds the hold of a long one, uniform from 0, LongShare is the share of these, 0 to 1.
	Long      time.Duration
	LongShare float64
}

// Mix holds the shares of transactions, each from 0 to 1, together at most 1; the rest inserts one
// row and commits.
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
