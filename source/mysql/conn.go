package mysql

import (
	"context"
	"database/sql/driver"

	"bridge/source/internal/sqlconn"
)

// rawConn is what the driver's connections implement.
type rawConn interface {
	driver.Conn
	driver.QueryerContext
	driver.ExecerContext
}

// conn is one connection, used by one goroutine.
type conn struct{ rawConn }

// query runs a small query; see [sqlconn.Query].
func (c conn) query(ctx context.Context, query string, each func(get func(name string) string), args ...string) error {
	return sqlconn.Query(ctx, c, query, each, args...)
}

func (c conn) exec(ctx context.Context, statement string) error {
	_, err := c.ExecContext(ctx, statement, nil)
	return err
}
