package sqlite

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"example.org/bridge/internal/option"
	"example.org/bridge/source"
)

// shape is what the statements of a shard depend on. It is immutable.
type shape struct {
	columns *source.Columns
	// values are the forms of the columns.
	values []valueForm
	// masks are those of the columns; nil where none has one.
	masks source.Masks
	// filter is the condition on rows, which SQLite accepts; "" for none.
	filter string
	// index is the unique index of the id, "" when the table is its own.
	index string
	// key is how rows are found by their keys.
	key lookup
	// modified is how changes are found; its by is "" when no index begins with MODIFIED.
	modified modifiedOrder
	// counter is the table's name in sqlite_sequence, "" when the id is not AUTOINCREMENT.
	counter string
}

func (sh *shape) equal(other *shape) bool {
	a, b := sh.columns, other.columns
	return slices.Equal(a.List, b.List) && a.ID == b.ID && slices.Equal(a.Key, b.Key) && slices.Equal(a.NullKey, b.NullKey) &&
		a.Created == b.Created && a.Modified == b.Modified && a.Deleted == b.Deleted &&
		slices.Equal(sh.values, other.values) && sh.index == other.index &&
		sh.key.equal(other.key) && sh.modified == other.modified && sh.counter == other.counter
}

// readShape asks for the columns of the table and checks them against the spec.
func (s *shard) readShape(ctx context.Context, c *session) (*shape, error) {
	table, err := s.readTable(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := s.checkNamed(table.columns); err != nil {
		return nil, err
	}
	sh := s.compose(table)
	if sh.filter, err = s.spec.AcceptedFilter(s.filterFault(ctx, c, table.columns)); err != nil {
		return nil, err
	}
	id := table.columns[find(table.columns, s.spec.ID)]
	indexes, err := s.uniqueIndexes(ctx, c, table)
	if err != nil {
		return nil, err
	}
	index, unique := indexes[upper(id.name)]
	switch {
	case !isID(id.declared):
		return nil, fmt.Errorf("%w: the id column %q of %s is %s: it must be an integer",
			source.ErrUnfit, id.name, s.spec.Table, orNone(id.declared))
	case !unique && table.kind != "table":
		return nil, option.Errorf("%w: %s is a %s, which takes no unique index over its id: name the table behind it with %s; %s and %s choose among its columns and rows",
			source.ErrUnfit, s.spec.Table, table.what(), option.Table, option.Fields, option.Filter)
	case !unique:
		return nil, option.Errorf("%w: the id column %q of %s has no unique index of its own: name another column with %s, or let the application run: %s",
			source.ErrUnfit, id.name, s.spec.Table, option.ID, s.createUnique(id.name))
	case index != "" && !id.notNull:
		return nil, fmt.Errorf("%w: the id column %q of %s may be NULL: make it NOT NULL", source.ErrUnfit, id.name, s.spec.Table)
	}
	sh.index = index
	if index == "" && table.autoIncrement {
		sh.counter = table.name
	}
	named, err := s.readIndexes(ctx, c, table)
	if err != nil {
		return nil, err
	}
	if err := s.checkKey(named, table); err != nil {
		return nil, err
	}
	sh.key, sh.modified = s.findByKey(sh, named, table), s.modifiedIndex(named)
	if proof, _ := s.keyIndex(named, table); s.spec.UniqueKey && len(s.spec.Key) > 0 {
		sh.columns.SetNullKey(proof.nullKey(table))
	}
	return sh, s.checkRoles(table.columns)
}

func orNone(declared string) string {
	if declared == "" {
		return "of no type"
	}
	return declared
}

func find(columns []tableColumn, name string) int {
	return slices.IndexFunc(columns, func(c tableColumn) bool { return upper(c.name) == upper(name) })
}

// checkNamed refuses a spec with a column that the table does not have.
func (s *shard) checkNamed(columns []tableColumn) error {
	for _, r := range s.spec.Named() {
		if find(columns, r.Column) >= 0 {
			continue
		}
		names := make([]string, len(columns))
		for i, column := range columns {
			names[i] = column.name
		}
		return option.Errorf("%w: no column %q in %s: correct %s; the columns are %s",
			source.ErrMissing, r.Column, s.spec.Table, r.Setting, strings.Join(names, ", "))
	}
	return nil
}

// compose picks the columns that the spec asks for, in the order of the table.
func (s *shard) compose(table tableInfo) *shape {
	columns := table.columns
	wanted := make([]bool, len(columns))
	for i, column := range columns {
		wanted[i] = s.spec.Reads(column.name) && !column.hidden
	}
	for _, r := range s.spec.Roles() {
		wanted[find(columns, r.Column)] = true
	}
	sh := &shape{columns: &source.Columns{}}
	at := make([]int, len(columns))
	for i, column := range columns {
		if !wanted[i] {
			continue
		}
		at[i] = len(sh.columns.List)
		// Else a column that is NOT NULL may hold a text that is no number.
		sh.add(column.name, s.form(column), column.notNull && table.strict)
	}
	sh.columns.SetRoles(s.spec, func(name string) int { return at[find(columns, name)] })
	sh.masks = s.spec.Mask(sh.columns.List)
	return sh
}

func (sh *shape) add(name string, form valueForm, notNull bool) {
	column := source.Column{Name: name, Kind: form.kind, NotNull: notNull}
	if form.kind == source.Timestamp {
		column.Precision = precision
	}
	sh.columns.List = append(sh.columns.List, column)
	sh.values = append(sh.values, form)
}

// form returns the form of a column's values. SQLite has no type for times: CREATED and MODIFIED
// may be texts or numbers.
func (s *shard) form(column tableColumn) valueForm {
	f := valueForm{kind: parseType(column.declared), boolean: isBoolean(column.declared), zone: time.UTC, epoch: s.source.options.Epoch}
	if isDateTime(column.declared) {
		f.zone = s.source.options.TimeZone
	}
	if s.isTimeRole(column.name) && mayBeTime(f.kind, column.declared) {
		f.kind = source.Timestamp
	}
	return f
}

func (s *shard) isTimeRole(name string) bool {
	return upper(name) == upper(s.spec.Created) || upper(name) == upper(s.spec.Modified)
}

// checkRoles refuses columns whose types do not fit their roles.
func (s *shard) checkRoles(columns []tableColumn) error {
	for _, r := range []source.Role{{Setting: option.Created, Column: s.spec.Created}, {Setting: option.Modified, Column: s.spec.Modified}} {
		if r.Column == "" {
			continue
		}
		column := columns[find(columns, r.Column)]
		switch s.form(column).kind {
		case source.Timestamp, source.Date:
		default:
			return option.Errorf("%w: the column %q of %s is %s: %s must name a column of times: DATETIME, TIMESTAMP, TEXT, INTEGER or REAL",
				source.ErrUnfit, column.name, s.spec.Table, column.declared, r.Setting)
		}
	}
	return nil
}

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

// namedKinds are the types that go by their name, whatever their affinity.
var namedKinds = map[string]source.Kind{
	"BOOL": source.Int, "BOOLEAN": source.Int, "BIT": source.Int, "YEAR": source.Int, "LONG": source.Int, "SERIAL": source.Int,
	"DEC": source.Decimal, "DECIMAL": source.Decimal, "FIXED": source.Decimal, "NUM": source.Decimal, "NUMBER": source.Decimal,
	"NUMERIC": source.Decimal, "MONEY": source.Decimal, "SMALLMONEY": source.Decimal, "CURRENCY": source.Decimal,
	"INTERVAL": source.Text, "POINT": source.Text,
	"BINARY": source.Binary, "VARBINARY": source.Binary, "BYTEA": source.Binary, "IMAGE": source.Binary,
	"JSON": source.JSON, "JSONB": source.JSON,
	"DATE": source.Date,
	"TIME": source.Clock, "TIMETZ": source.Clock,
	"DATETIME": source.Timestamp, "DATETIME2": source.Timestamp, "SMALLDATETIME": source.Timestamp, "DATETIMEOFFSET": source.Timestamp,
	"TIMESTAMP": source.Timestamp, "TIMESTAMPTZ": source.Timestamp,
}

// affinities are the kinds of SQLite's rule of affinity, in its order.
var affinities = []struct {
	part string
	kind source.Kind
}{
	{"INT", source.Int},
	{"CHAR", source.Text}, {"CLOB", source.Text}, {"TEXT", source.Text},
	{"BLOB", source.Binary},
	{"REAL", source.Float}, {"FLOA", source.Float}, {"DOUB", source.Float},
}

// typeName returns the first word of a declared type in upper case: "VARCHAR" of "varchar(20)".
func typeName(declared string) string {
	name := upper(declared)
	if i := strings.IndexAny(name, " \t\r\n("); i >= 0 {
		name = name[:i]
	}
	return name
}

// parseType returns the kind of a declared type. A type that is not known is text: it holds a value
// of any class.
func parseType(declared string) source.Kind {
	if kind, ok := namedKinds[typeName(declared)]; ok {
		return kind
	}
	name := upper(declared)
	for _, affinity := range affinities {
		if strings.Contains(name, affinity.part) {
			return affinity.kind
		}
	}
	return source.Text
}

func isBoolean(declared string) bool { return strings.HasPrefix(typeName(declared), "BOOL") }

// isDateTime reports whether times without a zone are in the zone of the options, as against UTC.
func isDateTime(declared string) bool {
	name := typeName(declared)
	return strings.Contains(name, "DATETIME") && name != "DATETIMEOFFSET"
}

// isID reports whether a column of this type can be the id.
func isID(declared string) bool {
	return strings.Contains(upper(declared), "INT") && parseType(declared) == source.Int
}

// mayBeTime reports whether a column of this kind can hold times although its type does not say so.
func mayBeTime(kind source.Kind, declared string) bool {
	switch kind {
	case source.Int:
		return !isBoolean(declared)
	case source.Text, source.Float, source.Decimal:
		return true
	}
	return false
}

// upper folds ASCII only, as SQLite does.
func upper(name string) string {
	return strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' {
			return r - 'a' + 'A'
		}
		return r
	}, name)
}
