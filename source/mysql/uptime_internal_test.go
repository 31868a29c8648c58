package mysql

import (
	"context"
	"database/sql/driver"
	"io"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// clocked is a session of a server that tells its clock and its uptime, each where it is not empty.
type clocked struct {
	rawConn
	clock, uptime string
}

func (c clocked) QueryContext(_ context.Context, query string, _ []driver.NamedValue) (driver.Rows, error) {
	column, value := "now", c.clock
	if strings.Contains(query, "Uptime") {
		column, value = "Value", c.uptime
	}
	if value == "" {
		return nil, &mysql.MySQLError{Number: 1142, Message: "denied"}
	}
	return &oneRow{column: column, value: value}, nil
}

type oneRow struct{ column, value string }

func (r *oneRow) Columns() []string { return []string{r.column} }
func (r *oneRow) Close() error      { return nil }

func (r *oneRow) Next(row []driver.Value) error {
	if r.value == "" {
		return io.EOF
	}
	row[0], r.value = r.value, ""
	return nil
}

// TestStartedByTheClockOfTheServer: the clock of bridge's host may be off, and may be set while the
// server runs. Neither may look like a server that was started again.
func TestStartedByTheClockOfTheServer(t *testing.T) {
	const unknown = 7
	for _, c := range []struct {
		name, clock, uptime string
		want                int64
	}{
		{"a clock of 2001", "1000000000", "600", 999_999_400},
		{"a clock of 2100", "4102444800", "0", 4_102_444_800},
		{"no clock", "", "600", unknown},
		{"no uptime", "1000000000", "", unknown},
		{"an uptime that is not a number", "1000000000", "soon", unknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			var started atomic.Int64
			started.Store(unknown)
			if err := noteUptime(t.Context(), conn{clocked{clock: c.clock, uptime: c.uptime}}, &started); err != nil || started.Load() != c.want {
				t.Errorf("started at %d, %v; want %d", started.Load(), err, c.want)
			}
		})
	}
}
