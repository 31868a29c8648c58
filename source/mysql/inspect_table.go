package mysql

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"bridge/internal/inspect"
	"bridge/source"
)

// tableFacts is what a login with SELECT can see of a table.
type tableFacts struct {
	columns []tableColumn
	indexes []tableIndex
	// create is what SHOW CREATE TABLE says, "" where the login may not ask.
	create string
	engine string
	// autoIncrement is the column that the database numbers.
	autoIncrement string
	// lowest is the lowest id where it is below 1, highest the highest one; next is the next one, 0 when not told.
	lowest        int64
	highest, next uint64
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
		shard:    &shard{source: s, spec: spec, table: nameTable(spec.Table, s.options.Database)},
		expected: expected, server: server,
	}
	if t.table.database == "" {
		return source.TableInspection{Findings: []inspect.Finding{t.tableFault(errNoDatabase)}}
	}
	err := s.do(ctx, s.db, t.look)
	if err != nil {
		t.Findings = append(t.Findings, t.tableFault(err))
	}
	found := source.TableInspection{Findings: t.Findings}
	if err == nil {
		found.Order, found.Why = t.order()
		found.Findings = t.Findings
	}
	return found
}

// look reads the facts, as far as they can be read, and judges them.
func (t *tableInspection) look(ctx context.Context, c conn) error {
	if err := t.readColumns(ctx, c); err != nil {
		return err
	}
	complete, err := t.judgeColumns(ctx, c)
	if err != nil {
		return err
	}
	if t.facts.indexes, err = t.readIndexes(ctx, c); err != nil {
		return err
	}
	if err := t.readTable(ctx, c); err != nil {
		return err
	}
	t.judgeEngine()
	if find(t.facts.columns, t.spec.ID) >= 0 && t.judgeID() {
		if err := t.readIDs(ctx, c); err != nil {
			return err
		}
		t.judgePosition()
	}
	if complete {
		t.judgeKey()
		t.judgeTimes()
		t.judgeModified()
	}
	return nil
}

// readColumns also finds out whether the login may SELECT at all: any privilege shows the columns.
func (t *tableInspection) readColumns(ctx context.Context, c conn) error {
	err := c.query(ctx, "SHOW COLUMNS FROM "+t.table.quoted(), func(get func(string) string) {
		t.facts.columns = append(t.facts.columns, tableColumn{
			name: get("Field"), columnType: get("Type"), nullable: get("Null") == "YES",
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
func (t *tableInspection) readTable(ctx context.Context, c conn) error {
	const query = "SELECT TABLE_NAME AS name, ENGINE AS engine FROM information_schema.TABLES WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ?"
	err := c.query(ctx, query, func(get func(string) string) {
		if t.facts.engine == "" || get("name") == t.table.table {
			t.facts.engine = get("engine")
		}
	}, t.table.database, t.table.table)
	if err != nil {
		return err
	}
	err = c.query(ctx, "SHOW CREATE TABLE "+t.table.quoted(), func(get func(string) string) { t.facts.create = get("Create Table") })
	if err != nil && number(err) == 0 {
		return err
	}
	t.facts.next, err = t.nextID(ctx, c)
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
				t.judgeNegative(lowest)
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

// judgeColumns reports whether every column that the stream names is there and may be read.
func (t *tableInspection) judgeColumns(ctx context.Context, c conn) (complete bool, err error) {
	complete = true
	seen := make(map[role]bool)
	for _, r := range t.roles() {
		if seen[r] {
			continue
		}
		seen[r] = true
		err := c.query(ctx, "SELECT "+quoteName(r.column)+" FROM "+t.table.quoted()+" LIMIT 0", func(func(string) string) {})
		switch number(err) {
		case erBadField:
			complete = false
			t.Add(inspect.Unsafe, inspect.NoColumn, t.spec.Table, fmt.Sprintf("has no column %q, which %s names", r.column, r.setting)).
				Says("correct %s of the stream: the columns are %s", r.setting, t.columnNames())
		case erColAccessDenied, erTableAccessDenied:
			complete = false
			t.Add(inspect.Unsafe, inspect.NoGrant, t.spec.Table, fmt.Sprintf("has a column %q, which %s names, that this login may not read", r.column, r.setting)).
				Says("let an administrator run").Types("%s;", t.grant())
		default:
			if err != nil {
				return false, err
			}
		}
	}
	return complete, nil
}

func (t *tableInspection) columnNames() string {
	names := make([]string, len(t.facts.columns))
	for i, column := range t.facts.columns {
		names[i] = column.name
	}
	return strings.Join(names, ", ")
}

func (t *tableInspection) judgeEngine() {
	if t.facts.engine == "" || strings.EqualFold(t.facts.engine, "InnoDB") {
		return
	}
	// TiDB and OceanBase call theirs InnoDB.
	t.Add(inspect.Warning, inspect.Engine, t.spec.Table, "is kept by "+t.facts.engine+": only InnoDB has transactions whose uncommitted rows show, and pages that are one moment").
		Says("let an administrator move it").Types("ALTER TABLE %s ENGINE = InnoDB;", t.table.quoted())
}

// judgePosition compares the position with the ids that the table has.
func (t *tableInspection) judgePosition() {
	if t.expected.Position == nil {
		return
	}
	position, highest, next := *t.expected.Position, t.facts.highest, t.facts.next
	set := "bridge checkpoint set " + t.expected.Stream + " " + t.expected.Shard
	commands := fmt.Sprintf("%s 0\n%s %d", set, set, highest)
	switch {
	case position == 0:
	case next > 0 && next <= position:
		t.Add(inspect.Unsafe, inspect.IDsReused, t.spec.Table, fmt.Sprintf("gives the id %d to its next row, but ids up to %d count as published: new rows would never be seen", next, position)).
			Says("the table was truncated or restored, or the checkpoint is of another table; stop bridge, then publish all of it, or go on behind its highest id").
			Types("%s", commands)
	case next == 0 && position > highest:
		t.Add(inspect.Warning, inspect.PositionAhead, t.spec.Table, fmt.Sprintf("has no id above %d, but ids up to %d count as published", highest, position)).
			Says("nothing where the newest rows were deleted; otherwise the checkpoint is of another table: stop bridge, then publish all of this one, or go on behind its highest id").
			Types("%s", commands)
	}
}

// order returns how ids are taken to be handed out, and adds what contradicts that.
func (t *tableInspection) order() (source.IDOrder, string) {
	traits := order(t.server.variables, t.facts.create)
	taken, why := t.expected.Order, "by ID_ORDER"
	if taken == "" {
		taken, why = traits.Order, traits.OrderWhy
		t.judgeIssuer()
	}
	switch {
	case taken == source.OrderNone && t.expected.Order == "":
		t.Add(inspect.Warning, inspect.IDOrder, t.spec.Table, "has ids without an order: "+traits.OrderWhy).
			Says("nothing is tailed; every change waits for the next reconcile")
	case traits.Order == source.OrderSegmented && (taken == source.OrderStrict || taken == source.OrderStrided):
		t.Add(inspect.Warning, inspect.IDOrder, t.spec.Table, fmt.Sprintf("gets its ids in blocks (%s), but ID_ORDER is %s", traits.OrderWhy, taken)).
			Says("set ID_ORDER=segmented, or auto, for this stream")
	}
	if taken == source.OrderSegmented && t.expected.Hold {
		t.Add(inspect.Unsafe, inspect.IDOrder, t.spec.Table, "gets its ids in blocks, but GAP_POLICY is hold, which would wait for hours at a gap").
			Says("set GAP_POLICY=late for this stream")
	}
	return taken, why
}

// judgeIssuer warns of ids that the database does not hand out: who does, and in which order, does not show.
func (t *tableInspection) judgeIssuer() {
	if !strings.EqualFold(t.facts.autoIncrement, t.spec.ID) && find(t.facts.columns, t.spec.ID) >= 0 {
		t.Add(inspect.Warning, inspect.IDIssuer, t.spec.Table, fmt.Sprintf("does not number its rows itself (%s is not AUTO_INCREMENT), so it does not show in which order ids come", t.spec.ID)).
			Says("say so with ID_ORDER of the stream: segmented where writers hold blocks of ids, none where ids have no order, strict where one counter hands them out")
	}
}

// judgeTimes looks at the columns with the times of a row.
func (t *tableInspection) judgeTimes() {
	zoneless := ""
	for _, r := range []role{{"CREATED", t.spec.Created}, {"MODIFIED", t.spec.Modified}} {
		if r.column == "" {
			continue
		}
		column := t.facts.columns[find(t.facts.columns, r.column)]
		kind, precision := parseType(column.columnType)
		switch resolution := (source.Column{Kind: kind, Precision: precision}).Resolution(); {
		case resolution == 0:
			t.Add(inspect.Unsafe, inspect.TimeType, t.spec.Table, fmt.Sprintf("has the column %s of type %s, but %s must be a DATETIME or TIMESTAMP", column.name, column.columnType, r.setting)).
				Says("correct %s of the stream", r.setting)
		case resolution >= time.Second:
			t.judgePrecision(r, column, resolution)
		}
		if kind == source.DateTime {
			zoneless = column.name
		}
	}
	if zoneless != "" {
		t.judgeZone(zoneless)
	}
}

func (t *tableInspection) judgePrecision(r role, column tableColumn, resolution time.Duration) {
	what := fmt.Sprintf("keeps %s (%s) in steps of %s: ", r.setting, column.name, strings.TrimSuffix(resolution.String(), "0m0s"))
	if r.setting == "CREATED" {
		what += "the stability window grows by as much, up to the time since a row was first seen"
	} else {
		what += "two changes within one step look alike until they are read"
	}
	f := t.Add(inspect.Note, inspect.SecondPrecision, t.spec.Table, what).Says("nothing has to be done; for microseconds let an administrator run")
	if definition := finer(definitionOf(t.facts.create, column.name)); definition != "" {
		f.Types("ALTER TABLE %s MODIFY %s;", t.table.quoted(), definition)
	}
}

// judgeZone compares the zone in which the server writes times with the one that the stream takes them for.
func (t *tableInspection) judgeZone(column string) {
	zone := t.expected.Zone
	if zone == nil {
		zone = time.UTC
	}
	_, want := time.Now().In(zone).Zone()
	if t.server.zone == nil || t.server.zone.Abs() > 15*time.Hour || *t.server.zone == time.Duration(want)*time.Second {
		return
	}
	t.Add(inspect.Note, inspect.TimeZone, t.spec.Table, fmt.Sprintf("has %s without a zone; the server writes NOW() %s from UTC there, TIME_ZONE is %s", column, *t.server.zone, zone)).
		Says("set TIME_ZONE of the stream to the zone in which the column is filled; nothing where the application fills it in %s", zone)
}
