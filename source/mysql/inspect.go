package mysql

import (
	"context"
	"errors"
	"fmt"
	"time"

	"bridge/internal/inspect"
	"bridge/internal/option"
	"bridge/source"
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
	"'auto_increment_offset', 'innodb_lock_wait_timeout', 'innodb_flush_log_at_trx_commit', 'read_only', 'super_read_only', 'innodb_read_only', 'wsrep_on', " +
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
