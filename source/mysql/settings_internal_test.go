package mysql

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	driver "github.com/go-sql-driver/mysql"
)

// refusing is a session of a server that refuses to set some variables, and has values for them.
type refusing struct {
	number uint16
	values map[string]string
	set    []string
}

func (r *refusing) exec(_ context.Context, statement string) error {
	for name := range r.values {
		if strings.Contains(statement, name+" =") {
			if r.number == 0 {
				return errors.New("the connection is gone")
			}
			return &driver.MySQLError{Number: r.number, Message: name}
		}
	}
	r.set = append(r.set, statement)
	return nil
}

func (r *refusing) query(_ context.Context, statement string, each func(func(string) string), _ ...string) error {
	name := strings.TrimSuffix(strings.TrimPrefix(statement, "SELECT @@SESSION."), " AS value")
	each(func(string) string { return r.values[name] })
	return nil
}

func TestSettingsThatAServerRefuses(t *testing.T) {
	const unknown, denied, wrong = 1193, 1227, 1231
	for _, c := range []struct {
		name        string
		number      uint16
		variable, v string
		fails       bool
	}{
		{"an unknown one", unknown, "time_zone", "", false},
		{"one that may not be set and only ends statements", denied, "max_statement_time", "0", false},
		{"one for the network", wrong, "net_write_timeout", "60", false},
		{"the time zone", denied, "time_zone", "SYSTEM", true},
		{"a limit that is none", wrong, "sql_select_limit", "18446744073709551615", false},
		{"a limit that cuts", wrong, "sql_select_limit", "100", true},
		{"tables as they are", denied, "system_versioning_asof", "DEFAULT", false},
		{"tables as they were", denied, "system_versioning_asof", "2001-01-01 00:00:00", true},
		{"a connection that is gone", 0, "net_write_timeout", "60", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			session := &refusing{number: c.number, values: map[string]string{c.variable: c.v}}
			connector := &connector{options: Options{Logger: slog.New(slog.DiscardHandler)}}
			settings := append(plainSettings(), productSettings(server{version: "10.11.6-MariaDB"}, Options{})...)
			err := connector.set(t.Context(), session, settings, true)
			if (err != nil) != c.fails {
				t.Errorf("the error is %v", err)
			}
			if !c.fails && len(session.set) != len(settings)-1 {
				t.Errorf("%d of the other %d variables are set", len(session.set), len(settings)-1)
			}
		})
	}
}
