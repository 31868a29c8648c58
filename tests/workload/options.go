package workload

import (
	"cmp"
	"database/sql"
	"errors"
	"fmt"
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

func (m Mix) shares() []share {
	return []share{
		{rollback, m.Rollback}, {burn, m.Burn}, {multiRow, m.MultiRow},
		{insertSelect, m.InsertSelect}, {replace, m.Replace}, {remove, m.Delete},
	}
}

type share struct {
	kind kind
	of   float64
}

func (o *Options) complete() error {
	o.Table = cmp.Or(o.Table, "orders")
	if o.IDs == nil {
		o.IDs = AutoIncrement{}
	}
	o.Writers = max(o.Writers, 1)
	o.Grace = cmp.Or(o.Grace, defaultGrace)
	sum := 0.0
	for _, s := range o.Mix.shares() {
		if s.of < 0 {
			return fmt.Errorf("the share of %s transactions is %v: want 0 to 1", s.kind, s.of)
		}
		sum += s.of
	}
	switch {
	case o.DB == nil:
		return errors.New("a workload needs a database")
	case sum > 1:
		return fmt.Errorf("the shares of the mix add up to %v: want at most 1", sum)
	case o.Hold.Short < 0 || o.Hold.Long < 0 || o.Hold.LongShare < 0 || o.Hold.LongShare > 1:
		return fmt.Errorf("the hold %+v is negative, or its share above 1", o.Hold)
	case o.Commits < 0 || o.Rate < 0:
		return errors.New("commits and rate must not be negative")
	}
	return nil
}
