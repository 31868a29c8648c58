package sqltable

import (
	"context"
	"database/sql/driver"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"

	"example.org/bridge/source"
)

// Query runs a small query and calls each for every row with a function that returns the value of a
// column by its name; NULL and columns that the answer does not have are "". Without each the rows
// are thrown away.
func Query(ctx context.Context, c driver.QueryerContext, query string, each func(get func(name string) string), args ...string) (err error) {
	values := make([]driver.NamedValue, len(args))
	for i, arg := range args {
		values[i] = driver.NamedValue{Ordinal: i + 1, Value: arg}
	}
	rows, err := c.QueryContext(ctx, query, values)
	if err != nil {
		return err
	}
	columns := rows.Columns()
	row := make([]driver.Value, len(columns))
	get := func(name string) string {
		for i, column := range columns {
			if column == name {
				return Text(row[i])
			}
		}
		return ""
	}
	_, err = Scan(ctx, rows, row, func() (bool, error) {
		if each != nil {
			each(get)
		}
		return false, nil
	})
	return Close(rows, err)
}

// Scan calls take for every row of a result, as row has it, until take has enough. It looks at ctx,
// which drivers may heed up to the first row only.
func Scan(ctx context.Context, rows driver.Rows, row []driver.Value, take func() (enough bool, err error)) (enough bool, err error) {
	for !enough && err == nil {
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		switch err := rows.Next(row); {
		case errors.Is(err, io.EOF):
			return false, nil
		case err != nil:
			return false, err
		}
		enough, err = take()
	}
	return enough, err
}

// Close closes a result that was read up to err, which Close repeats.
func Close(rows driver.Rows, err error) error {
	if closed := rows.Close(); err == nil {
		return closed
	}
	return err
}

// Text returns v as text, "" for NULL.
func Text(v driver.Value) string {
	switch v := v.(type) {
	case nil:
		return ""
	case []byte:
		return string(v)
	default:
		return fmt.Sprint(v)
	}
}

// IDLiteral returns a value of an id with a format as SQL. Nothing in a value that has it can leave
// the literal.
func IDLiteral(ids source.IDColumn, v []byte) string {
	if ids.Binary {
		return "x'" + hex.EncodeToString(v) + "'"
	}
	return "'" + string(v) + "'"
}

// AppendFloat appends v, which is finite, as encoding/json does: the shortest digits that read back
// as the same number of that many bits, with an exponent only for very large and very small
// numbers.
func AppendFloat(b []byte, v float64, bits int) []byte {
	format := byte('f')
	if abs := math.Abs(v); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	return strconv.AppendFloat(b, v, format, -1, bits)
}
