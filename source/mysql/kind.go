package mysql

import (
	"database/sql/driver"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"bridge/source"
	"bridge/source/internal/sqlconn"
)

// parseType reads a column type as SHOW COLUMNS writes it: "bigint(20) unsigned", "datetime(6)",
// "enum('a','b')". A type that is not known, such as inet6 or uuid, is text: that is how the server
// writes it.
func parseType(columnType string) (kind source.Kind, precision int) {
	name := strings.ToLower(columnType)
	arguments := ""
	if i := strings.IndexAny(name, " ("); i >= 0 {
		if name[i] == '(' {
			arguments, _, _ = strings.Cut(name[i+1:], ")")
		}
		name = name[:i]
	}
	switch name {
	case "tinyint", "smallint", "mediumint", "int", "integer", "bigint", "year":
		return source.Int, 0
	case "decimal", "numeric":
		_, scale, _ := strings.Cut(arguments, ",")
		precision, _ = strconv.Atoi(strings.TrimSpace(scale))
		return source.Decimal, precision
	case "float", "double", "real":
		return source.Float, 0
	case "bit":
		return source.Bit, 0
	case "binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "geometry", "point", "linestring", "polygon",
		"multipoint", "multilinestring", "multipolygon", "geometrycollection", "geomcollection", "vector":
		return source.Binary, 0
	case "json":
		return source.JSON, 0
	case "date":
		return source.Date, 0
	case "time", "datetime", "timestamp":
		precision, _ = strconv.Atoi(arguments)
		return map[string]source.Kind{"time": source.Clock, "datetime": source.DateTime, "timestamp": source.Timestamp}[name], precision
	}
	return source.Text, 0
}

// isID reports whether a column of this type can be the id.
func isID(columnType string) bool {
	kind, _ := parseType(columnType)
	return kind == source.Int && !strings.HasPrefix(strings.ToLower(columnType), "year")
}

// lastID returns the highest number that an integer type has, 0 for another type.
func lastID(columnType string) uint64 {
	name, _, _ := strings.Cut(strings.ToLower(columnType), " ")
	name, _, _ = strings.Cut(name, "(")
	bits := map[string]int{"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}[name]
	switch {
	case bits == 0:
		return 0
	case strings.Contains(columnType, "unsigned"):
		return math.MaxUint64 >> (64 - bits)
	}
	return math.MaxUint64 >> (65 - bits)
}

// isSingle reports whether a column holds single-precision numbers.
func isSingle(columnType string) bool { return strings.HasPrefix(strings.ToLower(columnType), "float") }

// emptyValue returns a NULL, as a column of SQL, with which a UNION keeps the type of a column.
// With a plain NULL MariaDB makes a DECIMAL of an unsigned integer, so that one looks like the
// other.
func emptyValue(columnType string, kind source.Kind) string {
	if kind == source.Decimal || strings.Contains(strings.ToLower(columnType), "unsigned") {
		return ", CAST(NULL AS UNSIGNED)"
	}
	return ", NULL"
}

// fits reports whether a column of a result can be c, by the type that the driver names. asked says
// that c is among the documents.
func fits(c source.Column, asked bool, name string, scale int64) bool {
	is := func(endings ...string) bool {
		return slices.ContainsFunc(endings, func(ending string) bool { return strings.HasSuffix(name, ending) })
	}
	switch c.Kind {
	case source.Int:
		return is("INT", "YEAR")
	case source.Decimal:
		return is("DECIMAL") && scale == int64(c.Precision)
	case source.Float:
		return is("DOUBLE", "FLOAT")
	case source.Text:
		// JSON of MariaDB is a LONGTEXT that is asked for.
		return is("CHAR", "TEXT", "ENUM", "SET") && (asked || name != "LONGTEXT")
	case source.JSON:
		return asked && name == "LONGTEXT" || name == "JSON"
	case source.Binary:
		return is("BLOB", "BINARY", "GEOMETRY", "VECTOR")
	case source.Bit:
		return is("BIT")
	case source.Date:
		return name == "DATE"
	}
	times := map[source.Kind]string{source.Clock: "TIME", source.DateTime: "DATETIME", source.Timestamp: "TIMESTAMP"}
	return name == times[c.Kind] && scale == int64(c.Precision)
}

// isFloat reports whether a column holds approximate numbers.
func isFloat(columnType string) bool {
	kind, _ := parseType(columnType)
	return kind == source.Float
}

// appendValue appends v, as the driver delivers it, in the normal form. Byte strings are there
// already.
func appendValue(b []byte, v driver.Value, single bool) ([]byte, error) {
	switch v := v.(type) {
	case int64:
		return strconv.AppendInt(b, v, 10), nil
	case uint64:
		return strconv.AppendUint(b, v, 10), nil
	case float32:
		return sqlconn.AppendFloat(b, float64(v), 32), nil
	case float64:
		if single {
			return sqlconn.AppendFloat(b, v, 32), nil
		}
		return sqlconn.AppendFloat(b, v, 64), nil
	}
	return b, fmt.Errorf("unexpected value of type %T from the driver", v)
}
