package sqlite

import (
	"database/sql/driver"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"bridge/source"
	"bridge/source/internal/sqlconn"
)

// valueForm brings the values of one column into the normal form of its kind.
type valueForm struct {
	kind    source.Kind
	boolean bool
	// zone is where times without a zone are, epoch the unit of Unix times.
	zone  *time.Location
	epoch time.Duration
}

// append appends v, which is not nil, in the normal form, or as it stands where it has none.
func (f valueForm) append(b []byte, v driver.Value) ([]byte, error) {
	switch v := v.(type) {
	case int64:
		if f.isTime() {
			if at, ok := f.unixTime(v); ok {
				return at.AppendFormat(b, f.layout()), nil
			}
		}
		return strconv.AppendInt(b, v, 10), nil
	case float64:
		if f.isTime() {
			if at, ok := f.realTime(v); ok {
				return at.AppendFormat(b, f.layout()), nil
			}
		}
		return f.appendReal(b, v), nil
	case string:
		return f.appendText(b, v), nil
	case []byte:
		return append(b, v...), nil
	}
	return b, fmt.Errorf("unexpected value of type %T from the driver", v)
}

func (f valueForm) appendText(b []byte, v string) []byte {
	switch {
	case f.boolean && strings.EqualFold(v, "true"):
		return append(b, '1')
	case f.boolean && strings.EqualFold(v, "false"):
		return append(b, '0')
	case f.kind == source.Date:
		return append(b, midnight(v)...)
	case f.kind == source.Timestamp:
		if at, ok := f.textTime(b, v); ok {
			return at.AppendFormat(b, timestampLayout)
		}
	}
	return append(b, v...)
}

// appendReal writes v as a number of JSON, an integer without an exponent. Infinite numbers are
// "Inf" and "-Inf".
func (f valueForm) appendReal(b []byte, v float64) []byte {
	switch {
	case math.IsInf(v, 1):
		return append(b, "Inf"...)
	case math.IsInf(v, -1):
		return append(b, "-Inf"...)
	}
	if f.kind == source.Int && v == math.Trunc(v) {
		return strconv.AppendFloat(b, v, 'f', -1, 64)
	}
	return sqlconn.AppendFloat(b, v, 64)
}
