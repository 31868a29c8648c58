package mysql

import (
	"context"
	"strings"

	"bridge/source"
)

// uniqueIndexes returns, for every column that is unique by itself, the index that says so, by the column's name in lower case.
// The primary key comes first; an index that the optimizer is told to ignore does not count.
func (s *shard) uniqueIndexes(ctx context.Context, c conn) (map[string]string, error) {
	type index struct {
		columns        int
		column         string
		unique, usable bool
	}
	indexes := make(map[string]*index)
	var names []string
	err := c.query(ctx, "SHOW INDEX FROM "+s.table.quoted(), func(get func(string) string) {
		name := get("Key_name")
		if indexes[name] == nil {
			indexes[name] = &index{}
			names = append(names, name)
		}
		ignored := get("Ignored") == "YES" || get("Visible") == "NO"
		*indexes[name] = index{
			columns: indexes[name].columns + 1,
			column:  get("Column_name"),
			unique:  get("Non_unique") == "0",
			// A prefix of a column is unique, too, but has no order of the whole.
			usable: !ignored && get("Sub_part") == "" && get("Column_name") != "",
		}
	})
	if err != nil {
		return nil, err
	}
	unique := make(map[string]string)
	for _, name := range names {
		found := indexes[name]
		column := strings.ToLower(found.column)
		if found.columns == 1 && found.unique && found.usable && (unique[column] == "" || name == "PRIMARY") {
			unique[column] = name
		}
	}
	return unique, nil
}

// markJSON finds the JSON columns of MariaDB, which are LONGTEXT with a CHECK. information_schema.CHECK_CONSTRAINTS is
// empty for a login with SELECT only, SHOW CREATE TABLE is not.
func (s *shard) markJSON(ctx context.Context, c conn, list []source.Column, table []tableColumn) error {
	candidate := false
	for _, column := range table {
		candidate = candidate || column.columnType == "longtext"
	}
	if !candidate {
		return nil
	}
	var create string
	err := c.query(ctx, "SHOW CREATE TABLE "+s.table.quoted(), func(get func(string) string) { create = get("Create Table") })
	if number(err) == erTableAccessDenied {
		// A login with SELECT on single columns: JSON stays text.
		return nil
	}
	if err != nil {
		return err
	}
	checked := checkedJSON(create)
	for i, column := range list {
		longtext := table[find(table, column.Name)].columnType == "longtext"
		if longtext && checked[column.Name] {
			list[i].Kind = source.JSON
		}
	}
	return nil
}

// checkedJSON returns the columns that a CREATE TABLE of MariaDB checks with json_valid. The check ends the line of its column or
// constraint; what a comment or default says is followed by a quote.
func checkedJSON(create string) map[string]bool {
	checked := make(map[string]bool)
	for line := range strings.Lines(create) {
		line = strings.TrimSuffix(strings.TrimRight(line, "\n"), ",")
		clause, ok := strings.CutSuffix(line, "`))")
		if !ok {
			continue
		}
		if i := strings.LastIndex(clause, "CHECK (json_valid(`"); i >= 0 {
			name := clause[i+len("CHECK (json_valid(`"):]
			checked[strings.ReplaceAll(name, "``", "`")] = true
		}
	}
	return checked
}
