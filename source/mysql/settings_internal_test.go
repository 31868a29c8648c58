package mysql

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	driver "github.com/go-sql-driver/mysql"
)

func TestSettingsThatAServerRefuses(t *testing.T) {
	const unknown, denied, wrong = 1193, 1227, 1231
	for _, c := range []struct {
		name     string
		number   uint16
		variable string
		fails    bool
	}{
		{"an unknown one", unknown, "time_zone", false},
		{"one that may not be set and only ends statements", denied, "max_statement_time", false},
		{"one for the network", wrong, "net_write_timeout", false},
		{"the time zone", denied, "time_zone", true},
		{"the limit of rows", wrong, "sql_select_limit", true},
		{"tables as they were", denied, "system_versioning_asof", true},
		{"a connection that is gone", 0, "net_write_timeout", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var set []string
			exec := func(_ context.Context, statement string) error {
				switch {
				case !strings.Contains(statement, c.variable+" ="):
					set = append(set, statement)
					return nil
				case c.number == 0:
					return errors.New("the connection is gone")
				}
				return &driver.MySQLError{Number: c.number, Message: c.variable}
			}
			connector := &connector{options: Options{Logger: slog.New(slog.DiscardHandler)}}
			settings := append(plainSettings(), productSettings(server{version: "10.11.6-MariaDB"}, Options{})...)
			err := connector.set(t.Context(), exec, settings, true)
			if (err != nil) != c.fails {
				t.Errorf("the error is %v", err)
			}
			if !c.fails && len(set) != len(settings)-1 {
				t.Errorf("%d of the other %d variables are set", len(set), len(settings)-1)
			}
		})
	}
}
