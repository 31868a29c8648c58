package mysql

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Every unique index of a partitioned table holds the columns that its partitions go by. Where
// these are not the id, no index proves that an id comes once: PRIMARY KEY (id, day) takes (7,
// Monday) and (7, Tuesday). AUTO_INCREMENT hands out each id once, but does not keep anybody from
// writing one of his own choice. Such a table is read on the word of its counter (byCounter), and
// whatever reads it looks whether an id comes twice: within a page, across the end of a page, and
// by key. What comes twice stops the reader with an error. An id that is written again below the
// position is found by the next reconcile, which reads all pages.

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

// byCounter returns the indexes of a partitioned table with its primary key cut to the id, and
// true, where that is the first column of the primary key and counted, the column that
// AUTO_INCREMENT fills, and no index proves it unique. Other indexes it returns as they are.
func byCounter(indexes []tableIndex, create, counted, id string) ([]tableIndex, bool) {
	partitioned, _ := partitions(create)
	at := slices.IndexFunc(indexes, func(i tableIndex) bool { return i.name == "PRIMARY" })
	switch {
	case uniqueColumns(indexes)[strings.ToLower(id)] != "", !partitioned, at < 0, !strings.EqualFold(counted, id):
		return indexes, false
	}
	first := indexes[at].columns[0]
	if first.prefix || !strings.EqualFold(first.name, id) {
		return indexes, false
	}
	indexes = slices.Clone(indexes)
	indexes[at].columns = indexes[at].columns[:1]
	return indexes, true
}
