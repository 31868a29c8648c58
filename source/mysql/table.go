package mysql

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"example.org/bridge/internal/inspect"
	"example.org/bridge/internal/option"
	"example.org/bridge/source"
	"example.org/bridge/source/internal/sqltable"
)

func (s *shard) readShape(ctx context.Context, c conn, server server) (*shape, source.Masks, error) {
	t := s.inspection(source.Expected{Spec: s.spec})
	if err := t.readColumns(ctx, c); err != nil {
		return nil, nil, err
	}
	if complete, err := t.checkColumns(ctx, c); err != nil || !complete {
		return nil, nil, t.refusal(err)
	}
	if err := t.readIndexes(ctx, c); err != nil {
		return nil, nil, err
	}
	index := t.checkTable(true)
	if t.Refusal() != nil {
		// What to do about it depends on more of the table.
		t.Findings = nil
		err := t.readDetails(ctx, c)
		t.checkTable(true)
		return nil, nil, t.refusal(err)
	}
	if err := t.checkFilter(ctx, c); err != nil || t.Refusal() != nil {
		return nil, nil, t.refusal(err)
	}
	sh := t.compose(index)
	if server.isMariaDB() {
		var err error
		if sh.documents, err = s.findDocuments(ctx, c, sh.columns.List, &t.Table); err != nil {
			return nil, nil, err
		}
	}
	return sh, s.spec.Mask(sh.columns), nil
}

// compose makes the shape of a table that the stream can be read from.
func (t *inspection) compose(index *sqltable.Index) *shape {
	sh := &shape{index: index.Name, filter: t.Spec.Filter, counted: t.counted, unproved: t.unproved}
	var from []int
	sh.columns, from = t.Table.Pick(t.Spec)
	id, _ := t.Table.Column(t.Spec.ID)
	sh.idType = id.Type
	if t.Spec.IDFormat != "" {
		sh.ids, _ = idColumnOf(t.Spec.IDFormat, id)
	}
	var starred []int
	for i, column := range t.Table.Columns {
		if !column.Hidden {
			starred = append(starred, i)
		}
	}
	if sh.whole = slices.Equal(from, starred); !sh.whole && t.Spec.Fields == nil {
		sh.starred = len(starred)
	}
	for _, at := range from {
		column := t.Table.Columns[at]
		sh.single = append(sh.single, isSingle(column.Type))
		if column.Kind == source.Decimal || strings.Contains(strings.ToLower(column.Type), "unsigned") {
			// With a plain NULL MariaDB makes a DECIMAL of an unsigned integer in a UNION.
			sh.empty += ", CAST(NULL AS UNSIGNED)"
		} else {
			sh.empty += ", NULL"
		}
		sh.selected += ", " + quoteName(column.Name)
		if isSingle(column.Type) {
			// As a double: the server rounds the text of a float to six digits.
			sh.selected += " + 0e0"
		}
	}
	sh.key = findByKey(sh, &t.Table)
	if modified := t.Table.Modified(t.Spec); modified != nil {
		sh.modified = modified.Name
	}
	sh.columns.ByID = sh.ids.Format.HasTime() && sh.modified == ""
	sh.columns.Indexed = sh.columns.ByID || sh.modified != ""
	return sh
}

type inspection struct {
	*shard
	sqltable.Inspection
	server *serverFacts
	listed
	// create is what SHOW CREATE TABLE says, "" where the login may not ask, or nobody has asked.
	create string
	// counted says that the id is AUTO_INCREMENT, unproved that nothing else keeps ids unique.
	counted, unproved bool
	generated         bool
}

func (s *shard) inspection(expected source.Expected) *inspection {
	t := &inspection{shard: s, server: new(serverFacts)}
	t.Inspection = sqltable.Inspection{Spec: s.spec, Expected: expected, Dialect: sqltable.Dialect{
		Who: "an administrator", Counter: "AUTO_INCREMENT", Times: "DATETIME or TIMESTAMP", MakeNotNull: "make it NOT NULL",
		IsID: func(c sqltable.Column) bool {
			return c.Kind == source.Int && !strings.HasPrefix(strings.ToLower(c.Type), "year")
		},
		UnfitID: func(c sqltable.Column) (why string) {
			_, why = idColumnOf(t.Spec.IDFormat, c)
			return why
		},
		IsTime:    func(c sqltable.Column) bool { return c.Kind == source.DateTime || c.Kind == source.Timestamp },
		AddUnique: s.addUnique, AddModified: s.createModifiedIndex,
		SetNotNull: func(column string) string { return t.modify(notNull(definitionOf(t.create, column))) },
	}}
	return t
}

func (t *inspection) refusal(err error) error {
	if err != nil {
		return err
	}
	return t.Refusal()
}

// modify returns the statement that gives a column another definition, "" for none.
func (t *inspection) modify(definition string) string {
	if definition == "" {
		return ""
	}
	return "ALTER TABLE " + t.quoted() + " MODIFY " + definition
}

func (s tableSpec) addUnique(columns ...string) string {
	return "ALTER TABLE " + s.quoted() + " ADD UNIQUE KEY (" + sqltable.Quote("`", columns...) + ")"
}

func (s tableSpec) createModifiedIndex(modified string) string {
	return fmt.Sprintf("CREATE INDEX %s ON %s (%s)", quoteName(modified+"_"+s.spec.ID), s.quoted(), sqltable.Quote("`", modified, s.spec.ID))
}

// readColumns leaves out a column that the login may only write, as one that it does not see.
func (t *inspection) readColumns(ctx context.Context, c conn) error {
	t.Table.Columns, t.counted = nil, false
	return c.query(ctx, "SHOW FULL COLUMNS FROM "+t.quoted(), func(get func(string) string) {
		if privileges := strings.ToLower(get("Privileges")); privileges != "" && !strings.Contains(privileges, "select") {
			return
		}
		extra := strings.ToLower(get("Extra"))
		kind, precision := parseType(get("Type"))
		column := sqltable.Column{
			Column: source.Column{Name: get("Field"), Kind: kind, Precision: precision, NotNull: get("Null") != "YES"},
			Type:   get("Type"), Collation: get("Collation"), Nullable: get("Null") == "YES",
			Hidden: strings.Contains(extra, "invisible"), Moves: strings.Contains(extra, "on update"),
			Numbered: strings.Contains(extra, "auto_increment") || strings.Contains(extra, "auto_random"),
		}
		t.counted = t.counted || strings.EqualFold(column.Name, t.Spec.ID) && strings.Contains(extra, "auto_increment")
		t.generated = t.generated || strings.Contains(extra, "stored generated")
		t.Table.Columns = append(t.Table.Columns, column)
	})
}

func (t *inspection) checkColumns(ctx context.Context, c conn) (complete bool, err error) {
	complete = true
	seen := make(map[source.Role]bool)
	for _, r := range t.Spec.Named() {
		if seen[r] || t.Table.At(r.Column) >= 0 {
			continue
		}
		seen[r] = true
		// SHOW COLUMNS hides a column without a grant; the error tells that from a missing one.
		err := c.query(ctx, "SELECT "+quoteName(r.Column)+" FROM "+t.quoted()+" LIMIT 0", nil)
		switch {
		case err == nil:
			// MariaDB's row_start is one.
			t.Found(inspect.Unsafe, inspect.NoColumn, "has a hidden column %q, which %s names: it can be selected, but SHOW COLUMNS does not list it, so its type cannot be told", r.Column, r.Setting).
				Says("declare the column in the table, or name another one with %s: the columns are %s", r.Setting, t.Table.Names())
		case number(err) == erBadField:
			t.NoColumn(r)
		case !isDenied(err):
			return false, err
		case r.Setting == option.Exclude:
			// What the login may not read is left out anyway.
			continue
		default:
			t.Found(inspect.Unsafe, inspect.NoGrant, "has a column %q, which %s names, that this login may not read", r.Column, r.Setting).
				Says("let an administrator run").Types("%s;", t.source.grant(t.quoted()))
		}
		complete = false
	}
	return complete, nil
}

func (t *inspection) readDetails(ctx context.Context, c conn) (err error) {
	id, _ := t.Table.Column(t.Spec.ID)
	if t.listed, err = t.readListed(ctx, c, id.Type); err != nil {
		return err
	}
	if !t.Dialect.IsID(id) && t.Spec.IDFormat == "" {
		err = c.tryQuery(ctx, "SELECT "+quoteName(t.Spec.ID)+" AS sample FROM "+t.quoted()+" LIMIT 1", func(get func(string) string) { t.Sample = get("sample") })
		if err != nil {
			return err
		}
	}
	return c.tryQuery(ctx, "SHOW CREATE TABLE "+t.quoted(), func(get func(string) string) { t.create = get("Create Table") })
}

// checkTable returns the index that the id is read by, nil if there is none.
func (t *inspection) checkTable(complete bool) (index *sqltable.Index) {
	if t.isView {
		t.Found(inspect.Unsafe, inspect.IDNotUnique, "is a view, which has no unique index over its id").
			Says("name the table behind it with %s; %s and %s choose among its columns and rows", option.Table, option.Fields, option.Filter)
		return nil
	}
	if t.Table.At(t.Spec.ID) >= 0 {
		index = t.checkID()
	}
	if complete {
		t.checkKey()
		t.CheckTimes()
	}
	return index
}

func (t *inspection) checkID() *sqltable.Index {
	refused := refusesUnique(t.create, t.Spec.ID)
	index := t.CheckID(refused)
	id := t.Spec.ID
	switch {
	case index == nil:
	case t.unproved:
		const nothing = "nothing where the database numbers all rows; an id that comes twice stops the stream, or its reconcile where it is below the position"
		f := t.Found(inspect.Warning, inspect.IDUnproved, "has no unique index over its id column %s alone, so that nothing but AUTO_INCREMENT keeps ids from coming twice: "+
			"a row that is written with an id of its own may have that of another one", id).Says(nothing)
		if refused == "" && t.create != "" {
			f.Says(nothing+". To be sure let an administrator run").Types("%s;", t.addUnique(id))
		}
	case index.Name != "PRIMARY":
		f := t.Found(inspect.Warning, inspect.IDNotPrimary, "has the id column %s that is not its primary key, so uncommitted rows do not show reliably", id).
			Says("nothing has to be done; %s", gapsExpireByAge)
		if refused == "" && !slices.ContainsFunc(t.Table.Indexes, func(i sqltable.Index) bool { return i.Name == "PRIMARY" }) {
			f.Says("let an administrator run").Types("ALTER TABLE %s ADD PRIMARY KEY (%s);", t.quoted(), quoteName(id))
		}
	}
	return index
}

func (t *inspection) checkKey() {
	f := t.CheckKey()
	if f == nil {
		return
	}
	if refused := refusesUnique(t.create, t.Spec.Key...); refused != "" {
		f.What += ", and " + refused
		f.Says("name these columns with %s, too, or those of another unique index", option.Key).Statement = ""
		return
	}
	for _, key := range t.Spec.Key {
		column, _ := t.Table.Column(key)
		kind := strings.ToLower(column.Type)
		if strings.HasSuffix(kind, "text") || strings.HasSuffix(kind, "blob") || kind == "json" {
			f.Says("name the columns of a unique index with %s, or let an administrator add one; TEXT and BLOB columns need a length there", option.Key).Statement = ""
		}
	}
}

var (
	partitionClause = regexp.MustCompile(`(?m)^\s*(?:/\*!\d+ )?(?:SUB)?PARTITION BY (.*)$`)
	quotedName      = regexp.MustCompile("`(?:[^`]|``)+`")
)

// refusesUnique says why the server refuses a unique index, "" where it does not: each one of a
// partitioned table must have the columns of its partitioning.
func refusesUnique(create string, columns ...string) string {
	clauses := partitionClause.FindAllStringSubmatch(create, -1)
	var by []string
	for _, clause := range clauses {
		for _, name := range quotedName.FindAllString(clause[1], -1) {
			by = append(by, strings.ReplaceAll(name[1:len(name)-1], "``", "`"))
		}
	}
	missing := slices.ContainsFunc(by, func(column string) bool {
		return !slices.ContainsFunc(columns, func(c string) bool { return strings.EqualFold(c, column) })
	})
	switch {
	case len(clauses) == 0 || len(by) > 0 && !missing:
		return ""
	case len(by) == 0:
		return "a unique index of this partitioned table must have the columns of its partitioning"
	}
	return fmt.Sprintf("a unique index of this partitioned table must have %s, the columns of its partitioning", strings.Join(by, ", "))
}

// definitionOf returns a column's line of SHOW CREATE TABLE, "" when it is not there.
func definitionOf(create, column string) string {
	for line := range strings.Lines(create) {
		line = strings.TrimSuffix(strings.TrimSpace(line), ",")
		if strings.HasPrefix(line, quoteName(column)+" ") {
			return line
		}
	}
	return ""
}

var (
	timeType    = regexp.MustCompile("(?i)^(`(?:[^`]|``)+` (?:datetime|timestamp))(\\(\\d\\))?")
	currentTime = regexp.MustCompile(`(?i)\bcurrent_timestamp(\(\d?\))?`)
	nullDefault = regexp.MustCompile(` NULL DEFAULT NULL| DEFAULT NULL| NULL`)
	// attributes are where NOT NULL can stand before.
	attributes = regexp.MustCompile(` (?:DEFAULT|AUTO_INCREMENT|COMMENT|CHECK)(?: |$)|$`)
)

// rewrite changes a definition before its comment.
func rewrite(definition string, change func(string) string) string {
	definition, comment, commented := strings.Cut(definition, " COMMENT '")
	definition = change(definition)
	if commented {
		definition += " COMMENT '" + comment
	}
	return definition
}

// finer returns the definition of a time column with microseconds, "" for another column.
func finer(definition string) string {
	if !timeType.MatchString(definition) {
		return ""
	}
	return rewrite(definition, func(d string) string {
		return currentTime.ReplaceAllString(timeType.ReplaceAllString(d, "${1}(6)"), "CURRENT_TIMESTAMP(6)")
	})
}

// notNull returns the definition of a column that may be NULL as one that may not, "" for none.
func notNull(definition string) string {
	if definition == "" {
		return ""
	}
	return rewrite(definition, func(d string) string {
		if null := nullDefault.FindStringIndex(d); null != nil {
			d = d[:null[0]] + d[null[1]:]
		}
		at := attributes.FindStringIndex(d)[0]
		return d[:at] + " NOT NULL" + d[at:]
	})
}
