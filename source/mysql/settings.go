package mysql

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

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
		// No mode changes how values are written, or how statements are read. Without this one
		// MySQL refuses a statement with a date that no calendar has (1525), although a column may
		// hold it.
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
			{"max_statement_time", seconds(o.StatementTimeout)},
			// A moment would show system-versioned tables as they were then. DEFAULT is the present
			// here.
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

// noLimit is a sql_select_limit that no table reaches.
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

// set sets variables in one statement, or one after another where the server refuses that. A
// variable that is refused is left as it is, which said logs, unless it is required or has a value
// that changes results.
func (c *connector) set(ctx context.Context, session variables, settings []setting, said bool) error {
	clauses := make([]string, len(settings))
	for i, s := range settings {
		clauses[i] = s.name + " = " + s.value
	}
	statement := "SET " + strings.Join(clauses, ", ")
	err := session.exec(ctx, statement)
	switch {
	case err == nil:
		return nil
	case number(err) == 0:
		return describe(statement, err)
	case len(settings) == 1:
		return c.goOnWithout(ctx, session, settings[0].name, describe(statement, err), said)
	}
	for i := range settings {
		if err := c.set(ctx, session, settings[i:i+1], said); err != nil {
			return err
		}
	}
	return nil
}

const erUnknownVariable = 1193

// goOnWithout returns refused, the error of a server that refuses to set a variable, where that
// matters.
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

func describe(statement string, err error) error {
	return fmt.Errorf("%s: %w", statement, err)
}

// trySet executes statements that the server may refuse; said logs those that it does.
func (c *connector) trySet(ctx context.Context, session conn, statements []string, said bool) error {
	for _, statement := range statements {
		switch err := session.exec(ctx, statement); {
		case err == nil:
		case number(err) == 0:
			return describe(statement, err)
		case said:
			c.options.Logger.Info("the server does not know a setting, going on without", "statement", statement, "error", err)
		}
	}
	return nil
}
