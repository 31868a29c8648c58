package sqltable

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"example.org/bridge/client/backoff"
	"example.org/bridge/source"
)

// Table is a table as its database describes it.
type Table struct {
	Columns []Column
	// Indexes has the primary key first. An index that holds only some of the rows is left out.
	Indexes []Index
	// How the database compares names.
	source.NameCase
}

// Column is one column of a table.
type Column struct {
	// The form of its values, without a mask.
	source.Column
	// Type is as the database writes it. Collation is empty for a column without a character set.
	Type, Collation string
	Nullable        bool
	// Hidden says that `SELECT *` leaves it out, Numbered that the database numbers rows by it,
	// Moves that every update of a row sets it.
	Hidden, Numbered, Moves bool
}

// Index is one index of a table.
type Index struct {
	// Name is empty where the table is its own index.
	Name   string
	Unique bool
	// Ignored says that the database is told to ignore the index, Unordered that it finds single
	// values only, Foreign that its collation belongs to the application: only its process can read
	// by such an index.
	Ignored, Unordered, Foreign bool
	Columns                     []IndexColumn
}

// IndexColumn is one part of an index. Its name is empty for an expression; a prefix has no order
// of the whole column.
type IndexColumn struct {
	Name, Collation string
	Prefix          bool
}

func (i *Index) usable() bool { return !i.Ignored && !i.Unordered && !i.Foreign }

// Usable returns the name of the index, "" where no rows can be read by it.
func (i *Index) Usable() string {
	if i.usable() {
		return i.Name
	}
	return ""
}

// At returns the index of a column in Columns, -1 if there is none.
func (t *Table) At(name string) int {
	return slices.IndexFunc(t.Columns, func(c Column) bool { return t.Same(c.Name, name) })
}

// Column returns a column by its name.
func (t *Table) Column(name string) (c Column, ok bool) {
	if at := t.At(name); at >= 0 {
		return t.Columns[at], true
	}
	return c, false
}

// Names returns the names of the columns, for a person.
func (t *Table) Names() string {
	names := make([]string, len(t.Columns))
	for i, column := range t.Columns {
		names[i] = column.Name
	}
	return strings.Join(names, ", ")
}

// Unique returns the index that proves that a column is unique by itself, nil where none does. The
// primary key comes first.
func (t *Table) Unique(column string) *Index {
	at := slices.IndexFunc(t.Indexes, func(i Index) bool {
		return i.Unique && !i.Ignored && len(i.Columns) == 1 && !i.Columns[0].Prefix && t.Same(i.Columns[0].Name, column)
	})
	if at < 0 {
		return nil
	}
	return &t.Indexes[at]
}

// Proof returns the index that proves that the key columns identify single rows, nil where none
// does: a unique index whose columns are all key columns proves it. One that can be read by comes
// first, and before all one whose columns are NOT NULL. nulls are the columns of the proof that may
// be NULL: a row that has NULL there is no single row of its key.
func (t *Table) Proof(key []string) (proof *Index, nulls []string) {
	rank := func(i *Index, nulls []string) (r int) {
		if len(nulls) == 0 {
			r += 2
		}
		if i.usable() {
			r++
		}
		return r
	}
	for n := range t.Indexes {
		index := &t.Indexes[n]
		null, covered := t.within(index, key)
		if index.Unique && !index.Foreign && covered && (proof == nil || rank(index, null) > rank(proof, nulls)) {
			proof, nulls = index, null
		}
	}
	return proof, nulls
}

func (t *Table) within(index *Index, key []string) (nulls []string, covered bool) {
	for _, part := range index.Columns {
		column, ok := t.Column(part.Name)
		if !ok || !slices.ContainsFunc(key, func(k string) bool { return t.Same(k, part.Name) }) {
			return nil, false
		}
		if column.Nullable {
			nulls = append(nulls, column.Name)
		}
	}
	return nulls, true
}

// Modified returns the index that MODIFIED leads, nil if there is none: best one in the order of
// (MODIFIED, id). That is one where the id comes next, or where nothing does and the id is the
// primary key, with which every other index ends.
func (t *Table) Modified(spec source.Spec) (found *Index) {
	if spec.Modified == "" {
		return nil
	}
	id := t.Unique(spec.ID)
	ends := id != nil && (id.Name == "" || id.Name == "PRIMARY")
	for n := range t.Indexes {
		index := &t.Indexes[n]
		first := index.Columns[0]
		if !index.usable() || first.Prefix || !t.Same(first.Name, spec.Modified) {
			continue
		}
		if len(index.Columns) == 1 && ends || len(index.Columns) > 1 && t.Same(index.Columns[1].Name, spec.ID) {
			return index
		}
		found = cmp.Or(found, index)
	}
	return found
}

// Pick returns the columns that spec reads, in the order of the table, and where each is among
// those of the table. All that spec names must be there.
func (t *Table) Pick(spec source.Spec) (columns *source.Columns, from []int) {
	wanted := make([]bool, len(t.Columns))
	for i, column := range t.Columns {
		wanted[i] = spec.Reads(column.Name, t.NameCase) && !column.Hidden
	}
	for _, r := range spec.Roles() {
		wanted[t.At(r.Column)] = true
	}
	columns = &source.Columns{NameCase: t.NameCase, IDFormat: spec.IDFormat}
	for i, column := range t.Columns {
		if wanted[i] {
			columns.List, from = append(columns.List, column.Column), append(from, i)
		}
	}
	at := func(name string) int {
		if name == "" {
			return -1
		}
		return slices.Index(from, t.At(name))
	}
	columns.ID, columns.Created, columns.Modified, columns.Deleted = at(spec.ID), at(spec.Created), at(spec.Modified), at(spec.Deleted)
	for _, key := range spec.Key {
		columns.Key = append(columns.Key, at(key))
	}
	if len(columns.Key) == 0 {
		columns.Key = []int{columns.ID}
	}
	columns.CreatedMoves = spec.Created != "" && t.Columns[t.At(spec.Created)].Moves
	if proof, _ := t.Proof(spec.Key); spec.UniqueKey && len(spec.Key) > 0 && proof != nil {
		for _, part := range proof.Columns {
			columns.NullKey = append(columns.NullKey, at(part.Name))
		}
	}
	return columns, from
}

// Name is a table with its database, which is empty where none is known.
type Name struct{ Database, Table string }

// ParseName reads the Table of a spec, whose database may be left out.
func ParseName(name, database string) Name {
	if own, table, ok := strings.Cut(name, "."); ok {
		return Name{own, table}
	}
	return Name{database, name}
}

// SQL returns the name as SQL.
func (n Name) SQL(quote string) string {
	if n.Database == "" {
		return Quote(quote, n.Table)
	}
	return Quote(quote, n.Database) + "." + Quote(quote, n.Table)
}

// Quote returns a list of names as SQL, each between two quotes.
func Quote(quote string, names ...string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = quote + strings.ReplaceAll(name, quote, quote+quote) + quote
	}
	return strings.Join(quoted, ", ")
}

// Pool is connections with one state of their sessions. It is safe for concurrent use.
type Pool struct {
	*sql.DB
	// Explain adds to the error of a connect what a person has to know.
	Explain func(error) error
	// slots bounds the statements that wait for one another.
	slots atomic.Pointer[chan struct{}]
}

// Resize has the pool keep so many connections for statements that Acquire lets pass, and others
// beside them. Connections above that are closed as their statements end.
func (p *Pool) Resize(readers, others int) {
	slots := make(chan struct{}, readers)
	p.slots.Store(&slots)
	p.SetMaxOpenConns(readers + others)
	p.SetMaxIdleConns(readers + others)
}

// Acquire waits until a statement may begin. No statement begins another one before its release, so
// that a pool of one connection serves all.
func (p *Pool) Acquire(ctx context.Context) (release func(), err error) {
	return backoff.Acquire(ctx, *p.slots.Load())
}

// Use runs fn on a connection of the driver, and closes that if fn fails, for there may be anything
// on the wire, unless it is unbroken by the error. What the end of ctx has broken is an error with
// the cause of that.
func (p *Pool) Use(ctx context.Context, unbroken func(error) bool, fn func(raw any) error) error {
	pooled, err := p.Conn(ctx)
	if err != nil {
		return Cause(ctx, p.Explain(err))
	}
	// Raw has told the pool already what to do with the connection.
	defer func() { _ = pooled.Close() }()
	var failed error
	err = pooled.Raw(func(raw any) error {
		if failed = fn(raw); failed != nil && !unbroken(failed) {
			return driver.ErrBadConn
		}
		return nil
	})
	switch {
	case failed == nil:
		return err
	case unbroken(failed):
		return failed
	}
	return Cause(ctx, failed)
}

// Cause replaces an error that the end of ctx caused by its cause.
func Cause(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	return context.Cause(ctx)
}

// Query runs a small query and calls each for every row with a function that returns the value of a
// column by its name; NULL and columns that the answer does not have are "". Without each the rows
// are thrown away.
func Query(ctx context.Context, c driver.QueryerContext, query string, each func(get func(name string) string), args ...string) (err error) {
	values := make([]driver.NamedValue, len(args))
	for i, arg := range args {
		values[i] = driver.NamedValue{Ordinal: i + 1, Value: arg}
	}
	rows, err := c.QueryContext(ctx, query, values)
	if err != nil {
		return err
	}
	columns := rows.Columns()
	row := make([]driver.Value, len(columns))
	get := func(name string) string {
		for i, column := range columns {
			if column == name {
				return Text(row[i])
			}
		}
		return ""
	}
	_, err = Scan(ctx, rows, row, func() (bool, error) {
		if each != nil {
			each(get)
		}
		return false, nil
	})
	return Close(rows, err)
}

// Scan calls take for every row of a result, as row has it, until take has enough. It looks at ctx,
// which drivers may heed up to the first row only.
func Scan(ctx context.Context, rows driver.Rows, row []driver.Value, take func() (enough bool, err error)) (enough bool, err error) {
	for !enough && err == nil {
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		switch err := rows.Next(row); {
		case errors.Is(err, io.EOF):
			return false, nil
		case err != nil:
			return false, err
		}
		enough, err = take()
	}
	return enough, err
}

// Close closes a result that was read up to err, which Close repeats.
func Close(rows driver.Rows, err error) error {
	if closed := rows.Close(); err == nil {
		return closed
	}
	return err
}

// Text returns v as text, "" for NULL.
func Text(v driver.Value) string {
	switch v := v.(type) {
	case nil:
		return ""
	case []byte:
		return string(v)
	default:
		return fmt.Sprint(v)
	}
}

// IDLiteral returns a value of an id with a format as SQL. Nothing in a value that has it can leave
// the literal.
func IDLiteral(ids source.IDColumn, v []byte) string {
	if ids.Binary {
		return "x'" + hex.EncodeToString(v) + "'"
	}
	return "'" + string(v) + "'"
}

// Lowest and Highest return the first and the last value that has a number as SQL.
func Lowest(ids source.IDColumn, n uint64) string {
	if ids.Format == "" {
		return strconv.FormatUint(n, 10)
	}
	return IDLiteral(ids, ids.Lowest(n))
}

func Highest(ids source.IDColumn, n uint64) string {
	if ids.Format == "" {
		return strconv.FormatUint(n, 10)
	}
	return IDLiteral(ids, ids.Highest(n))
}

// AppendFloat appends v, which is finite, as encoding/json does: the shortest digits that read back
// as the same number of that many bits, with an exponent only for very large and very small
// numbers.
func AppendFloat(b []byte, v float64, bits int) []byte {
	format := byte('f')
	if abs := math.Abs(v); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	return strconv.AppendFloat(b, v, format, -1, bits)
}
