package mysql

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/go-sql-driver/mysql"

	"example.org/bridge/source"
	"example.org/bridge/source/internal/sqltable"
)

type connector struct {
	driver.Connector
	options   Options
	addr      string
	isolation string
	// hasty says that the sessions do not wait for the locks of tables.
	hasty  bool
	server *atomic.Pointer[server]
	// started is when the last server was started, in Unix seconds; 0 where it does not tell.
	started *atomic.Int64
}

// server is what a session learned about its server and login.
type server struct {
	version string
	// account is the login as the server's grants name it.
	account string
	// packet is max_allowed_packet: the most bytes that a statement may have.
	packet int
	// identity is the SQL that tells servers apart, a list of expressions.
	identity string
	// waiting has a read show what other members have committed; zero where there are none.
	waiting waiting
}

func (s server) isMariaDB() bool { return strings.Contains(s.version, "MariaDB") }

func newConnector(o Options) (*connector, error) {
	cfg := o.driverConfig()
	if err := cfg.Apply(mysql.BeforeConnect(func(_ context.Context, c *mysql.Config) error { return o.secure(c) })); err != nil {
		return nil, err
	}
	base, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, err
	}
	return &connector{Connector: base, options: o, addr: cfg.Addr, isolation: "READ COMMITTED", server: new(atomic.Pointer[server]),
		started: new(atomic.Int64)}, nil
}

// secure puts the login and the certificates into c, which may have changed since.
func (o Options) secure(c *mysql.Config) (err error) {
	if o.Password != nil {
		if c.User, c.Passwd, err = o.Password(); err != nil {
			return fmt.Errorf("read the login: %w", err)
		}
	}
	if o.TLS != nil {
		if c.TLS, err = o.TLS(); err != nil {
			return fmt.Errorf("read the certificates: %w", err)
		}
		c.TLS.ServerName = cmp.Or(c.TLS.ServerName, o.Host)
	}
	return nil
}

var (
	errLogin     = errors.New("the server was reached but did not finish the login in time")
	errNoVersion = errors.New("the server does not say which version it is")
)

func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 3*c.options.DialTimeout, errLogin)
	defer cancel()
	opened, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, sqltable.Cause(ctx, err)
	}
	if err := c.setUp(ctx, conn{opened.(rawConn)}); err != nil {
		// The first error tells more than what closing says.
		_ = opened.Close()
		return nil, sqltable.Cause(ctx, fmt.Errorf("set up the session: %w", err))
	}
	return opened, nil
}

func (c *connector) setUp(ctx context.Context, session conn) error {
	// First of all: these cut the results of the queries below, too.
	for _, statement := range []string{"SET NAMES utf8mb4", "SET SESSION TRANSACTION ISOLATION LEVEL " + c.isolation} {
		// The isolation level has a statement because the variable's name differs between servers.
		if err := session.exec(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	first := c.server.Load() == nil
	if err := c.set(ctx, session, plainSettings(), first); err != nil {
		return err
	}
	var found server
	var malformed error
	err := session.query(ctx, "SELECT VERSION() AS version, CURRENT_USER() AS account, @@max_allowed_packet AS packet", func(get func(string) string) {
		found = server{version: get("version"), account: get("account")}
		found.packet, malformed = strconv.Atoi(get("packet"))
	})
	if err = errors.Join(err, malformed); err != nil {
		return err
	}
	if found.version == "" {
		return errNoVersion
	}
	facts, err := queryVariables(ctx, session)
	if err != nil {
		return err
	}
	found.waiting = facts.waiting()
	settings := append(productSettings(found, c.options), facts.groupSettings()...)
	if c.hasty {
		settings = append(settings, setting{"lock_wait_timeout", "1"})
	}
	if err := c.set(ctx, session, settings, first); err != nil {
		return err
	}
	if found.identity, err = identify(ctx, session, found); err != nil {
		return err
	}
	if err := noteUptime(ctx, session, c.started); err != nil {
		return err
	}
	c.server.Store(&found)
	// Invariant 8: the server refuses a write even if the login could write.
	const readOnly = "SET SESSION TRANSACTION READ ONLY"
	switch err := session.exec(ctx, readOnly); {
	case err != nil && number(err) == 0:
		return fmt.Errorf("%s: %w", readOnly, err)
	case err != nil && first:
		c.options.Logger.Info("the server does not know a setting, going on without", "statement", readOnly, "error", err)
	}
	return nil
}

// role says whether the server is read-only, as a reader of Aurora is by its InnoDB. Newer servers
// have more words for it than ON.
const role = ", IF(@@GLOBAL.read_only IN ('0', 'OFF') AND NOT @@GLOBAL.innodb_read_only, NULL, '" + source.ReadOnly + "')"

// uid tells servers of MariaDB apart that have the same names, as in two namespaces of Kubernetes:
// it is made of the address of the network card. Not every version has it.
const uid = ", CONCAT('" + source.UID + "', CRC32(@@server_uid))"

// identify returns the best identity that the server has. MariaDB has no @@server_uuid, a
// compatible server may lack any. A server that becomes read-only becomes another one: what was
// found out about the writer does not hold for a replica.
func identify(ctx context.Context, session conn, s server) (string, error) {
	const names = "@@hostname, @@port, @@server_id"
	candidates := []string{"@@server_uuid", names + uid, names, "@@hostname"}
	if s.isMariaDB() {
		candidates = candidates[1:]
	}
	for _, candidate := range candidates {
		for _, expressions := range []string{candidate + role, candidate} {
			err := session.query(ctx, "SELECT "+expressions, nil)
			if number(err) == 0 {
				return expressions, err
			}
		}
	}
	return "'unknown'", nil
}

// Print writes a line of the driver.
func (l debugLogger) Print(v ...any) { l.logger.Debug("mysql driver", "message", fmt.Sprint(v...)) }

// setting is a variable of the session and the expression that it is set to. DEFAULT would be the
// global value, which anybody may have changed.
type setting struct{ name, value string }

// plainSettings are what every statement relies on, on all servers. A server that does not know one
// of them is not changed by it.
//
// Some variables are left as they are because they end a statement with an error instead of another
// result: limits of memory and temporary tables, lock_wait_timeout. So are those that statements of
// this package are not touched by: group_concat_max_len, div_precision_increment, sql_safe_updates.
func plainSettings() []setting {
	return []setting{
		// They cut SHOW and information_schema, too.
		// A server that keeps the limit as a signed number refuses MySQL's own default.
		{"sql_select_limit", noLimit},
		// max_join_size does not count then.
		{"sql_big_selects", "1"},
		{"autocommit", "1"},
		{"time_zone", "'+00:00'"},
		// No mode changes how values are written or statements read. Without this one MySQL refuses
		// a date that no calendar has (1525), although a column may hold it.
		{"sql_mode", "'ALLOW_INVALID_DATES'"},
		{"sql_auto_is_null", "0"},
		{"sql_quote_show_create", "1"},
		// A page may be long and the network slow; between two pages minutes may pass.
		{"net_write_timeout", "60"},
		{"net_read_timeout", "30"},
		{"wait_timeout", "600"},
	}
}

// productSettings are the same for what only some servers know.
func productSettings(s server, o Options) []setting {
	if s.isMariaDB() {
		return []setting{
			{"max_statement_time", fmt.Sprintf("%.3f", o.StatementTimeout.Seconds())},
			// A moment would show tables as they were then. DEFAULT is the present here.
			{"system_versioning_asof", "DEFAULT"},
		}
	}
	return []setting{
		{"max_execution_time", fmt.Sprint(o.StatementTimeout.Milliseconds())},
		// MySQL 8 would answer AUTO_INCREMENT from a cache of a day.
		{"information_schema_stats_expiry", "0"},
		// Otherwise SHOW leaves out the primary key that sql_generate_invisible_primary_key makes.
		{"show_gipk_in_create_table_and_information_schema", "1"},
		// Beyond that MySQL reads the whole table instead of the ranges that it is asked for.
		{"range_optimizer_max_mem_size", "0"},
		// A secondary engine lags behind InnoDB.
		{"use_secondary_engine", "OFF"},
	}
}

const noLimit = "9223372036854775807"

// required are settings without which values are read wrongly.
var required = []string{"autocommit", "time_zone", "sql_mode"}

// harmless tells of variables that change results in silence which values do not.
var harmless = map[string]func(value string) bool{
	"sql_select_limit": func(value string) bool {
		limit, err := strconv.ParseUint(value, 10, 64)
		return err == nil && limit >= math.MaxInt64
	},
	"system_versioning_asof": func(value string) bool { return value == "DEFAULT" || value == "" },
}

// variables is what setting the variables of a session needs of it.
type variables interface {
	exec(ctx context.Context, statement string) error
	query(ctx context.Context, query string, each func(get func(name string) string), args ...string) error
}

// set leaves a refused variable as it is, which said logs, unless it is required or has a value
// that changes results.
func (c *connector) set(ctx context.Context, session variables, settings []setting, said bool) error {
	clauses := make([]string, len(settings))
	for i, s := range settings {
		clauses[i] = s.name + " = " + s.value
	}
	statement := "SET " + strings.Join(clauses, ", ")
	err := session.exec(ctx, statement)
	if err == nil {
		return nil
	}
	err = fmt.Errorf("%s: %w", statement, err)
	switch {
	case number(err) == 0:
		return err
	case len(settings) == 1:
		return c.goOnWithout(ctx, session, settings[0].name, err, said)
	}
	for i := range settings {
		if err := c.set(ctx, session, settings[i:i+1], said); err != nil {
			return err
		}
	}
	return nil
}

const erUnknownVariable = 1193

// goOnWithout returns refused, the error of setting a variable, where that matters.
func (c *connector) goOnWithout(ctx context.Context, session variables, name string, refused error, said bool) error {
	switch {
	case number(refused) == erUnknownVariable:
		return nil
	case slices.Contains(required, name):
		return refused
	}
	if is := harmless[name]; is != nil {
		value := ""
		err := session.query(ctx, "SELECT @@SESSION."+name+" AS value", func(get func(string) string) { value = get("value") })
		switch {
		case err == nil && !is(value):
			return fmt.Errorf("%w (it is %s, which cuts what is read: set it for this login, or globally)", refused, value)
		case err != nil && number(err) == 0:
			return err
		}
	}
	if said {
		c.options.Logger.Info("the server refuses a setting, going on without", "variable", name, "error", refused)
	}
	return nil
}
