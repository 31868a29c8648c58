package mysql

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// No index proves that an id comes once where the primary key has another column besides: PRIMARY
// KEY (id, day) takes (7, Monday) and (7, Tuesday). A partitioned table cannot have a better one if
// its partitions do not go by the id: every unique index of it holds their columns. AUTO_INCREMENT
// hands out each id once, but does not keep anybody from writing one of his own choice. Such a
// table is read on the word of its counter (cutPrimary), and whatever reads it looks whether an id
// comes twice: within a page, across the end of a page, and by key. What comes twice stops the
// reader with an error. An id that is written again below the position is found by the next
// reconcile, which reads all pages.

var (
	partitionClause = regexp.MustCompile(`(?m)^\s*(?:/\*!\d+ )?(?:SUB)?PARTITION BY (.*)$`)
	quotedName      = regexp.MustCompile("`(?:[^`]|``)+`")
)

// partitions reports whether a table is partitioned, by what SHOW CREATE TABLE says, and by which
// columns.
func partitions(create string) (partitioned bool, columns []string) {
	for _, clause := range partitionClause.FindAllStringSubmatch(create, -1) {
		partitioned = true
		for _, name := range quotedName.FindAllString(clause[1], -1) {
			columns = append(columns, strings.ReplaceAll(name[1:len(name)-1], "``", "`"))
		}
	}
	return partitioned, columns
}

// refusesUnique says why the server refuses a unique index over columns of a table, "" where it
// does not.
func refusesUnique(create string, columns ...string) string {
	partitioned, by := partitions(create)
	missing := slices.ContainsFunc(by, func(column string) bool {
		return !slices.ContainsFunc(columns, func(c string) bool { return strings.EqualFold(c, column) })
	})
	switch {
	case !partitioned || len(by) > 0 && !missing:
		return ""
	case len(by) == 0:
		return "a unique index of this partitioned table must have the columns of its partitioning"
	}
	return fmt.Sprintf("a unique index of this partitioned table must have %s, the columns of its partitioning", strings.Join(by, ", "))
}

// cutPrimary returns the indexes of a table with its primary key cut to the id where that is the
// first of its columns, and the id is unique by another index or counted, the column that
// AUTO_INCREMENT fills. unproved says that nothing but the counter keeps it unique. Other indexes
// are returned as they are.
func cutPrimary(indexes []tableIndex, counted, id string) (cut []tableIndex, unproved bool) {
	at := slices.IndexFunc(indexes, func(i tableIndex) bool { return i.name == "PRIMARY" })
	unique := uniqueColumns(indexes)[strings.ToLower(id)] != ""
	if at < 0 || !unique && !strings.EqualFold(counted, id) {
		return indexes, false
	}
	first := indexes[at].columns[0]
	if first.prefix || !strings.EqualFold(first.name, id) {
		return indexes, false
	}
	indexes = slices.Clone(indexes)
	indexes[at].columns = indexes[at].columns[:1]
	return indexes, !unique
}
