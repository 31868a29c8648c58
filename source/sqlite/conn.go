package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
)

// rawConn is what the driver's connections implement.
type rawConn interface {
	driver.Conn
	driver.QueryerContext
	driver.SessionResetter
	driver.Validator
}

// query runs a small query and calls each for every row with a function that returns the value of a column by its name;
// NULL is "".
func (s *session) query(ctx context.Context, query string, each func(get func(name string) string), args ...string) (err error) {
	values := make([]driver.NamedValue, len(args))
	for i, arg := range args {
		values[i] = driver.NamedValue{Ordinal: i + 1, Value: arg}
	}
	rows, err := s.QueryContext(ctx, query, values)
	if err != nil {
		return err
	}
	defer func() {
		// After an error closing repeats that error.
		if closed := rows.Close(); err == nil {
			err = closed
		}
	}()
	columns := rows.Columns()
	row := make([]driver.Value, len(columns))
	get := func(name string) string {
		for i, column := range columns {
			if column == name {
				return text(row[i])
			}
		}
		return ""
	}
	for {
		switch err := rows.Next(row); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		each(get)
	}
}

func text(v driver.Value) string {
	switch v := v.(type) {
	case nil:
		return ""
	case []byte:
		return string(v)
	default:
		return fmt.Sprint(v)
	}
}
