package sqltable

import (
	"cmp"
	"slices"
	"strings"

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

// usable reports whether rows can be read by the index.
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

// within reports whether all columns of an index are among key, and which of them may be NULL.
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
	columns = &source.Columns{NameCase: t.NameCase}
	for i, column := range t.Columns {
		if wanted[i] {
			columns.List, from = append(columns.List, column.Column), append(from, i)
		}
	}
	at := func(name string) int { return slices.Index(from, t.At(name)) }
	columns.SetRoles(spec, at)
	columns.CreatedMoves = spec.Created != "" && t.Columns[t.At(spec.Created)].Moves
	if spec.UniqueKey && len(spec.Key) > 0 {
		_, nulls := t.Proof(spec.Key)
		for _, name := range nulls {
			columns.NullKey = append(columns.NullKey, at(name))
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
