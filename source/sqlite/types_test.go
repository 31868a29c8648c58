package sqlite_test

import (
	"strings"
	"testing"
	"time"

	"example.org/bridge/source"
	"example.org/bridge/source/sourcetest"
	"example.org/bridge/source/sqlite"
)

// null is what the table tests write for NULL.
const null = "\x00NULL"

type typeTest struct {
	definition string
	kind       source.Kind
	// values are pairs of SQL and what must be read.
	values [][2]string
}

var typeTests = []typeTest{
	{"INTEGER", source.Int, [][2]string{
		{"-9223372036854775808", "-9223372036854775808"}, {"9223372036854775807", "9223372036854775807"}, {"'12'", "12"},
		{"1e20", "100000000000000000000"}, {"1.5", "1.5"}, {"'abc'", "abc"}, {"x'00ff'", "\x00\xff"}, {"9e999", "Inf"},
	}},
	{"UNSIGNED BIG INT", source.Int, [][2]string{{"1", "1"}}},
	{"BOOLEAN", source.Int, [][2]string{{"TRUE", "1"}, {"0", "0"}, {"'true'", "1"}, {"'FALSE'", "0"}, {"'maybe'", "maybe"}}},
	{"YEAR", source.Int, [][2]string{{"2026", "2026"}}},
	{"DECIMAL(10,2)", source.Decimal, [][2]string{
		{"1.50", "1.5"}, {"'1.50'", "1.5"}, {"7", "7"}, {"9223372036854775807", "9223372036854775807"}, {"'12 EUR'", "12 EUR"}, {"-0.25", "-0.25"},
	}},
	{"NUMERIC", source.Decimal, [][2]string{{"3.0", "3"}, {"1e300", "1e+300"}}},
	{"REAL", source.Float, [][2]string{
		{"0.1", "0.1"}, {"3", "3"}, {"1e300", "1e+300"}, {"5e-324", "5e-324"}, {"1e20", "100000000000000000000"},
		{"-9e999", "-Inf"}, {"'abc'", "abc"},
	}},
	{"DOUBLE PRECISION", source.Float, [][2]string{{"-1.7976931348623157e308", "-1.7976931348623157e+308"}}},
	{"TEXT", source.Text, [][2]string{
		{"''", ""}, {"'dziękuję 😀'", "dziękuję 😀"}, {"7", "7"}, {"1.5", "1.5"}, {"x'ff00'", "\xff\x00"}, {"x''", ""},
		{"'a' || char(0) || 'b'", "a\x00b"}, {"CAST(x'61ff' AS TEXT)", "a\xff"}, {"'2026-01-02 03:04:05'", "2026-01-02 03:04:05"},
	}},
	{"varchar (20)", source.Text, [][2]string{{"'longer than twenty characters'", "longer than twenty characters"}}},
	{"", source.Text, [][2]string{{"1", "1"}, {"2.5", "2.5"}, {"'x'", "x"}, {"x'fe'", "\xfe"}}},
	{"UUID", source.Text, [][2]string{{"'123e4567-e89b-12d3-a456-426655440000'", "123e4567-e89b-12d3-a456-426655440000"}, {"7", "7"}}},
	{"POINT", source.Text, [][2]string{{"'1,2'", "1,2"}}},
	{"BLOB", source.Binary, [][2]string{{"x''", ""}, {"x'00ff80'", "\x00\xff\x80"}, {"'text'", "text"}, {"42", "42"}, {"1.5", "1.5"}, {"zeroblob(3)", "\x00\x00\x00"}}},
	{"VARBINARY(9)", source.Binary, [][2]string{{"x'00'", "\x00"}}},
	{"JSON", source.JSON, [][2]string{
		{`'{"a": [1, "ü"]}'`, `{"a": [1, "ü"]}`}, {"'17'", "17"}, {"1.5", "1.5"}, {`jsonb('{"a": [1, "ü", null]}')`, `{"a":[1,"ü",null]}`},
		{`CAST('{"a":12}' AS BLOB)`, `{"a":12}`}, {"'no json'", "no json"}, {"x'fffefd'", "\xff\xfe\xfd"}, {"x''", ""},
	}},
	{"JSONB", source.JSON, [][2]string{{`jsonb('[]')`, `[]`}}},
	{"DATE", source.Date, [][2]string{
		{"'2024-02-29'", "2024-02-29"}, {"'2024-02-29 00:00:00'", "2024-02-29"}, {"'2024-02-29T00:00:00.000Z'", "2024-02-29"},
		{"'2024-02-29 00:00:00+02:00'", "2024-02-29"}, {"'2024-02-29 00:00:00 +0200 CEST'", "2024-02-29"},
		{"'2024-02-29 00:00:00 +0000 UTC'", "2024-02-29"}, {"'2024-02-29 10:00:00'", "2024-02-29 10:00:00"},
		{"1709164800", "2024-02-29"}, {"1709164801", "1709164801"}, {"2460369.5", "2460369.5"}, {"20240229", "20240229"},
		{"'0000-00-00'", "0000-00-00"}, {"'today'", "today"}, {"''", ""},
	}},
	{"TIME", source.Clock, [][2]string{{"'12:34:56.5'", "12:34:56.5"}, {"17", "17"}}},
	{"DATETIME", source.Timestamp, [][2]string{
		{"'2026-07-01 12:00:00'", "2026-07-01 12:00:00.000000"},
		{"'2026-07-01 12:00:00.123'", "2026-07-01 12:00:00.123000"},
		{"'2026-07-01 12:00:00.123456789'", "2026-07-01 12:00:00.123456"},
		{"'2026-07-01 12:00:00.1234567891234'", "2026-07-01 12:00:00.123456"},
		{"'2026-07-01 12:00'", "2026-07-01 12:00:00.000000"},
		{"'2026-07-01'", "2026-07-01 00:00:00.000000"},
		{"'2026-07-01T12:00:00Z'", "2026-07-01 12:00:00.000000"},
		{"'2026-07-01T12:00:00.5+02:00'", "2026-07-01 10:00:00.500000"},
		{"'2026-07-01 12:00Z'", "2026-07-01 12:00:00.000000"},
		{"'2026-07-01 12:00:00-05:30'", "2026-07-01 17:30:00.000000"},
		{"'2026-07-01 12:00:00 +0000 UTC'", "2026-07-01 12:00:00.000000"},
		{"'2026-07-01 12:00:00.25 +0200 CEST m=+0.100000001'", "2026-07-01 10:00:00.250000"},
		{"'2026-07-01 12:00:00.5 -0330 -0330'", "2026-07-01 15:30:00.500000"},
		{"'2026-07-01 12:00:00+0200'", "2026-07-01 10:00:00.000000"},
		{"'2026-07-01 12:00:00+02'", "2026-07-01 10:00:00.000000"},
		{"'2026-07-01 12:00 +02:00'", "2026-07-01 10:00:00.000000"},
		{"'2026-07-01 12:00:00 UTC'", "2026-07-01 12:00:00.000000"},
		{"'2026-07-01t12:00:00z'", "2026-07-01 12:00:00.000000"},
		{"'2026-07-01 12:00:00 CEST'", "2026-07-01 12:00:00 CEST"}, {"'2026-07-01 12:00:00 +0200 (?)'", "2026-07-01 12:00:00 +0200 (?)"},
		{"1782907200", "2026-07-01 12:00:00.000000"}, {"-1", "1969-12-31 23:59:59.000000"}, {"0", "1970-01-01 00:00:00.000000"},
		{"1782907200.123456", "1782907200.123456"}, {"2461223.25", "2461223.25"},
		{"253402300799", "9999-12-31 23:59:59.000000"}, {"253402300800", "253402300800"}, {"9e999", "Inf"},
		{"'0000-00-00 00:00:00'", "0000-00-00 00:00:00"}, {"'2026-02-30 00:00:00'", "2026-02-30 00:00:00"},
		{"'yesterday'", "yesterday"}, {"'2026-07-01 12:00:00 Mars/Base'", "2026-07-01 12:00:00 Mars/Base"}, {"''", ""},
		{"'2026-07-01_12:00:00'", "2026-07-01_12:00:00"}, {"'2026-07-01 '", "2026-07-01 00:00:00.000000"}, {"'0000-01-01T00:00:00+02:00'", "0000-01-01T00:00:00+02:00"},
		{"x'32303236'", "2026"},
	}},
	{"TIMESTAMP WITH TIME ZONE", source.Timestamp, [][2]string{{"CURRENT_DATE || ' 00:00:00'", time.Now().UTC().Format(time.DateOnly) + " 00:00:00.000000"}}},
}

func TestEveryTypeIsReadExactly(t *testing.T) {
	for _, test := range typeTests {
		t.Run("of type "+strings.ToLower(test.definition), func(t *testing.T) {
			b := newBase(t, wal)
			b.exec(t, "CREATE TABLE types (id INTEGER PRIMARY KEY, v "+test.definition+")")
			values := append(test.values, [2]string{"NULL", null})
			for _, value := range values {
				b.exec(t, "INSERT INTO types (v) VALUES ("+value[0]+")")
			}
			p := sourcetest.Read(t, b.source.Shard(source.Spec{Table: "types", ID: "id"}), source.Query{Limit: 100})
			want := source.Column{Name: "v", Kind: test.kind}
			if test.kind == source.Timestamp {
				want.Precision = 6
			}
			if p.Columns.List[1] != want {
				t.Errorf("column %+v, want %+v", p.Columns.List[1], want)
			}
			if len(p.Rows) != len(values) {
				t.Fatalf("%d rows", len(p.Rows))
			}
			for i, value := range values {
				got := p.Rows[i].Values[1]
				if value[1] == null && got != nil || value[1] != null && (got == nil || string(got) != value[1]) {
					t.Errorf("%.60s is read as %.80q, want %.80q", value[0], got, value[1])
				}
			}
		})
	}
}

func TestTimeZoneAndEpoch(t *testing.T) {
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		zone = time.FixedZone("CEST", 7200)
	}
	b := newBase(t, wal, func(o *sqlite.Options) { o.TimeZone, o.Epoch = zone, time.Millisecond })
	b.exec(t, "CREATE TABLE t (id INTEGER PRIMARY KEY, d DATETIME, ts TIMESTAMP)")
	for _, value := range []string{"'2026-07-01 12:00:00'", "'2026-07-01 12:00:00Z'", "1782907200123", "-1500", "'0000-01-01 00:00:00'"} {
		b.exec(t, "INSERT INTO t (d, ts) VALUES ("+value+", "+value+")")
	}
	p := sourcetest.Read(t, b.source.Shard(source.Spec{Table: "t", ID: "id"}), source.Query{Limit: 9})
	for i, want := range [][2]string{
		{"2026-07-01 10:00:00.000000", "2026-07-01 12:00:00.000000"},
		{"2026-07-01 12:00:00.000000", "2026-07-01 12:00:00.000000"},
		{"2026-07-01 12:00:00.123000", "2026-07-01 12:00:00.123000"},
		{"1969-12-31 23:59:58.500000", "1969-12-31 23:59:58.500000"},
		{"0000-01-01 00:00:00 " + zone.String(), "0000-01-01 00:00:00.000000"},
	} {
		for column, want := range want {
			if got := string(p.Rows[i].Values[column+1]); got != want {
				t.Errorf("row %d, column %d: %s, want %s", i+1, column, got, want)
			}
		}
	}
}

func TestTimesInColumnsOfOtherTypes(t *testing.T) {
	b := newBase(t, wal)
	b.exec(t, "CREATE TABLE t (id INTEGER PRIMARY KEY, made TEXT, changed INTEGER, other TEXT) STRICT")
	b.exec(t, "INSERT INTO t VALUES (1, '2026-07-01T12:00:00Z', 1782907200, '2026-07-01T12:00:00Z')")
	p := sourcetest.Read(t, b.source.Shard(source.Spec{Table: "t", ID: "id", Created: "made", Modified: "CHANGED"}), source.Query{Limit: 9})
	for column, want := range map[int]string{1: "2026-07-01 12:00:00.000000", 2: "2026-07-01 12:00:00.000000", 3: "2026-07-01T12:00:00Z"} {
		if got := string(p.Rows[0].Values[column]); got != want {
			t.Errorf("column %d: %s, want %s", column, got, want)
		}
	}
	at, ok := p.Columns.List[1].Time(p.Rows[0].Values[1], nil)
	if !ok || at.Unix() != 1782907200 {
		t.Errorf("created %v, %t", at, ok)
	}
}

// A table that is not STRICT holds a text in a column of numbers, whatever NOT NULL says.
func TestNotNullIsReportedOfStrictTables(t *testing.T) {
	for strict, want := range map[string]bool{"STRICT": true, "": false} {
		b := newBase(t, wal)
		b.exec(t, "CREATE TABLE types (id INTEGER PRIMARY KEY, v INTEGER NOT NULL, w INTEGER) "+strict)
		p := sourcetest.Read(t, b.source.Shard(source.Spec{Table: "types", ID: "id"}), source.Query{Limit: 1})
		if v, w := p.Columns.List[1].NotNull, p.Columns.List[2].NotNull; v != want || w {
			t.Errorf("%s: NOT NULL %t and without it %t", strict, v, w)
		}
	}
}
