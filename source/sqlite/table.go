package sqlite

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"example.org/bridge/internal/inspect"
	"example.org/bridge/internal/option"
	"example.org/bridge/source"
	"example.org/bridge/source/internal/sqltable"
)

// shape is what the statements of a shard depend on. It is immutable.
type shape struct {
	columns *source.Columns
	values  []valueForm
	// filter is the condition on rows, which SQLite accepts; "" for none.
	filter string
	// by is the clause that keeps the planner to the index of the id.
	by  string
	key lookup
	// ids says how ids with a format are read; zero for integers.
	ids idColumn
	// modified is how changes are found; its by is "" when no index begins with MODIFIED.
	modified modifiedOrder
	// counter is the table's name in sqlite_sequence, "" when the id is not AUTOINCREMENT.
	counter string
}

// modifiedOrder is how rows are read in the order of MODIFIED: by is the clause for the index,
// column the column's name as SQL, with the collation of the index.
type modifiedOrder struct{ by, column string }

type inspection struct {
	*shard
	sqltable.Inspection
	// name is as the schema spells it.
	name                                string
	withoutRowID, autoIncrement, strict bool
	// kind is "table", or a kind without an index of its own: "view", "virtual", "shadow".
	kind string
}

func (s *shard) inspection(expected source.Expected) *inspection {
	t := &inspection{shard: s}
	t.Inspection = sqltable.Inspection{Spec: s.spec, Expected: expected, Table: sqltable.Table{NameCase: source.ASCIICase}, Dialect: sqltable.Dialect{
		Who: "the application", Counter: "its INTEGER PRIMARY KEY", Times: "column of times: DATETIME, TIMESTAMP, TEXT or INTEGER",
		IsID: func(c sqltable.Column) bool {
			return strings.Contains(upper(c.Type), "INT") && parseType(c.Type) == source.Int
		},
		UnfitID: func(c sqltable.Column) (why string) {
			_, why = idColumnOf(t.Spec.IDFormat, c, t.Table.Unique(c.Name))
			return why
		},
		IsTime:    func(c sqltable.Column) bool { return c.Kind == source.Timestamp || mayBeTime(c.Kind, c.Type) },
		AddUnique: s.createUnique, AddModified: s.createModifiedIndex,
		MakeNotNull: "recreate the table with the id as INTEGER PRIMARY KEY AUTOINCREMENT", SetNotNull: func(string) string { return "" },
	}}
	return t
}

func (s *shard) createUnique(columns ...string) string {
	// Another index may have the plain name.
	name := quoteName(s.table.Table + "_" + strings.Join(columns, "_") + "_unique")
	return "CREATE UNIQUE INDEX " + name + " ON " + quoteName(s.table.Table) + " (" + sqltable.Quote(`"`, columns...) + ")"
}

func (s *shard) createModifiedIndex(modified string) string {
	return fmt.Sprintf("CREATE INDEX %s ON %s (%s)", quoteName(s.table.Table+"_"+modified+"_"+s.spec.ID),
		quoteName(s.table.Table), sqltable.Quote(`"`, modified, s.spec.ID))
}

func (s *shard) readShape(ctx context.Context, c *session) (*shape, source.Masks, error) {
	t := s.inspection(source.Expected{Spec: s.spec})
	if err := t.read(ctx, c); err != nil {
		return nil, nil, err
	}
	index, err := t.checkTable(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	if err := t.Refusal(); err != nil {
		return nil, nil, err
	}
	sh := &shape{filter: s.spec.Filter, by: by(index)}
	columns, from := t.Table.Pick(s.spec)
	sh.columns = columns
	for _, at := range from {
		sh.values = append(sh.values, s.form(t.Table.Columns[at]))
	}
	if index.Name == "" && t.autoIncrement {
		sh.counter = t.name
	}
	sh.key = t.findByKey(sh)
	sh.ids.name = quoteName(columns.List[columns.ID].Name)
	if s.spec.IDFormat != "" {
		id, _ := t.Table.Column(s.spec.ID)
		sh.ids, _ = idColumnOf(s.spec.IDFormat, id, index)
		columns.ByID = s.spec.IDFormat.HasTime()
	}
	if modified := t.Table.Modified(s.spec); modified != nil {
		columns.ByID = false
		sh.modified = modifiedOrder{by(modified), quoteName(s.spec.Modified) + " COLLATE " + quoteName(modified.Columns[0].Collation)}
	}
	columns.Indexed = columns.ByID || sh.modified.by != ""
	return sh, s.spec.Mask(columns), nil
}

// by returns the clause that keeps the planner to an index.
func by(index *sqltable.Index) string {
	if index.Name == "" {
		// By the primary key, which is the table itself.
		return "NOT INDEXED"
	}
	return "INDEXED BY " + quoteName(index.Name)
}

func (s *shard) form(column sqltable.Column) valueForm {
	f := valueForm{kind: column.Kind, boolean: isBoolean(column.Type), zone: time.UTC, epoch: s.source.options.Epoch}
	// Times without a zone are in the zone of the options, as against UTC.
	if name := typeName(column.Type); strings.Contains(name, "DATETIME") && name != "DATETIMEOFFSET" {
		f.zone = s.source.options.TimeZone
	}
	return f
}

func (t *inspection) read(ctx context.Context, c *session) error {
	if upper(t.table.Database) != "MAIN" {
		return option.Errorf("%w: SQLite has no database %q: write %s without a database", source.ErrMissing, t.table.Database, option.Table)
	}
	const tables = `SELECT l.name AS name, l.type AS type, l.wr AS wr, l.strict AS strict, m.sql AS sql FROM pragma_table_list AS l LEFT JOIN main.sqlite_schema AS m ON m.name = l.name
		AND m.type = 'table' WHERE l.schema = 'main' AND l.name = ?1 COLLATE NOCASE`
	err := c.query(ctx, tables, func(get func(string) string) {
		t.name, t.withoutRowID, t.strict = get("name"), get("wr") == "1", get("strict") == "1"
		t.kind, t.autoIncrement = get("type"), isAutoIncrement(get("sql"))
	}, t.table.Table)
	if err != nil {
		return err
	}
	if t.name == "" {
		return option.Errorf("%w: no table %q in %s: create the table, or correct %s or the path in %s",
			source.ErrMissing, t.table.Table, t.source.options.Path, option.Table, option.SourceURL)
	}
	if err := t.readColumns(ctx, c); err != nil {
		return err
	}
	if id, ok := t.Table.Column(t.Spec.ID); ok && !t.Dialect.IsID(id) && t.Spec.IDFormat == "" {
		if err := c.query(ctx, "SELECT "+quoteName(id.Name)+" AS sample FROM "+t.quoted()+" LIMIT 1", func(get func(string) string) { t.Sample = get("sample") }); err != nil {
			return err
		}
	}
	return t.readIndexes(ctx, c)
}

func (t *inspection) readColumns(ctx context.Context, c *session) error {
	t.Table.Columns = nil
	const columns = `SELECT name, type, "notnull", pk, hidden FROM pragma_table_xinfo(?1, 'main') ORDER BY cid`
	var primary []int
	err := c.query(ctx, columns, func(get func(string) string) {
		notNull := get("notnull") == "1"
		if get("pk") != "0" {
			primary = append(primary, len(t.Table.Columns))
			notNull = notNull || t.withoutRowID
		}
		column := sqltable.Column{Type: get("type"), Nullable: !notNull}
		// Else a column that is NOT NULL may hold a text that is not a number.
		column.Column = source.Column{Name: get("name"), Kind: parseType(column.Type), NotNull: get("notnull") == "1" && t.strict}
		// SQLite has no type for times: CREATED and MODIFIED may be texts or numbers.
		if (upper(column.Name) == upper(t.Spec.Created) || upper(column.Name) == upper(t.Spec.Modified)) && mayBeTime(column.Kind, column.Type) {
			column.Kind = source.Timestamp
		}
		if column.Kind == source.Timestamp {
			column.Precision = precision
		}
		// 1 is a virtual table's; 2 and 3 are generated columns, which are read.
		column.Hidden = get("hidden") == "1"
		t.Table.Columns = append(t.Table.Columns, column)
	}, t.name)
	// What readIndexes finds an index of is not the number of the row.
	if len(primary) == 1 && !t.withoutRowID {
		t.Table.Columns[primary[0]].Numbered = true
	}
	return err
}

// readIndexes reads the indexes of the table, the primary key first.
func (t *inspection) readIndexes(ctx context.Context, c *session) error {
	t.Table.Indexes = nil
	const query = `SELECT l.name AS "index", l.origin AS origin, l."unique" AS uniq, x.name AS "column", x.coll AS coll
		FROM pragma_index_list(?1, 'main') AS l, pragma_index_xinfo(l.name, 'main') AS x WHERE x.key AND NOT l.partial ORDER BY l.origin <> 'pk', l.seq, x.seqno`
	primary, last := false, ""
	err := c.query(ctx, query, func(get func(string) string) {
		if name := get("index"); name != last {
			last = name
			isPrimary := get("origin") == "pk"
			primary = primary || isPrimary
			if isPrimary && t.withoutRowID {
				name = ""
			}
			t.Table.Indexes = append(t.Table.Indexes, sqltable.Index{Name: name, Unique: get("uniq") == "1"})
		}
		index := &t.Table.Indexes[len(t.Table.Indexes)-1]
		index.Columns = append(index.Columns, sqltable.IndexColumn{Name: get("column"), Collation: get("coll")})
		index.Foreign = index.Foreign || !slices.Contains([]string{"BINARY", "NOCASE", "RTRIM"}, upper(get("coll")))
	}, t.name)
	for i := range t.Table.Columns {
		column := &t.Table.Columns[i]
		column.Numbered = column.Numbered && !primary
		if column.Numbered {
			// INTEGER PRIMARY KEY has no index: it is the rowid.
			column.Nullable = false
			rowID := sqltable.Index{Unique: true, Columns: []sqltable.IndexColumn{{Name: column.Name, Collation: "BINARY"}}}
			t.Table.Indexes = slices.Insert(t.Table.Indexes, 0, rowID)
		}
	}
	return err
}

// checkTable returns the index that the id is read by, nil if there is none.
func (t *inspection) checkTable(ctx context.Context, c *session) (index *sqltable.Index, err error) {
	complete := true
	for _, r := range t.Spec.Named() {
		if t.Table.At(r.Column) < 0 {
			complete = false
			t.NoColumn(r)
		}
	}
	switch id, ok := t.Table.Column(t.Spec.ID); {
	case !ok:
	case t.kind != "table" && t.Dialect.IsID(id) && t.Table.Unique(id.Name) == nil:
		what := "view"
		if t.kind != what {
			what = t.kind + " table"
		}
		t.Found(inspect.Unsafe, inspect.IDNotUnique, "is a %s, which takes no unique index over its id", what).
			Says("name the table behind it with %s; %s and %s choose among its columns and rows", option.Table, option.Fields, option.Filter)
	default:
		index = t.CheckID("")
	}
	if !complete {
		return nil, nil
	}
	if err := t.checkFilter(ctx, c); err != nil {
		return nil, err
	}
	if t.kind == "table" || index != nil {
		t.CheckKey()
	}
	t.CheckTimes()
	return index, nil
}

var _ source.Inspector = (*Source)(nil)

// Inspect looks at the file and at tables as [source.Inspector] says.
func (s *Source) Inspect(ctx context.Context, tables []source.Expected, atOnce int) source.Inspection {
	var found source.Inspection
	var version, journal string
	err := s.do(ctx, func(ctx context.Context, c *session) error {
		err := c.query(ctx, "SELECT sqlite_version() AS version", func(get func(string) string) { version = get("version") })
		if err != nil {
			return err
		}
		return c.query(ctx, "PRAGMA main.journal_mode", func(get func(string) string) { journal = get("journal_mode") })
	})
	found.Server.Summary = fmt.Sprintf("SQLite %s, %s, journal %s", version, s.options.Path, journal)
	if err != nil {
		found.Server.Summary = "SQLite, " + s.options.Path
		found.Server.Add(inspect.Unsafe, inspect.SourceUnreachable, "file", "cannot be read").Because(explain(err)).
			Says("correct the path in %s, or see to the file; to try it by hand", option.SourceURL).Types("sqlite3 -readonly %s .tables", s.options.Path)
		return found
	}
	found.Tables = source.InspectTables(tables, atOnce, s.options.Logger, func(expected source.Expected) (found source.TableInspection) {
		shard := s.newShard(expected.Spec)
		var t *inspection
		err := s.do(ctx, func(ctx context.Context, c *session) error {
			// Again after a lock, from the beginning.
			t = shard.inspection(expected)
			return t.inspect(ctx, c)
		})
		if t == nil {
			t = shard.inspection(expected)
		}
		if err != nil {
			t.Fault(explain(err), "the path")
		} else if found.Order, found.Why = source.OrderStrict, "SQLite has one writer at a time"; expected.Order != "" {
			found.Order, found.Why = expected.Order, t.OrderWhy()
		}
		found.KeyForm, found.Findings = t.KeyForm(), t.Findings
		return found
	})
	return found
}

func (t *inspection) inspect(ctx context.Context, c *session) error {
	if err := t.read(ctx, c); err != nil {
		return err
	}
	index, err := t.checkTable(ctx, c)
	if err != nil {
		return err
	}
	if id, _ := t.Table.Column(t.Spec.ID); index != nil && !id.Nullable {
		if id.Numbered && !t.autoIncrement {
			t.Found(inspect.Warning, inspect.IDReuse, "gives the id of a deleted newest row to the next row (%s is not AUTOINCREMENT): the tail would not see that row, and a release stream loses it unless a poll in between shows that, and stops it", id.Name).
				Says("nothing where the newest rows are never deleted; otherwise let the application recreate the table with the id as INTEGER PRIMARY KEY AUTOINCREMENT")
		}
		t.CheckIssuer()
	}
	t.CheckModified()
	if t.Spec.IDFormat != "" && index != nil {
		id, _ := t.Table.Column(t.Spec.ID)
		ids, _ := idColumnOf(t.Spec.IDFormat, id, index)
		return t.CheckFormat(ids.IDColumn, "", func(first bool, take func([]byte)) error {
			direction := map[bool]string{true: " ASC", false: " DESC"}[first]
			return c.query(ctx, "SELECT "+ids.name+" AS outermost FROM "+t.quoted()+" WHERE "+ids.name+" IS NOT NULL ORDER BY "+ids.name+direction+" LIMIT 1", func(get func(string) string) { take([]byte(get("outermost"))) })
		})
	}
	if t.Refusal() != nil {
		return nil
	}
	next, err := t.nextID(ctx, c)
	if err != nil {
		return err
	}
	var highest int64
	var unknown error
	// SQLite reads all rows for a MIN and a MAX in one.
	outermost := func(most string) string {
		return "(SELECT " + most + "(" + quoteName(t.Spec.ID) + ") FROM " + t.quoted() + ")"
	}
	err = c.query(ctx, "SELECT "+outermost("MIN")+" AS lowest, COALESCE("+outermost("MAX")+", 0) AS highest", func(get func(string) string) {
		t.CheckLowest(get("lowest"))
		highest, unknown = strconv.ParseInt(get("highest"), 10, 64)
	})
	if err == nil && unknown == nil {
		// A highest id below 1 is none.
		t.CheckPosition(uint64(max(highest, 0)), next, "emptied")
	}
	return err
}

// namedKinds are the types that go by their name, whatever their affinity.
var namedKinds = map[source.Kind]string{
	source.Int: "BOOL BOOLEAN BIT YEAR LONG SERIAL", source.Decimal: "DEC DECIMAL FIXED NUM NUMBER NUMERIC MONEY SMALLMONEY CURRENCY",
	source.Text: "INTERVAL POINT", source.Binary: "BINARY VARBINARY BYTEA IMAGE", source.JSON: "JSON JSONB", source.Date: "DATE", source.Clock: "TIME TIMETZ",
	source.Timestamp: "DATETIME DATETIME2 SMALLDATETIME DATETIMEOFFSET TIMESTAMP TIMESTAMPTZ",
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

// parseType takes an unknown type for text: it holds a value of any class.
func parseType(declared string) source.Kind {
	for kind, names := range namedKinds {
		if slices.Contains(strings.Fields(names), typeName(declared)) {
			return kind
		}
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

func mayBeTime(kind source.Kind, declared string) bool {
	switch kind {
	case source.Int:
		return !isBoolean(declared)
	case source.Text, source.Decimal:
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

var (
	// quotedSQL is what stands in quotes or comments.
	quotedSQL = regexp.MustCompile("(?s)'[^']*'|\"[^\"]*\"|`[^`]*`|\\[[^]]*\\]|--[^\n]*|/\\*.*?\\*/")
	// autoIncrement is the keyword as a whole word. It cannot stand outside of quotes as a name.
	autoIncrement = regexp.MustCompile(`(?i)(?:^|[^\w$[:^ascii:]])AUTOINCREMENT(?:$|[^\w$[:^ascii:]])`)
)

func isAutoIncrement(statement string) bool {
	return autoIncrement.MatchString(quotedSQL.ReplaceAllString(statement, " "))
}
