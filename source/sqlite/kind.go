package sqlite

import (
	"strings"

	"bridge/source"
)

// namedKinds are the types that go by their name, whatever their affinity.
var namedKinds = map[string]source.Kind{
	"BOOL": source.Int, "BOOLEAN": source.Int, "BIT": source.Int, "YEAR": source.Int, "LONG": source.Int, "SERIAL": source.Int,
	"DEC": source.Decimal, "DECIMAL": source.Decimal, "FIXED": source.Decimal, "NUM": source.Decimal, "NUMBER": source.Decimal,
	"NUMERIC": source.Decimal, "MONEY": source.Decimal, "SMALLMONEY": source.Decimal, "CURRENCY": source.Decimal,
	"INTERVAL": source.Text, "POINT": source.Text,
	"BINARY": source.Binary, "VARBINARY": source.Binary, "BYTEA": source.Binary, "IMAGE": source.Binary,
	"JSON": source.JSON, "JSONB": source.JSON,
	"DATE": source.Date,
	"TIME": source.Clock, "TIMETZ": source.Clock,
	"DATETIME": source.Timestamp, "DATETIME2": source.Timestamp, "SMALLDATETIME": source.Timestamp, "DATETIMEOFFSET": source.Timestamp,
	"TIMESTAMP": source.Timestamp, "TIMESTAMPTZ": source.Timestamp,
}

// affinities are the kinds of SQLite's rule of affinity, in its order.
var affinities = []struct {
	part string
	kind source.Kind
}{
	{"INT", source.Int},
	{"CHAR", source.Text}, {"CLOB", source.Text}, {"TEXT", source.Text},
	{"BLOB", source.Binary},
	{"REAL", source.Float}, {"FLOA", source.Float}, {"DOUB", source.Float},
}

// typeName returns the first word of a declared type in upper case: "VARCHAR" of "varchar(20)".
func typeName(declared string) string {
	name := upper(declared)
	if i := strings.IndexAny(name, " \t\r\n("); i >= 0 {
		name = name[:i]
	}
	return name
}

// parseType returns the kind of a declared type. A type that is not known is text: it holds a value
// of any class.
func parseType(declared string) source.Kind {
	if kind, ok := namedKinds[typeName(declared)]; ok {
		return kind
	}
	name := upper(declared)
	for _, affinity := range affinities {
		if strings.Contains(name, affinity.part) {
			return affinity.kind
		}
	}
	return source.Text
}

func isBoolean(declared string) bool { return strings.HasPrefix(typeName(declared), "BOOL") }

// isDateTime reports whether times without a zone are in the zone of the options, as against UTC.
func isDateTime(declared string) bool {
	name := typeName(declared)
	return strings.Contains(name, "DATETIME") && name != "DATETIMEOFFSET"
}

// isID reports whether a column of this type can be the id.
func isID(declared string) bool {
	return strings.Contains(upper(declared), "INT") && parseType(declared) == source.Int
}

// mayBeTime reports whether a column of this kind can hold times although its type does not say so.
func mayBeTime(kind source.Kind, declared string) bool {
	switch kind {
	case source.Int:
		return !isBoolean(declared)
	case source.Text, source.Float, source.Decimal:
		return true
	}
	return false
}

// upper folds ASCII only, as SQLite does.
func upper(name string) string {
	return strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' {
			return r - 'a' + 'A'
		}
		return r
	}, name)
}
