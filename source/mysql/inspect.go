package mysql

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"example.org/bridge/internal/inspect"
	"example.org/bridge/internal/option"
	"example.org/bridge/source"
)

var _ source.Inspector = (*Source)(nil)

// Inspect looks at the server and at tables as [source.Inspector] says.
func (s *Source) Inspect(ctx context.Context, tables []source.Expected, atOnce int) source.Inspection {
	var found source.Inspection
	facts, err := s.queryServer(ctx)
	if err != nil {
		s.unreached(&found.Server, err)
		return found
	}
	found.Server.Summary = fmt.Sprintf("%s at %s, %s", facts.product(), s.connector.addr, facts.role())
	facts.checkServer(&found.Server)
	found.Tables = source.InspectTables(tables, atOnce, s.options.Logger, func(expected source.Expected) source.TableInspection {
		return s.inspectTable(ctx, expected, facts)
	})
	return found
}

const (
	erAccessDenied     = 1045
	erNoPassword       = 1698
	erHostNotAllowed   = 1130
	erAccountLocked    = 4151
	erAccountLockedOld = 3118
	erPasswordExpired  = 1862
)

// unreached turns the error of the first connection into a finding.
func (s *Source) unreached(r *inspect.Report, err error) {
	r.Summary = "MySQL protocol at " + s.connector.addr
	try := fmt.Sprintf("mysql -h %s -P %d -u %s -p", s.options.Host, s.options.Port, s.options.User)
	// What the error says of TLS it says already.
	tls := s.options.remedyTLS(err) != "" && number(err) != erAccessDenied
	switch number(err) {
	case erAccessDenied, erNoPassword, erHostNotAllowed, erAccountLocked, erAccountLockedOld, erPasswordExpired, erDBAccessDenied:
		r.Add(inspect.Unsafe, inspect.SourceLogin, "login", "is refused: "+err.Error()).
			Says("correct user, password or ?tls= in %s, or let an administrator see to the login; to try it by hand", option.SourceURL).Types("%s", try)
	default:
		if tls {
			r.Add(inspect.Unsafe, inspect.SourceTLS, "server", "was reached, but not with the ?tls= of its URL: "+err.Error()).
				Says("correct ?tls= as the error says; to try it by hand").Types("%s", try+" --ssl-mode=REQUIRED")
			return
		}
		r.Add(inspect.Unsafe, inspect.SourceUnreachable, "server", "cannot be asked: "+err.Error()).
			Says("see to host and port in %s, to the server and to firewalls; to try it by hand", option.SourceURL).Types("%s", try)
	}
}

// inspectionVariables tell what concerns all tables of a server. A server lists those it has
// to every login.
const inspectionVariables = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('version', 'version_comment', 'auto_increment_increment', " +
	"'auto_increment_offset', 'innodb_lock_wait_timeout', 'innodb_flush_log_at_trx_commit', 'log_bin', 'read_only', 'super_read_only', 'innodb_read_only', 'wsrep_on', " +
	"'wsrep_cluster_address', 'group_replication_group_name', 'group_replication_single_primary_mode')"

// queryServer collects the facts that findings about the server are made of.
func (s *Source) queryServer(ctx context.Context) (serverFacts, error) {
	f := serverFacts{variables: make(map[string]string)}
	err := s.do(ctx, s.db, func(ctx context.Context, c conn) error {
		err := c.query(ctx, inspectionVariables, func(get func(string) string) {
			f.variables[get("Variable_name")] = get("Value")
		})
		if err != nil {
			return err
		}
		if err := f.queryClock(ctx, c); err != nil {
			return err
		}
		return f.queryReplication(ctx, c)
	})
	return f, err
}

// queryClock compares the clocks, and finds the zone in which the server writes times that have
// none.
func (f *serverFacts) queryClock(ctx context.Context, c conn) error {
	var now, offset string
	before := time.Now()
	err := c.query(ctx, "SELECT UTC_TIMESTAMP(6) AS now", func(get func(string) string) { now = get("now") })
	took := time.Since(before)
	if err != nil {
		return err
	}
	clock, err := time.Parse("2006-01-02 15:04:05.000000", now)
	if err != nil {
		return malformedHead(now)
	}
	f.clock, f.clockError = clock.Sub(before.Add(took/2)), took/2
	// NULL where a named zone is not loaded into the server.
	const zone = "SELECT TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(), CONVERT_TZ(UTC_TIMESTAMP(), '+00:00', @@GLOBAL.time_zone)) AS offset_"
	err = c.query(ctx, zone, func(get func(string) string) { offset = get("offset_") })
	if err != nil && number(err) == 0 {
		return err
	}
	if seconds, err := time.ParseDuration(offset + "s"); err == nil {
		f.zone = &seconds
	}
	return nil
}

// tableFault turns an error that keeps a table from being looked at into a finding.
func (s *shard) tableFault(err error) inspect.Finding {
	err = s.explain(err)
	f := inspect.Finding{Severity: inspect.Unsafe, Subject: s.spec.Table}
	switch {
	case errors.Is(err, source.ErrDenied):
		f.Code, f.What = inspect.NoGrant, "may not be read by this login, or is not there"
		f.Says("check %s, and let an administrator run", option.Table).Types("%s;", s.grant())
	case errors.Is(err, source.ErrMissing):
		f.Code, f.What = inspect.NoTable, "does not exist"
		f.Says("create the table, or correct %s or the database in %s", option.Table, option.SourceURL)
	default:
		f.Code, f.What = inspect.NotInspected, "could not be looked at: "+err.Error()
		f.Says("see to the cause, then run bridge check again")
	}
	return f
}

// order returns how ids are taken to be handed out, and adds what contradicts that.
func (t *tableInspection) order() (source.IDOrder, string) {
	traits := order(t.server.variables, t.facts.create)
	taken, why := t.expected.Order, "by ID_ORDER"
	if taken == "" {
		taken, why = traits.Order, traits.OrderWhy
		t.checkIssuer()
	}
	switch {
	case taken == source.OrderNone && t.expected.Order == "":
		t.Add(inspect.Warning, inspect.IDOrder, t.spec.Table, "has ids without an order: "+traits.OrderWhy).
			Says("nothing is tailed; every change waits for the next reconcile")
	case traits.Order == source.OrderSegmented && (taken == source.OrderStrict || taken == source.OrderStrided):
		t.Add(inspect.Warning, inspect.IDOrder, t.spec.Table, fmt.Sprintf("gets its ids in blocks (%s), but ID_ORDER is %s", traits.OrderWhy, taken)).
			Says("set %s=segmented, or auto", option.IDOrder)
	}
	if taken == source.OrderSegmented && t.expected.Hold {
		t.Add(inspect.Unsafe, inspect.IDOrder, t.spec.Table, "gets its ids in blocks, but GAP_POLICY is hold, which would wait for hours at a gap").
			Says("set GAP_POLICY=late for this stream")
	}
	return taken, why
}

// checkIssuer warns of ids that the database does not hand out: who does, and in which order, does
// not show.
func (t *tableInspection) checkIssuer() {
	if _, ok := t.facts.column(t.spec.ID); ok && !strings.EqualFold(t.facts.autoIncrement, t.spec.ID) {
		t.Add(inspect.Warning, inspect.IDIssuer, t.spec.Table, fmt.Sprintf("does not number its rows itself (%s is not AUTO_INCREMENT), so it does not show in which order ids come", t.spec.ID)).
			Says("say so with %s: segmented where writers hold blocks of ids, none where ids have no order, strict where one counter hands them out", option.IDOrder)
	}
}

// checkTimes looks at the columns with the times of a row.
func (t *tableInspection) checkTimes() {
	zoneless := ""
	for _, r := range []source.Role{{Setting: option.Created, Column: t.spec.Created}, {Setting: option.Modified, Column: t.spec.Modified}} {
		column, ok := t.facts.column(r.Column)
		if r.Column == "" || !ok {
			continue
		}
		kind, precision := parseType(column.columnType)
		switch resolution := (source.Column{Kind: kind, Precision: precision}).Resolution(); {
		case resolution == 0:
			t.Add(inspect.Unsafe, inspect.TimeType, t.spec.Table, fmt.Sprintf("has the column %s of type %s, but %s must be a DATETIME or TIMESTAMP", column.name, column.columnType, r.Setting)).
				Says("correct %s", r.Setting)
		case resolution >= time.Second:
			t.checkPrecision(r, column, resolution)
		}
		if kind == source.DateTime {
			zoneless = column.name
		}
	}
	if zoneless != "" {
		t.checkZone(zoneless)
	}
}

func (t *tableInspection) checkPrecision(r source.Role, column tableColumn, resolution time.Duration) {
	what := fmt.Sprintf("keeps %s (%s) in steps of %s: ", r.Setting, column.name, strings.TrimSuffix(resolution.String(), "0m0s"))
	if r.Setting == option.Created {
		what += "the stability window grows by as much, up to the time since a row was first seen"
	} else {
		what += "two changes within one step look alike until they are read"
	}
	f := t.Add(inspect.Note, inspect.SecondPrecision, t.spec.Table, what).Says("nothing has to be done; for microseconds let an administrator run")
	if definition := finer(definitionOf(t.facts.create, column.name)); definition != "" {
		f.Types("ALTER TABLE %s MODIFY %s;", t.table.quoted(), definition)
	}
}

// checkZone compares the zone in which the server writes times with the one that the stream takes
// them for.
func (t *tableInspection) checkZone(column string) {
	zone := t.expected.Zone
	zone = cmp.Or(zone, time.UTC)
	_, want := time.Now().In(zone).Zone()
	if t.server.zone == nil || t.server.zone.Abs() > 15*time.Hour || *t.server.zone == time.Duration(want)*time.Second {
		return
	}
	t.Add(inspect.Note, inspect.TimeZone, t.spec.Table, fmt.Sprintf("has %s without a zone; the server writes NOW() %s from UTC there, TIME_ZONE is %s", column, *t.server.zone, zone)).
		Says("set %s to the zone in which the column is filled; nothing where the application fills it in %s", option.TimeZone, zone)
}

const (
	// offsetRows is how many of the newest rows are compared, offsetLeast how many of them must
	// agree.
	offsetRows, offsetLeast = 20, 3
	// offsetStep is the unit of the offsets of time zones, offsetSlack how far a time may be from a
	// multiple.
	offsetStep, offsetSlack = 15 * time.Minute, time.Minute
)

// rowTimes are the CREATED and MODIFIED of a row, zero where it has none.
type rowTimes struct{ created, modified time.Time }

// checkOffsets looks for a MODIFIED that is hours off, as sessions in another time zone write it
// into a DATETIME: the second cursor sees a change of the future when its time comes, and one of
// long ago not at all.
func (t *tableInspection) checkOffsets(ctx context.Context, c conn) error {
	column, ok := t.facts.column(t.spec.Modified)
	if t.spec.Modified == "" || !ok || !t.expected.Updates {
		return nil
	}
	now, newest, rows, err := t.readTimes(ctx, c, column)
	if err != nil {
		return err
	}
	what := ""
	if ahead := newest.Sub(now); ahead > offsetSlack {
		what = fmt.Sprintf("has a MODIFIED (%s) %s in the future: such an update is published when its time comes, or by the next reconcile", column.name, ahead.Round(time.Minute))
	} else if behind := behindCreated(rows); behind > 0 {
		what = fmt.Sprintf("has MODIFIED (%s) %s before CREATED in its newest rows: updates look that old, and what is older than ten minutes waits for the next reconcile", column.name, behind)
	}
	if what != "" {
		t.Add(inspect.Warning, inspect.TimeOffset, t.spec.Table, what).
			Says("let all sessions that write have one time zone, and set %s to it; or make the column a TIMESTAMP, which has none", option.TimeZone)
	}
	return nil
}

// readTimes reads the database's clock, the newest MODIFIED where an index has it, and the times of
// the newest rows.
func (t *tableInspection) readTimes(ctx context.Context, c conn, modified tableColumn) (now, newest time.Time, rows []rowTimes, err error) {
	err = c.query(ctx, "SELECT UTC_TIMESTAMP(6) AS now", func(get func(string) string) { now = t.timeOf("datetime(6)", get("now"), time.UTC) })
	if err != nil {
		return now, newest, nil, err
	}
	if modifiedIndex(t.facts.indexes, t.spec) != "" {
		query := "SELECT MAX(" + quoteName(modified.name) + ") AS newest FROM " + t.table.quoted()
		err = c.query(ctx, query, func(get func(string) string) { newest = t.timeOf(modified.columnType, get("newest"), t.expected.Zone) })
		if err != nil {
			return now, newest, nil, err
		}
	}
	created, ok := t.facts.column(t.spec.Created)
	if t.spec.Created == "" || !ok {
		return now, newest, nil, nil
	}
	query := fmt.Sprintf("SELECT %s AS created, %s AS modified FROM %s ORDER BY %s DESC LIMIT %d",
		quoteName(created.name), quoteName(modified.name), t.table.quoted(), quoteName(t.spec.ID), offsetRows)
	err = c.query(ctx, query, func(get func(string) string) {
		rows = append(rows, rowTimes{t.timeOf(created.columnType, get("created"), t.expected.Zone), t.timeOf(modified.columnType, get("modified"), t.expected.Zone)})
	})
	return now, newest, rows, err
}

// timeOf reads a value of a column; zero where it is none.
func (t *tableInspection) timeOf(columnType, value string, zone *time.Location) time.Time {
	zone = cmp.Or(zone, time.UTC)
	kind, precision := parseType(columnType)
	at, ok := source.Column{Kind: kind, Precision: precision}.Time([]byte(value), zone)
	if !ok {
		return time.Time{}
	}
	return at
}

// behindCreated returns by how much MODIFIED lies before CREATED, where it does so by the same
// multiple of 15 minutes in all rows that have both; 0 where it does not.
func behindCreated(rows []rowTimes) time.Duration {
	var behind time.Duration
	n := 0
	for _, r := range rows {
		if r.created.IsZero() || r.modified.IsZero() {
			continue
		}
		d := r.created.Sub(r.modified)
		steps := d.Round(offsetStep)
		if steps <= 0 || (d-steps).Abs() > offsetSlack || behind != 0 && behind != steps {
			return 0
		}
		behind = steps
		n++
	}
	if n < offsetLeast {
		return 0
	}
	return behind
}
