package sqlite

import (
	"context"

	"bridge/internal/option"
	"bridge/source"
)

// tableInfo is a table as the schema tells.
type tableInfo struct {
	// name is as the schema spells it.
	name                        string
	columns                     []tableColumn
	withoutRowID, autoIncrement bool
	// kind is "table", or what has no index of its own: "view", "virtual", "shadow".
	kind string
	// strict says that a column holds values of its type alone.
	strict bool
}

// what names the kind of a table that is none.
func (t tableInfo) what() string {
	if t.kind == "view" {
		return "view"
	}
	return t.kind + " table"
}

type tableColumn struct {
	name, declared           string
	notNull, primary, hidden bool
}

// readTable reads the table from the schema.
func (s *shard) readTable(ctx context.Context, c *session) (tableInfo, error) {
	var table tableInfo
	if upper(s.table.database) != "MAIN" {
		return table, option.Errorf("%w: SQLite has no database %q: write %s without a database", source.ErrMissing, s.table.database, option.Table)
	}
	const tables = `SELECT l.name AS name, l.type AS type, l.wr AS wr, l.strict AS strict, m.sql AS sql FROM pragma_table_list AS l LEFT JOIN main.sqlite_schema AS m ON m.name = l.name
		AND m.type = 'table' WHERE l.schema = 'main' AND l.name = ?1 COLLATE NOCASE`
	err := c.query(ctx, tables, func(get func(string) string) {
		table.name, table.withoutRowID, table.strict = get("name"), get("wr") == "1", get("strict") == "1"
		table.kind, table.autoIncrement = get("type"), hasKeyword(get("sql"), "AUTOINCREMENT")
	}, s.table.table)
	if err != nil {
		return table, err
	}
	if table.name == "" {
		return table, option.Errorf("%w: no table %q in %s: create the table, or correct %s or the path in %s",
			source.ErrMissing, s.table.table, s.source.options.Path, option.Table, option.SourceURL)
	}
	const columns = `SELECT name, type, "notnull", pk, hidden FROM pragma_table_xinfo(?1, 'main') ORDER BY cid`
	err = c.query(ctx, columns, func(get func(string) string) {
		table.columns = append(table.columns, tableColumn{
			name: get("name"), declared: get("type"),
			notNull: get("notnull") == "1", primary: get("pk") != "0",
			// 1 is a virtual table's; 2 and 3 are generated columns, which are read.
			hidden: get("hidden") == "1",
		})
	}, table.name)
	return table, err
}
