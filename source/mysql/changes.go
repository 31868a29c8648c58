package mysql

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"example.org/bridge/internal/option"
	"example.org/bridge/source"
	"example.org/bridge/source/internal/sqlconn"
)

// ReadChanges reads along the index that MODIFIED leads, and reads nothing but that index where it
// holds the id. Where the id is the primary key of InnoDB every index does, in the order of
// (MODIFIED, id); otherwise an index over (MODIFIED, id) does. By any other index the server sorts
// what lies after the cursor. Rows of ranges are read by the index of the id.
func (s *shard) ReadChanges(ctx context.Context, q source.ChangeQuery, c *source.Changes) error {
	try := func() error { return s.tryChanges(ctx, q, c) }
	if err := s.renewed(try(), try); err != nil {
		return fmt.Errorf("read what changed in %s: %w", s.spec.Table, s.explain(err))
	}
	c.More = len(c.List) >= q.Limit
	return nil
}

func (s *shard) tryChanges(ctx context.Context, q source.ChangeQuery, c *source.Changes) error {
	if s.table.database == "" {
		return errNoDatabase
	}
	pool := s.source.db
	if q.Uncommitted {
		pool = s.source.dirty
	}
	return s.source.do(ctx, pool, func(ctx context.Context, session conn) error {
		if err := s.refreshIfDue(ctx, session); err != nil {
			return err
		}
		return s.readChanges(ctx, session, q, c)
	})
}

func (s *shard) readChanges(ctx context.Context, session conn, q source.ChangeQuery, c *source.Changes) error {
	*c = source.Changes{List: c.List[:0]}
	bare := q
	bare.Ranges = nil
	query, err := s.changesQuery(bare)
	if err != nil {
		return err
	}
	for _, part := range s.parts(q.Ranges, len(query)) {
		asked := q
		asked.Ranges, asked.Limit = part, q.Limit-len(c.List)
		if query, err = s.changesQuery(asked); err != nil {
			return err
		}
		rows, err := session.QueryContext(ctx, query, nil)
		if err != nil {
			return err
		}
		if err := errors.Join(fillChanges(rows, c), rows.Close()); err != nil || len(c.List) >= q.Limit {
			return err
		}
	}
	return nil
}

// changesQuery composes the statement of a read of changes.
func (s *shard) changesQuery(q source.ChangeQuery) (string, error) {
	if s.shape.modified == "" {
		return "", s.noModifiedIndex()
	}
	column := s.shape.columns.List[s.shape.columns.Modified]
	for _, v := range []string{q.After.Modified, q.Through} {
		if v != "" && !timeForms[column.Kind].MatchString(v) {
			return "", fmt.Errorf("%w: %q is not a value of the column %q", source.ErrAltered, v, column.Name)
		}
	}
	id, modified := s.shape.id(), quoteName(column.Name)
	b := []byte("(SELECT CONCAT_WS(' ', UTC_TIMESTAMP(6), 0, ")
	b = append(b, s.source.connector.server.Load().identity...)
	b = append(b, "), NULL, NULL) UNION ALL (SELECT NULL, "+modified+", "+id+" FROM "+s.table.quoted()...)
	if q.Ranges != nil {
		b = append(b, forceIndex(s.shape.index)+" WHERE "...)
		b = appendRanges(b, id, q.Ranges)
		b = append(b, " AND "+modified+" IS NOT NULL ORDER BY "+id...)
	} else {
		b = append(b, forceIndex(s.shape.modified)+" WHERE "...)
		b = appendBehind(b, q, modified, id)
		b = append(b, " AND "+id+" > 0 ORDER BY "+modified+", "+id...)
	}
	b = append(b, " LIMIT "...)
	return string(append(strconv.AppendInt(b, int64(q.Limit), 10), ')')), nil
}

// appendBehind appends the condition that a row lies after q.After and not after q.Through.
func appendBehind(b []byte, q source.ChangeQuery, modified, id string) []byte {
	if after := q.After; after.Modified != "" {
		// As two ranges of the index, the first of which begins after the id.
		b = append(b, "(("+modified+" = '"+after.Modified+"' AND "+id+" > "...)
		b = strconv.AppendUint(b, after.ID, 10)
		b = append(b, ") OR "+modified+" > '"+after.Modified+"')"...)
	} else {
		b = append(b, modified+" IS NOT NULL"...)
	}
	if q.Through != "" {
		b = append(b, " AND "+modified+" <= '"+q.Through+"'"...)
	}
	return b
}

func (s tableSpec) noModifiedIndex() error {
	if s.spec.Modified == "" {
		return option.Errorf("%w: the stream has no %s column", source.ErrUnfit, option.Modified)
	}
	return fmt.Errorf("%w: no index of %s begins with the MODIFIED column %q: let an administrator run: %s",
		source.ErrUnfit, s.spec.Table, s.spec.Modified, s.createModifiedIndex())
}

// createModifiedIndex returns the statement that makes the index that updates are found by.
func (s tableSpec) createModifiedIndex() string {
	return fmt.Sprintf("CREATE INDEX %s ON %s (%s, %s)",
		quoteName(s.spec.Modified+"_"+s.spec.ID), s.table.quoted(), quoteName(s.spec.Modified), quoteName(s.spec.ID))
}

func fillChanges(rows driver.Rows, c *source.Changes) error {
	head, err := readHeaded(rows, 3, func(row []driver.Value) error {
		id, err := rowID(row[2])
		c.List = append(c.List, source.Cursor{Modified: sqlconn.Text(row[1]), ID: id})
		return err
	})
	if c.Server == "" {
		c.Now, c.Server = head.Now, head.Server
	}
	if err == nil && head.Server != c.Server {
		err = errMoved
	}
	return err
}

// tableIndex is an index as SHOW INDEX tells.
type tableIndex struct {
	name   string
	unique bool
	// ignored says that the optimizer is told to ignore it; it is unique all the same.
	ignored bool
	// unordered says that it finds single values only, if any: a hash.
	unordered bool
	columns   []indexColumn
}

// indexColumn is one part of an index. Its name is empty for an expression; a prefix has no order
// of the whole column.
type indexColumn struct {
	name   string
	prefix bool
}

// readIndexes returns the indexes of the table, the primary key first.
func (s tableSpec) readIndexes(ctx context.Context, c conn) ([]tableIndex, error) {
	var indexes []tableIndex
	err := c.query(ctx, "SHOW INDEX FROM "+s.table.quoted(), func(get func(string) string) {
		name := get("Key_name")
		if n := len(indexes); n == 0 || indexes[n-1].name != name {
			indexes = append(indexes, tableIndex{
				name: name, unique: get("Non_unique") == "0",
				ignored:   get("Ignored") == "YES" || get("Visible") == "NO",
				unordered: get("Index_type") == "HASH",
			})
		}
		last := &indexes[len(indexes)-1]
		last.columns = append(last.columns, indexColumn{name: get("Column_name"), prefix: get("Sub_part") != ""})
	})
	return indexes, err
}

// uniqueColumns returns, for every column that is unique by itself, the index that says so, by the
// column's name in lower case. The primary key comes first; an index that the optimizer is told to
// ignore does not count.
func uniqueColumns(indexes []tableIndex) map[string]string {
	unique := make(map[string]string)
	for _, index := range indexes {
		if len(index.columns) != 1 || !index.unique || index.ignored || index.columns[0].prefix || index.columns[0].name == "" {
			continue
		}
		column := strings.ToLower(index.columns[0].name)
		if unique[column] == "" || index.name == "PRIMARY" {
			unique[column] = index.name
		}
	}
	return unique
}

// keyIndex returns the index that proves that the key columns identify single rows, or says why
// none does: a unique index whose columns are all key columns proves it. One that can be read by
// comes first, and before all one whose columns are NOT NULL: where a column of the proof may be
// NULL, see nullKey.
func keyIndex(indexes []tableIndex, table []tableColumn, key []string) (proof *tableIndex, fault string) {
	var loose *tableIndex
	for i := range indexes {
		index := &indexes[i]
		switch covered, nullable := index.over(table, key); {
		case !index.unique || !covered:
		case nullable != "":
			if loose == nil || !loose.usable() {
				loose = index
			}
		case index.usable():
			return index, ""
		case proof == nil:
			proof = index
		}
	}
	if proof = cmp.Or(proof, loose); proof == nil {
		return nil, "no unique index"
	}
	return proof, ""
}

// nullKey returns the columns of the proof that may be NULL. A row that has NULL in one of them is
// no single row of its key.
func (i *tableIndex) nullKey(table []tableColumn) (names []string) {
	for _, column := range i.columns {
		if at := find(table, column.name); table[at].nullable {
			names = append(names, table[at].name)
		}
	}
	return names
}

// usable reports whether the server can read by the index.
func (i *tableIndex) usable() bool { return !i.ignored && !i.unordered }

// modifiedIndex returns the index that MODIFIED leads, "" when there is none: best one in the order
// of (MODIFIED, id), as it is where the id comes next, or where nothing does and the id is the
// primary key, with which every index of InnoDB ends.
func modifiedIndex(indexes []tableIndex, spec source.Spec) string {
	if spec.Modified == "" {
		return ""
	}
	found := ""
	ends := uniqueColumns(indexes)[strings.ToLower(spec.ID)] == "PRIMARY"
	for _, index := range indexes {
		first := index.columns[0]
		if !index.usable() || first.prefix || !strings.EqualFold(first.name, spec.Modified) {
			continue
		}
		ordered := len(index.columns) == 1 && ends || len(index.columns) > 1 && strings.EqualFold(index.columns[1].name, spec.ID)
		if ordered {
			return index.name
		}
		found = cmp.Or(found, index.name)
	}
	return found
}

// over reports whether all columns of the index are among key, and which of them may be NULL, ""
// for none.
func (i tableIndex) over(table []tableColumn, key []string) (covered bool, nullable string) {
	for _, column := range i.columns {
		at := find(table, column.name)
		if at < 0 || !slices.ContainsFunc(key, func(k string) bool { return strings.EqualFold(k, column.name) }) {
			return false, ""
		}
		if table[at].nullable {
			nullable = table[at].name
		}
	}
	return true, nullable
}
