package mysql

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"bridge/source"
)

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
