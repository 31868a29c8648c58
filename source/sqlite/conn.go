package sqlite

import (
	"context"
	"database/sql/driver"

	"bridge/source/internal/sqlconn"
)

// rawConn is what the driver's connections implement.
type rawConn interface {
	driver.Conn
	driver.QueryerContext
	driver.SessionResetter
	driver.Validator
}

// query runs a small query; see [sqlconn.Query].
func (s *session) query(ctx context.Context, query string, each func(get func(name string) string), args ...string) error {
	return sqlconn.Query(ctx, s, query, each, args...)
}
