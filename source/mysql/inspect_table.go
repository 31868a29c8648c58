package mysql

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"example.org/bridge/internal/inspect"
	"example.org/bridge/internal/option"
	"example.org/bridge/source"
)

// tableFacts is what a login with SELECT can see of a table.
type tableFacts struct {
	columns []tableColumn
	indexes []tableIndex
	// create is what SHOW CREATE TABLE says, "" where the login may not ask.
	create string
	listed
	// unproved says that nothing but the table's counter keeps its ids unique.
	unproved bool
	// autoIncrement is the column that the database numbers.
	autoIncrement string
	// lowest is the lowest id where it is below 1, highest the highest one.
	lowest  int64
	highest uint64
}

// column returns a column by its name, ignoring case.
func (f *tableFacts) column(name string) (tableColumn, bool) {
	if at := find(f.columns, name); at >= 0 {
		return f.columns[at], true
	}
	return tableColumn{}, false
}

// tableInspection judges one table.
type tableInspection struct {
	*shard
	inspect.Report
	expected source.Expected
	server   serverFacts
	facts    tableFacts
}

// inspectTable looks at one table.
func (s *Source) inspectTable(ctx context.Context, expected source.Expected, server serverFacts) source.TableInspection {
	spec := expected.Spec
	t := &tableInspection{
		shard:    s.newShard(spec),
		expected: expected, server: server,
	}
	if t.table.database == "" {
		return source.TableInspection{Findings: []inspect.Finding{t.tableFault(errNoDatabase)}}
	}
	err := s.do(ctx, s.db, t.inspect)
	if err != nil {
		t.Findings = append(t.Findings, t.tableFault(err))
	}
	found := source.TableInspection{Findings: t.Findings}
	if column, ok := t.facts.column(t.spec.Deleted); ok {
		found.DeletedType = column.columnType
	}
	if err == nil && !t.facts.isView {
		found.Order, found.Why = t.order()
		found.Findings = t.Findings
	}
	return found
}

// inspect reads the facts, as far as they can be read, and adds the findings.
func (t *tableInspection) inspect(ctx context.Context, c conn) error {
	if err := t.readColumns(ctx, c); err != nil {
		return err
	}
	complete, err := t.checkColumns(ctx, c)
	if err != nil {
		return err
	}
	if complete {
		if err := t.checkHidden(ctx, c); err != nil {
			return err
		}
	}
	if t.facts.indexes, err = t.readIndexes(ctx, c); err != nil {
		return err
	}
	if err := t.readTable(ctx, c); err != nil {
		return err
	}
	if t.facts.isView {
		t.Add(inspect.Unsafe, inspect.IDNotUnique, t.spec.Table, "is a view, which has no unique index over its id").
			Says("name the table behind it with %s; %s chooses among its columns", option.Table, option.Fields)
		return nil
	}
	t.facts.indexes, t.facts.unproved = cutPrimary(t.facts.indexes, t.facts.autoIncrement, t.spec.ID)
	t.checkEngine()
	if id, ok := t.facts.column(t.spec.ID); ok && t.checkID(id) {
		if err := t.readIDs(ctx, c); err != nil {
			return err
		}
		t.expected.CheckPosition(&t.Report, t.facts.highest, t.facts.next, "truncated")
	}
	if complete {
		if err := t.checkFilter(ctx, c); err != nil {
			return err
		}
		t.checkKeyIndex()
		t.checkTimes()
		t.checkModified()
		return t.checkOffsets(ctx, c)
	}
	return nil
}

// readColumns also finds out whether the login may SELECT at all: any privilege shows the columns.
func (t *tableInspection) readColumns(ctx context.Context, c conn) error {
	t.facts.columns, t.facts.autoIncrement = nil, ""
	err := c.query(ctx, "SHOW FULL COLUMNS FROM "+t.table.quoted(), func(get func(string) string) {
		if !mayRead(get("Privileges")) {
			return
		}
		t.facts.columns = append(t.facts.columns, tableColumn{
			name: get("Field"), columnType: get("Type"), nullable: get("Null") == "YES",
			moves: strings.Contains(strings.ToLower(get("Extra")), "on update"),
		})
		if strings.Contains(strings.ToLower(get("Extra")), "auto_increment") || strings.Contains(strings.ToLower(get("Extra")), "auto_random") {
			t.facts.autoIncrement = get("Field")
		}
	})
	if err != nil {
		return err
	}
	return c.query(ctx, "SELECT 1 FROM "+t.table.quoted()+" LIMIT 0", func(func(string) string) {})
}

// readTable reads what the server keeps about the table.
func (t *tableInspection) readTable(ctx context.Context, c conn) (err error) {
	id, _ := t.facts.column(t.spec.ID)
	if t.facts.listed, err = t.list(ctx, c, id.columnType); err != nil {
		return err
	}
	t.facts.create, err = t.readCreate(ctx, c)
	return err
}

// readIDs reads both ends of the id's index.
func (t *tableInspection) readIDs(ctx context.Context, c conn) error {
	id := quoteName(t.spec.ID)
	var malformed error
	err := c.query(ctx, "SELECT MIN("+id+") AS lowest, MAX("+id+") AS highest FROM "+t.table.quoted(), func(get func(string) string) {
		lowest, highest := get("lowest"), get("highest")
		if strings.HasPrefix(lowest, "-") || lowest == "0" {
			if t.facts.lowest, malformed = strconv.ParseInt(lowest, 10, 64); malformed == nil {
				t.checkNegative(lowest)
			}
		}
		if highest != "" && !strings.HasPrefix(highest, "-") {
			t.facts.highest, malformed = strconv.ParseUint(highest, 10, 64)
		}
	})
	if err != nil {
		return err
	}
	return malformed
}

// checkColumns reports whether every column that the stream names is there and may be read.
func (t *tableInspection) checkColumns(ctx context.Context, c conn) (complete bool, err error) {
	complete = true
	seen := make(map[source.Role]bool)
	for _, r := range t.spec.Named() {
		if seen[r] {
			continue
		}
		seen[r] = true
		err := c.query(ctx, "SELECT "+quoteName(r.Column)+" FROM "+t.table.quoted()+" LIMIT 0", func(func(string) string) {})
		switch number(err) {
		case 0:
			if err != nil {
				return false, err
			}
			listed, err := t.isListed(ctx, c, r.Column)
			if err != nil {
				return false, err
			}
			if !listed {
				complete = false
				t.Add(inspect.Unsafe, inspect.NoColumn, t.spec.Table, fmt.Sprintf("has a hidden column %q, which %s names: it can be selected, but SHOW COLUMNS does not list it, so its type cannot be told", r.Column, r.Setting)).
					Says("declare the column in the table, or name another one with %s: the columns are %s", r.Setting, columnNames(t.facts.columns))
			}
		case erBadField:
			complete = false
			t.Add(inspect.Unsafe, inspect.NoColumn, t.spec.Table, fmt.Sprintf("has no column %q, which %s names", r.Column, r.Setting)).
				Says("correct %s: the columns are %s", r.Setting, columnNames(t.facts.columns))
		case erColAccessDenied, erTableAccessDenied:
			if r.Setting == option.Exclude {
				continue
			}
			complete = false
			t.Add(inspect.Unsafe, inspect.NoGrant, t.spec.Table, fmt.Sprintf("has a column %q, which %s names, that this login may not read", r.Column, r.Setting)).
				Says("let an administrator run").Types("%s;", t.grant())
		default:
			return false, err
		}
	}
	return complete, nil
}

// checkHidden tells of columns that the login may not read. One that EXCLUDE names may be the only
// one: the server does not tell whether there are others.
func (t *tableInspection) checkHidden(ctx context.Context, c conn) error {
	if t.spec.Fields != nil {
		return nil
	}
	named := slices.ContainsFunc(t.spec.Exclude, func(name string) bool { return find(t.facts.columns, name) < 0 })
	err := c.query(ctx, "SELECT * FROM "+t.table.quoted()+" LIMIT 0", func(func(string) string) {})
	switch number(err) {
	case erColAccessDenied, erTableAccessDenied:
		if named {
			t.Add(inspect.Note, inspect.HiddenColumns, t.spec.Table, fmt.Sprintf("has columns that this login may not read, which %s names; "+
				"others, if there are any, are left out too, as if they were not there: it may read %s", option.Exclude, columnNames(t.facts.columns))).
				Says("if columns to publish are missing, let an administrator run").Types("%s;", t.grant())
			return nil
		}
		t.Add(inspect.Warning, inspect.HiddenColumns, t.spec.Table, "has columns that this login may not read, which are left out as if they were not there: it may read "+columnNames(t.facts.columns)).
			Says("name the columns to publish with %s, or those to leave out with %s; or let an administrator run", option.Fields, option.Exclude).Types("%s;", t.grant())
		return nil
	}
	return err
}

// isListed reports whether the server lists a column that can be selected. One that was added
// meanwhile is listed by now.
func (t *tableInspection) isListed(ctx context.Context, c conn, name string) (bool, error) {
	if _, ok := t.facts.column(name); ok {
		return true, nil
	}
	err := t.readColumns(ctx, c)
	_, ok := t.facts.column(name)
	return ok, err
}

func columnNames(table []tableColumn) string {
	names := make([]string, len(table))
	for i, column := range table {
		names[i] = column.name
	}
	return strings.Join(names, ", ")
}

func (t *tableInspection) checkEngine() {
	if t.facts.engine == "" || strings.EqualFold(t.facts.engine, "InnoDB") {
		return
	}
	// TiDB and OceanBase call theirs InnoDB.
	t.Add(inspect.Warning, inspect.Engine, t.spec.Table, "is kept by "+t.facts.engine+": only InnoDB has transactions whose uncommitted rows show, and pages that are one moment").
		Says("let an administrator move it").Types("ALTER TABLE %s ENGINE = InnoDB;", t.table.quoted())
}
