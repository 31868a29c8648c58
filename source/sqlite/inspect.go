package sqlite

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"example.org/bridge/internal/inspect"
	"example.org/bridge/internal/option"
	"example.org/bridge/source"
)

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
		found.Server.Add(inspect.Unsafe, inspect.SourceUnreachable, "file", "cannot be read: "+explain(err).Error()).
			Says("correct the path in %s, or see to the file; to try it by hand", option.SourceURL).Types("sqlite3 -readonly %s .tables", s.options.Path)
		return found
	}
	found.Tables = source.InspectTables(tables, atOnce, s.options.Logger, func(expected source.Expected) source.TableInspection {
		return s.inspectTable(ctx, expected)
	})
	return found
}

// tableInspection judges one table.
type tableInspection struct {
	*shard
	inspect.Report
	expected source.Expected
	info     tableInfo
}

func (s *Source) inspectTable(ctx context.Context, expected source.Expected) source.TableInspection {
	t := &tableInspection{shard: &shard{source: s, spec: expected.Spec, table: nameTable(expected.Spec.Table)}, expected: expected}
	found := source.TableInspection{Order: source.OrderStrict, Why: "SQLite has one writer at a time"}
	if expected.Order != "" {
		found.Order, found.Why = expected.Order, "by ID_ORDER"
	}
	if err := s.do(ctx, t.inspect); err != nil {
		t.fault(err)
		found.Order, found.Why = "", ""
	}
	found.Findings = t.Findings
	return found
}

// fault turns an error that keeps the table from being looked at into a finding.
func (t *tableInspection) fault(err error) {
	if errors.Is(err, source.ErrMissing) {
		t.Add(inspect.Unsafe, inspect.NoTable, t.spec.Table, "does not exist").
			Says("create the table, or correct %s or the path in %s", option.Table, option.SourceURL).Types("sqlite3 -readonly %s .tables", t.source.options.Path)
		return
	}
	t.Add(inspect.Unsafe, inspect.NotInspected, t.spec.Table, "could not be looked at: "+explain(err).Error()).
		Says("see to the cause, then run bridge check again")
}

// inspect reads the schema and adds the findings.
func (t *tableInspection) inspect(ctx context.Context, c *session) (err error) {
	// Again after a lock, from the beginning.
	t.Findings = nil
	if t.info, err = t.readTable(ctx, c); err != nil {
		return err
	}
	indexes, err := t.readIndexes(ctx, c, t.info)
	if err != nil {
		return err
	}
	complete := t.checkColumns()
	if find(t.info.columns, t.spec.ID) >= 0 {
		sound, err := t.checkID(ctx, c)
		if err != nil {
			return err
		}
		if complete && sound {
			if err := t.checkPosition(ctx, c); err != nil {
				return err
			}
		}
	}
	if complete {
		if err := t.checkFilter(ctx, c); err != nil {
			return err
		}
		if t.info.kind == "table" {
			t.checkKeyIndex(indexes)
		}
		t.checkTimes(indexes)
	}
	return nil
}

// checkColumns reports whether every column that the stream names is there.
func (t *tableInspection) checkColumns() (complete bool) {
	complete = true
	names := make([]string, len(t.info.columns))
	for i, column := range t.info.columns {
		names[i] = column.name
	}
	for _, r := range t.spec.Roles() {
		if find(t.info.columns, r.Column) < 0 {
			complete = false
			t.Add(inspect.Unsafe, inspect.NoColumn, t.spec.Table, fmt.Sprintf("has no column %q, which %s names", r.Column, r.Setting)).
				Says("correct %s: the columns are %s", r.Setting, strings.Join(names, ", "))
		}
	}
	return complete
}

// checkID reports whether the table can be tailed by its id.
func (t *tableInspection) checkID(ctx context.Context, c *session) (sound bool, err error) {
	id := t.info.columns[find(t.info.columns, t.spec.ID)]
	if !isID(id.declared) {
		t.Add(inspect.Unsafe, inspect.IDType, t.spec.Table, fmt.Sprintf("has the id column %s of type %s, which is not an integer", id.name, orNone(id.declared))).
			Says("name the integer column that counts up with %s", option.ID)
		return false, nil
	}
	unique, err := t.uniqueIndexes(ctx, c, t.info)
	if err != nil {
		return false, err
	}
	index, found := unique[upper(id.name)]
	switch {
	case !found && t.info.kind != "table":
		t.Add(inspect.Unsafe, inspect.IDNotUnique, t.spec.Table, "is a "+t.info.what()+", which takes no unique index over its id").
			Says("name the table behind it with %s; %s and %s choose among its columns and rows", option.Table, option.Fields, option.Filter)
		return false, nil
	case !found:
		t.Add(inspect.Unsafe, inspect.IDNotUnique, t.spec.Table, fmt.Sprintf("has no unique index over its id column %s alone", id.name)).
			Says("name another column with %s, or let the application run", option.ID).Types("%s", t.createUnique(id.name))
		return false, nil
	case index != "" && !id.notNull:
		t.Add(inspect.Unsafe, inspect.IDNull, t.spec.Table, fmt.Sprintf("has the id column %s that may be NULL", id.name)).
			Says("let the application recreate the table with the id as INTEGER PRIMARY KEY AUTOINCREMENT")
		return false, nil
	case index == "" && !t.info.autoIncrement && !t.info.withoutRowID:
		t.Add(inspect.Warning, inspect.IDReuse, t.spec.Table, fmt.Sprintf("gives the id of a deleted newest row to the next row (%s is not AUTOINCREMENT): that row would not be seen by the tail", id.name)).
			Says("nothing where the newest rows are never deleted; otherwise let the application recreate the table with the id as INTEGER PRIMARY KEY AUTOINCREMENT")
	case index != "" || t.info.withoutRowID:
		if t.expected.Order == "" {
			t.Add(inspect.Warning, inspect.IDIssuer, t.spec.Table, fmt.Sprintf("does not number its rows itself (%s is not its INTEGER PRIMARY KEY), so it does not show in which order ids come", id.name)).
				Says("say so with %s: segmented where writers hold blocks of ids, none where ids have no order, strict where one counter hands them out", option.IDOrder)
		}
	}
	return true, nil
}

// checkPosition compares the position with the ids that the table has.
func (t *tableInspection) checkPosition(ctx context.Context, c *session) error {
	if t.expected.Position == nil || *t.expected.Position == 0 {
		return nil
	}
	next, err := t.nextID(ctx, c)
	if err != nil {
		return err
	}
	var highest uint64
	err = c.query(ctx, "SELECT COALESCE(MAX("+quoteName(t.spec.ID)+"), 0) AS highest FROM "+t.table.quoted(), func(get func(string) string) {
		// A highest id below 1 is none.
		if n, err := strconv.ParseUint(get("highest"), 10, 64); err == nil {
			highest = n
		}
	})
	if err != nil {
		return err
	}
	t.expected.CheckPosition(&t.Report, highest, next, "emptied")
	return nil
}

// checkKeyIndex looks whether every entity is a single row.
func (t *tableInspection) checkKeyIndex(indexes []tableIndex) {
	if !t.spec.UniqueKey || len(t.spec.Key) == 0 {
		return
	}
	for _, key := range t.spec.Key {
		if column := t.info.columns[find(t.info.columns, key)]; t.form(column).kind == source.Float {
			t.Add(inspect.Unsafe, inspect.KeyType, t.spec.Table, fmt.Sprintf("has the KEY column %s of type %s, an approximate number, which identifies nothing", column.name, column.declared)).
				Says("name other columns with %s", option.Key)
			return
		}
	}
	if proof, fault := t.keyIndex(indexes, t.info); fault != "" {
		t.Add(inspect.Unsafe, inspect.KeyNotUnique, t.spec.Table, fmt.Sprintf("has %s over its KEY (%s): an entity must be a single row", fault, strings.Join(t.spec.Key, ", "))).
			Says("name the columns of a unique index with %s, or let the application declare the columns NOT NULL and run", option.Key).
			Types("%s", t.createUnique(t.spec.Key...))
	} else if null := proof.nullKey(t.info); len(null) > 0 {
		t.Add(inspect.Note, inspect.KeyNull, t.spec.Table, fmt.Sprintf("has a KEY whose column %s may be NULL: rows with NULL there are not published, as they are no single rows", strings.Join(null, ", "))).
			Says("nothing where there are none; %s=stop stops at the first", option.OnBadValue)
	}
}

// checkTimes looks at the columns with the times of a row.
func (t *tableInspection) checkTimes(indexes []tableIndex) {
	if err := t.checkRoles(t.info.columns); err != nil {
		t.Add(inspect.Unsafe, inspect.TimeType, t.spec.Table, "has a column that is not a time: "+err.Error()).Says("correct %s or %s", option.Created, option.Modified)
	}
	t.expected.CheckNoModified(&t.Report, t.spec.ModifiedCandidates(t.times(indexes)))
	if t.spec.Modified == "" || !t.expected.Updates {
		return
	}
	if t.modifiedIndex(indexes).by != "" {
		return
	}
	t.Add(inspect.Warning, inspect.ModifiedIndex, t.spec.Table, "has no index that begins with MODIFIED ("+t.spec.Modified+"): updates and soft deletes wait for the next reconcile").
		Says("to have them within a second let the application run").
		Types("%s", t.createModifiedIndex())
}

// times returns the columns that MODIFIED could name.
func (t *tableInspection) times(indexes []tableIndex) (times []source.Candidate) {
	for _, column := range t.info.columns {
		as := *t.shard
		as.spec.Modified = column.name
		if as.form(column).kind != source.Timestamp {
			continue
		}
		c := source.Candidate{Name: column.name}
		if as.modifiedIndex(indexes).by == "" {
			c.CreateIndex = as.createModifiedIndex()
		}
		times = append(times, c)
	}
	return times
}
