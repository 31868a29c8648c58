package mysql

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"bridge/internal/inspect"
	"bridge/source"
)

var _ source.Inspector = (*Source)(nil)

// Inspect looks at the server and at tables as [source.Inspector] says.
func (s *Source) Inspect(ctx context.Context, tables []source.Expected, atOnce int) source.Inspection {
	var found source.Inspection
	facts, err := s.askServer(ctx)
	if err != nil {
		s.unreached(&found.Server, err)
		return found
	}
	found.Server.Summary = fmt.Sprintf("%s at %s, %s", facts.product(), s.connector.addr, facts.role())
	facts.judge(&found.Server)
	found.Tables = make([]source.TableInspection, len(tables))
	var group errgroup.Group
	group.SetLimit(max(1, atOnce))
	for i, expected := range tables {
		group.Go(func() error {
			found.Tables[i] = s.inspectTable(ctx, expected, facts)
			return nil
		})
	}
	// Every error has become a finding.
	_ = group.Wait()
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
	switch number(err) {
	case erAccessDenied, erNoPassword, erHostNotAllowed, erAccountLocked, erAccountLockedOld, erPasswordExpired, erDBAccessDenied:
		r.Add(inspect.Unsafe, inspect.SourceLogin, "login", "is refused: "+err.Error()).
			Says("correct user or password in BRIDGE_SOURCE_URL, or let an administrator see to the login; to try it by hand").Types("%s", try)
	default:
		r.Add(inspect.Unsafe, inspect.SourceUnreachable, "server", "cannot be asked: "+err.Error()).
			Says("see to host and port in BRIDGE_SOURCE_URL, to the server and to firewalls; to try it by hand").Types("%s", try)
	}
}

// inspectionVariables tell what concerns all tables of a server. A server lists those it has, whoever asks.
const inspectionVariables = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('version', 'version_comment', 'auto_increment_increment', " +
	"'auto_increment_offset', 'innodb_lock_wait_timeout', 'read_only', 'super_read_only', 'innodb_read_only', 'wsrep_on', " +
	"'wsrep_cluster_address', 'group_replication_group_name', 'group_replication_single_primary_mode')"

// replicaQueries show what the server copies from; each server knows some of them, and wants a privilege for it that SELECT
// does not bring.
var replicaQueries = []string{"SHOW REPLICA STATUS", "SHOW ALL SLAVES STATUS", "SHOW SLAVE STATUS"}

// askServer collects the facts that findings about the server are made of.
func (s *Source) askServer(ctx context.Context) (serverFacts, error) {
	f := serverFacts{variables: make(map[string]string)}
	err := s.do(ctx, s.db, func(ctx context.Context, c conn) error {
		err := c.query(ctx, inspectionVariables, func(get func(string) string) {
			f.variables[get("Variable_name")] = get("Value")
		})
		if err != nil {
			return err
		}
		if err := f.askClock(ctx, c); err != nil {
			return err
		}
		return f.askReplication(ctx, c)
	})
	return f, err
}

// askClock compares the clocks, and finds the zone in which the server writes times that have none.
func (f *serverFacts) askClock(ctx context.Context, c conn) error {
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

// askReplication finds out whether the server copies from another, as far as the login may see it.
func (f *serverFacts) askReplication(ctx context.Context, c conn) error {
	err := c.query(ctx, "SHOW GLOBAL STATUS WHERE Variable_name IN ('Slave_running', 'Slaves_running')", func(get func(string) string) {
		f.sawReplication = true
		f.copies = f.copies || get("Value") != "OFF" && get("Value") != "0"
	})
	if err != nil && number(err) == 0 {
		return err
	}
	for _, query := range replicaQueries {
		err := c.query(ctx, query, func(func(string) string) { f.copies = true })
		switch {
		case err == nil:
			f.sawReplication = true
			return nil
		case number(err) == 0:
			return err
		}
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
		f.Do, f.Statement = "check TABLE of the stream, and let an administrator run", s.grant()+";"
	case errors.Is(err, source.ErrMissing):
		f.Code, f.What = inspect.NoTable, "does not exist"
		f.Do = "create the table, or correct TABLE of the stream or the database in BRIDGE_SOURCE_URL"
	default:
		f.Code, f.What = inspect.NotInspected, "could not be looked at: "+err.Error()
		f.Do = "see to the cause, then run bridge check again"
	}
	return f
}
