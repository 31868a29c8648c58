package sqlite

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"bridge/internal/option"
	"bridge/source"
)

// tableIndex is an index of a table. A column that is an expression has the name "".
type tableIndex struct {
	name            string
	unique, partial bool
	// table says that the index is the table itself, by which it is read NOT INDEXED.
	table      bool
	columns    []string
	collations []string
}

// by returns the clause that keeps the planner to the index.
func (i tableIndex) by() string {
	if i.table {
		return "NOT INDEXED"
	}
	return "INDEXED BY " + quoteName(i.name)
}

// readIndexes returns the indexes of the table; the number of the row (the rowid) is not among
// them.
func (s *shard) readIndexes(ctx context.Context, c *session, table tableInfo) ([]tableIndex, error) {
	const query = `SELECT l.name AS "index", l.origin AS origin, l."unique" AS uniq, l.partial AS partial, x.name AS "column", x.coll AS coll
		FROM pragma_index_list(?1, 'main') AS l, pragma_index_xinfo(l.name, 'main') AS x WHERE x.key ORDER BY l.seq, x.seqno`
	var indexes []tableIndex
	err := c.query(ctx, query, func(get func(string) string) {
		if name := get("index"); len(indexes) == 0 || name != indexes[len(indexes)-1].name {
			indexes = append(indexes, tableIndex{
				name: name, unique: get("uniq") == "1", partial: get("partial") == "1",
				table: get("origin") == "pk" && table.withoutRowID,
			})
		}
		index := &indexes[len(indexes)-1]
		index.columns = append(index.columns, get("column"))
		index.collations = append(index.collations, get("coll"))
	}, table.name)
	return indexes, err
}

// keyIndex returns the index that proves that the key columns identify single rows, or says why
// none does: a unique index whose columns are all key columns proves it, best one whose columns
// are NOT NULL: see nullKey. Without KEY it is that of the id.
func (s *shard) keyIndex(indexes []tableIndex, table tableInfo) (proof tableIndex, fault string) {
	key := s.spec.Key
	if len(key) == 0 {
		key = []string{s.spec.ID}
	}
	inKey := func(name string) bool {
		return slices.ContainsFunc(key, func(key string) bool { return upper(key) == upper(name) })
	}
	// The number of the row is never NULL, and an index of its own.
	if alias := table.primaryKey(); alias != nil && upper(alias.declared) == "INTEGER" && inKey(alias.name) && !table.withoutRowID {
		return tableIndex{table: true, columns: []string{alias.name}, collations: []string{"BINARY"}}, ""
	}
	fault = "no unique index"
	var loose tableIndex
	for _, index := range indexes {
		if !index.unique || index.partial || !all(index.columns, inKey) {
			continue
		}
		switch {
		case !all(index.collations, isKnownCollation):
			fault = "a unique index with a collation of the application's own, by which nobody else can read"
		case len(index.nullKey(table)) > 0:
			loose = index
		default:
			return index, ""
		}
	}
	if loose.name != "" {
		return loose, ""
	}
	return tableIndex{}, fault
}

// nullKey returns the columns of the proof that may be NULL. A row that has NULL in one of them is
// no single row of its key.
func (i tableIndex) nullKey(table tableInfo) (names []string) {
	if i.table {
		return nil
	}
	for _, name := range i.columns {
		at := find(table.columns, name)
		if at < 0 {
			// An expression, which may be anything.
			continue
		}
		if c := table.columns[at]; !c.notNull && !(table.withoutRowID && c.primary) {
			names = append(names, c.name)
		}
	}
	return names
}

// isKnownCollation reports whether every SQLite has the collation.
func isKnownCollation(name string) bool {
	return slices.Contains([]string{"BINARY", "NOCASE", "RTRIM"}, upper(name))
}

func all(names []string, holds func(string) bool) bool {
	return !slices.ContainsFunc(names, func(name string) bool { return !holds(name) })
}

// checkKey refuses a key that does not identify single rows where it must.
func (s *shard) checkKey(indexes []tableIndex, table tableInfo) error {
	if !s.spec.UniqueKey || len(s.spec.Key) == 0 {
		return nil
	}
	for _, key := range s.spec.Key {
		if column := table.columns[find(table.columns, key)]; s.form(column).kind == source.Float {
			return option.Errorf("%w: the KEY column %q of %s is %s, an approximate number, which identifies nothing: name other columns with %s",
				source.ErrUnfit, column.name, s.spec.Table, column.declared, option.Key)
		}
	}
	if _, fault := s.keyIndex(indexes, table); fault != "" {
		return fmt.Errorf("%w: the KEY (%s) of %s has %s: an entity must be a single row; let the application declare the columns NOT NULL and run: %s",
			source.ErrUnfit, strings.Join(s.spec.Key, ", "), s.spec.Table, fault, s.createUnique(s.spec.Key...))
	}
	return nil
}

// createUnique returns the statement that makes columns unique.
func (s *shard) createUnique(columns ...string) string {
	quoted := make([]string, len(columns))
	for i, column := range columns {
		quoted[i] = quoteName(column)
	}
	// Another index may have the plain name.
	name := quoteName(s.table.table + "_" + strings.Join(columns, "_") + "_unique")
	return "CREATE UNIQUE INDEX " + name + " ON " + quoteName(s.table.table) + " (" + strings.Join(quoted, ", ") + ");"
}
