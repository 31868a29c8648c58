package mysql

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
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
	var facts *serverFacts
	err := s.do(ctx, s.db, func(ctx context.Context, c conn) (err error) {
		if facts, err = queryVariables(ctx, c); err != nil {
			return err
		}
		if err := facts.queryClock(ctx, c); err != nil {
			return err
		}
		return facts.queryReplication(ctx, c)
	})
	if err != nil {
		s.unreached(&found.Server, err)
		return found
	}
	found.Server.Summary = fmt.Sprintf("%s at %s: %s", facts.product(), s.connector.addr, facts.role())
	facts.checkServer(&found.Server)
	facts.checkConnections(&found.Server, s.db.Stats().MaxOpenConnections+s.dirty.Stats().MaxOpenConnections+s.brief.Stats().MaxOpenConnections)
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

func (s *Source) unreached(r *inspect.Report, err error) {
	r.Summary = "MySQL protocol at " + s.connector.addr
	try := fmt.Sprintf("mysql -h %s -P %d -u %s -p", s.options.Host, s.options.Port, s.options.User)
	logins := []uint16{erAccessDenied, erNoPassword, erHostNotAllowed, erAccountLocked, erAccountLockedOld, erPasswordExpired, erDBAccessDenied}
	switch {
	case slices.Contains(logins, number(err)):
		// What the error says of TLS it says already.
		r.Add(inspect.Unsafe, inspect.SourceLogin, "login", "is refused: "+err.Error()).
			Says("correct user, password or ?tls= in %s, or let an administrator see to the login; to try it by hand", option.SourceURL).Types("%s", try)
	case s.options.remedyTLS(err) != "":
		r.Add(inspect.Unsafe, inspect.SourceTLS, "server", "was reached, but not with the ?tls= of its URL: "+err.Error()).
			Says("correct ?tls= as the error says; to try it by hand").Types("%s", try+" --ssl-mode=REQUIRED")
	default:
		r.Add(inspect.Unsafe, inspect.SourceUnreachable, "server", "cannot be asked: "+err.Error()).
			Says("see to host and port in %s, to the server and to firewalls; to try it by hand", option.SourceURL).Types("%s", try)
	}
}

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
	if err := c.tryQuery(ctx, zone, func(get func(string) string) { offset = get("offset_") }); err != nil {
		return err
	}
	if seconds, err := time.ParseDuration(offset + "s"); err == nil {
		f.zone = &seconds
	}
	return nil
}

func (s *Source) inspectTable(ctx context.Context, expected source.Expected, server *serverFacts) (found source.TableInspection) {
	t := s.newShard(expected.Spec).inspection(expected)
	t.server = server
	err := errNoDatabase
	if t.table.Database != "" {
		err = s.do(ctx, s.db, t.inspect)
	}
	switch err = t.explain(err); {
	case errors.Is(err, source.ErrDenied):
		t.Found(inspect.Unsafe, inspect.NoGrant, "may not be read by this login, or is not there").
			Says("check %s, and let an administrator run", option.Table).Types("%s;", t.source.grant(t.quoted()))
	case err != nil:
		t.Fault(err, "the database")
	case !t.isView:
		found.Order, found.Why = t.order()
	}
	deleted, _ := t.Table.Column(t.Spec.Deleted)
	found.DeletedType, found.KeyForm, found.Findings = deleted.Type, t.KeyForm(), t.Findings
	return found
}

func (t *inspection) inspect(ctx context.Context, c conn) error {
	if err := t.readColumns(ctx, c); err != nil {
		return err
	}
	// Any privilege shows the columns.
	if err := c.query(ctx, "SELECT 1 FROM "+t.quoted()+" LIMIT 0", nil); err != nil {
		return err
	}
	complete, err := t.checkColumns(ctx, c)
	if err == nil && complete {
		err = t.checkHidden(ctx, c)
	}
	if err == nil {
		err = t.readIndexes(ctx, c)
	}
	if err == nil {
		err = t.readDetails(ctx, c)
	}
	if err != nil {
		return err
	}
	index := t.checkTable(complete)
	if t.isView {
		return nil
	}
	// TiDB and OceanBase call theirs InnoDB.
	if t.engine != "" && !strings.EqualFold(t.engine, "InnoDB") {
		t.Found(inspect.Warning, inspect.Engine, "is kept by %s: only InnoDB has transactions whose uncommitted rows show, and pages that are one moment", t.engine).
			Says("let an administrator move it").Types("ALTER TABLE %s ENGINE = InnoDB;", t.quoted())
	}
	if index != nil {
		if err := t.checkIDs(ctx, c); err != nil {
			return err
		}
	}
	if !complete {
		return nil
	}
	if err := t.checkFilter(ctx, c); err != nil {
		return err
	}
	t.checkClocks()
	t.CheckModified()
	return t.checkOffsets(ctx, c)
}

// checkHidden cannot tell whether the columns that EXCLUDE names are the only hidden ones.
func (t *inspection) checkHidden(ctx context.Context, c conn) error {
	if t.Spec.Fields != nil {
		return nil
	}
	err := c.query(ctx, "SELECT * FROM "+t.quoted()+" LIMIT 0", nil)
	if !isDenied(err) {
		return err
	}
	if slices.ContainsFunc(t.Spec.Exclude, func(name string) bool { return t.Table.At(name) < 0 }) {
		t.Found(inspect.Note, inspect.HiddenColumns, "has columns that this login may not read, which %s names; "+
			"others, if there are any, are left out too, as if they were not there: it may read %s", option.Exclude, t.Table.Names()).
			Says("if columns to publish are missing, let an administrator run").Types("%s;", t.source.grant(t.quoted()))
		return nil
	}
	t.Found(inspect.Warning, inspect.HiddenColumns, "has columns that this login may not read, which are left out as if they were not there: it may read %s", t.Table.Names()).
		Says("name the columns to publish with %s, or those to leave out with %s; or let an administrator run", option.Fields, option.Exclude).Types("%s;", t.source.grant(t.quoted()))
	return nil
}

func (t *inspection) checkIDs(ctx context.Context, c conn) error {
	id := quoteName(t.Spec.ID)
	var highest uint64
	var malformed error
	if t.Spec.IDFormat != "" {
		column, _ := t.Table.Column(t.Spec.ID)
		ids, _ := idColumnOf(t.Spec.IDFormat, column)
		primary := t.Table.Unique(column.Name)
		_, evidence, why := t.server.evidence(t.create, primary != nil && primary.Name == "PRIMARY")
		if evidence {
			why = ""
		}
		return t.CheckFormat(ids, why, func(first bool, take func([]byte)) error {
			most := map[bool]string{true: "MIN(", false: "MAX("}[first]
			return c.query(ctx, "SELECT "+most+id+") AS outermost FROM "+t.quoted()+" HAVING outermost IS NOT NULL", func(get func(string) string) { take([]byte(get("outermost"))) })
		})
	}
	err := c.query(ctx, "SELECT MIN("+id+") AS lowest, MAX("+id+") AS highest FROM "+t.quoted(), func(get func(string) string) {
		t.CheckLowest(get("lowest"))
		if text := get("highest"); text != "" && !strings.HasPrefix(text, "-") {
			highest, malformed = strconv.ParseUint(text, 10, 64)
		}
	})
	if err = errors.Join(err, malformed); err == nil {
		t.CheckPosition(highest, t.next, "truncated")
	}
	return err
}

// order returns how ids are taken to be handed out, and adds what contradicts that.
func (t *inspection) order() (source.IDOrder, string) {
	traits := t.server.order(t.create)
	taken, why := t.Expected.Order, t.OrderWhy()
	if taken == "" {
		taken, why = traits.Order, traits.OrderWhy
	}
	t.CheckIssuer()
	switch {
	case taken == source.OrderNone && t.Expected.Order == "":
		t.Found(inspect.Warning, inspect.IDOrder, "has ids without an order: %s", traits.OrderWhy).
			Says("nothing is tailed; every change waits for the next reconcile")
	case traits.Order == source.OrderSegmented && (taken == source.OrderStrict || taken == source.OrderStrided):
		t.Found(inspect.Warning, inspect.IDOrder, "gets its ids in blocks (%s), but ID_ORDER is %s", traits.OrderWhy, taken).
			Says("set %s=segmented, or auto", option.IDOrder)
	}
	if taken == source.OrderSegmented && t.Expected.Hold {
		t.Found(inspect.Unsafe, inspect.IDOrder, "gets its ids in blocks, but GAP_POLICY is hold, which would wait for hours at a gap").
			Says("set GAP_POLICY=late for this stream")
	}
	return taken, why
}

func (t *inspection) checkClocks() {
	zoneless := ""
	for _, r := range t.TimeRoles() {
		column, _ := t.Table.Column(r.Column)
		if resolution := column.Resolution(); resolution >= time.Second {
			what := "two changes within one step look alike until they are read"
			if r.Setting == option.Created {
				what = "the stability window grows by as much, up to the time since a row was first seen"
			}
			f := t.Found(inspect.Note, inspect.SecondPrecision, "keeps %s (%s) in steps of %s: %s", r.Setting, column.Name, strings.TrimSuffix(resolution.String(), "0m0s"), what).
				Says("nothing has to be done; for microseconds let an administrator run")
			if statement := t.modify(finer(definitionOf(t.create, column.Name))); statement != "" {
				f.Types("%s;", statement)
			}
		}
		if column.Kind == source.DateTime {
			zoneless = column.Name
		}
	}
	zone := cmp.Or(t.Expected.Zone, time.UTC)
	_, want := time.Now().In(zone).Zone()
	if written := t.server.zone; zoneless != "" && written != nil && written.Abs() <= 15*time.Hour && *written != time.Duration(want)*time.Second {
		t.Found(inspect.Note, inspect.TimeZone, "has %s without a zone; the server writes NOW() %s from UTC there, TIME_ZONE is %s", zoneless, *written, zone).
			Says("set %s to the zone in which the column is filled; nothing where the application fills it in %s", option.TimeZone, zone)
	}
}

const (
	// offsetRows of the newest rows are compared, of which offsetLeast must agree.
	offsetRows, offsetLeast = 20, 3
	// offsetStep is the unit of zones' offsets, offsetSlack how far a time may be from a multiple.
	offsetStep, offsetSlack = 15 * time.Minute, time.Minute
)

// checkOffsets looks for a MODIFIED that is hours off, as sessions in another time zone write it
// into a DATETIME: the second cursor sees a change of the future when its time comes, and one of
// long ago not at all.
func (t *inspection) checkOffsets(ctx context.Context, c conn) error {
	modified, ok := t.Table.Column(t.Spec.Modified)
	if !ok || !t.Expected.Updates {
		return nil
	}
	timeOf := func(column source.Column, value string) time.Time {
		at, _ := column.Time([]byte(value), t.Expected.Zone)
		return at
	}
	var now, newest time.Time
	last := "NULL"
	if t.Table.Modified(t.Spec) != nil {
		last = "(SELECT MAX(" + quoteName(modified.Name) + ") FROM " + t.quoted() + ")"
	}
	err := c.query(ctx, "SELECT UTC_TIMESTAMP(6) AS now, "+last+" AS newest", func(get func(string) string) {
		now, newest = timeOf(source.Column{Kind: source.Timestamp}, get("now")), timeOf(modified.Column, get("newest"))
	})
	// By how much MODIFIED lies before CREATED in the newest rows that have both.
	var behind []time.Duration
	if created, ok := t.Table.Column(t.Spec.Created); err == nil && ok {
		query := fmt.Sprintf("SELECT %s AS created, %s AS modified FROM %s ORDER BY %s DESC LIMIT %d",
			quoteName(created.Name), quoteName(modified.Name), t.quoted(), quoteName(t.Spec.ID), offsetRows)
		err = c.query(ctx, query, func(get func(string) string) {
			born, changed := timeOf(created.Column, get("created")), timeOf(modified.Column, get("modified"))
			if !born.IsZero() && !changed.IsZero() {
				behind = append(behind, born.Sub(changed))
			}
		})
	}
	if err != nil {
		return err
	}
	what := ""
	if ahead := newest.Sub(now); ahead > offsetSlack {
		by := ahead.Round(time.Minute).String()
		if ahead > 365*24*time.Hour {
			by = "of " + newest.Format(time.DateOnly) + ","
		}
		what = fmt.Sprintf("has a MODIFIED (%s) %s in the future: such an update is published when its time comes, or by the next reconcile", modified.Name, by)
	} else if offset := offsetOf(behind); offset > 0 {
		what = fmt.Sprintf("has MODIFIED (%s) %s before CREATED in its newest rows: updates look that old, and what is older than ten minutes waits for the next reconcile", modified.Name, offset)
	}
	if what != "" {
		t.Found(inspect.Warning, inspect.TimeOffset, "%s", what).
			Says("let all sessions that write have one time zone, and set %s to it; or make the column a TIMESTAMP, which has none", option.TimeZone)
	}
	return nil
}

// offsetOf returns the multiple of offsetStep that all differences are, 0 where there is none.
func offsetOf(differences []time.Duration) time.Duration {
	if len(differences) < offsetLeast {
		return 0
	}
	offset := differences[0].Round(offsetStep)
	for _, d := range differences {
		if (d - offset).Abs() > offsetSlack {
			return 0
		}
	}
	return max(offset, 0)
}
