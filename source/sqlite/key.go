package sqlite

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"bridge/source"
)

// tableIndex is an index of a table. A column that is an expression has the name "".
type tableIndex struct {
	unique, partial bool
	columns         []string
}

// readIndexes returns the indexes of the table; the table itself, where it is the index of its primary key, is not among them.
func (s *shard) readIndexes(ctx context.Context, c *session, table tableInfo) ([]tableIndex, error) {
	const query = `SELECT l.name AS "index", l."unique" AS uniq, l.partial AS partial, x.name AS "column"
		FROM pragma_index_list(?1, 'main') AS l, pragma_index_xinfo(l.name, 'main') AS x WHERE x.key ORDER BY l.seq, x.seqno`
	var indexes []tableIndex
	last := ""
	err := c.query(ctx, query, func(get func(string) string) {
		if name := get("index"); len(indexes) == 0 || name != last {
			indexes = append(indexes, tableIndex{unique: get("uniq") == "1", partial: get("partial") == "1"})
			last = name
		}
		index := &indexes[len(indexes)-1]
		index.columns = append(index.columns, get("column"))
	}, table.name)
	return indexes, err
}

// keyFault says why the key columns do not identify single rows where they must, "" when they do: a unique index whose
// columns are all key columns and NOT NULL proves it.
func (s *shard) keyFault(indexes []tableIndex, table tableInfo) string {
	if !s.spec.UniqueKey || len(s.spec.Key) == 0 {
		return ""
	}
	inKey := func(name string) bool {
		return slices.ContainsFunc(s.spec.Key, func(key string) bool { return upper(key) == upper(name) })
	}
	// The number of the row is never NULL, and an index of its own.
	if alias := table.primaryKey(); alias != nil && upper(alias.declared) == "INTEGER" && inKey(alias.name) {
		return ""
	}
	fault := "no unique index"
	for _, index := range indexes {
		if !index.unique || index.partial || !all(index.columns, inKey) {
			continue
		}
		solid := all(index.columns, func(name string) bool {
			at := find(table.columns, name)
			return at >= 0 && (table.columns[at].notNull || table.withoutRowID && table.columns[at].primary)
		})
		if solid {
			return ""
		}
		fault = "a unique index with a column that may be NULL, which makes rows that are equal"
	}
	return fault
}

func all(names []string, holds func(string) bool) bool {
	return !slices.ContainsFunc(names, func(name string) bool { return !holds(name) })
}

// checkKey refuses a key that does not identify single rows where it must.
func (s *shard) checkKey(ctx context.Context, c *session, table tableInfo) error {
	if !s.spec.UniqueKey || len(s.spec.Key) == 0 {
		return nil
	}
	indexes, err := s.readIndexes(ctx, c, table)
	if err != nil {
		return err
	}
	if fault := s.keyFault(indexes, table); fault != "" {
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
	name := quoteName(s.table.table + "_" + strings.Join(columns, "_"))
	return "CREATE UNIQUE INDEX " + name + " ON " + quoteName(s.table.table) + " (" + strings.Join(quoted, ", ") + ");"
}
