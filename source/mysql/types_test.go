package mysql_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"example.org/bridge/source"
	"example.org/bridge/source/sourcetest"
	"example.org/bridge/tests/testenv"
)

type typeTest struct {
	definition string
	kind       source.Kind
	precision  int
	values     [][2]string
}

var typeTests = []typeTest{
	{"TINYINT", source.Int, 0, [][2]string{{"-128", "-128"}, {"127", "127"}}},
	{"TINYINT UNSIGNED", source.Int, 0, [][2]string{{"255", "255"}}},
	{"BOOL", source.Int, 0, [][2]string{{"TRUE", "1"}, {"FALSE", "0"}}},
	{"INT", source.Int, 0, [][2]string{{"-2147483648", "-2147483648"}}},
	{"INT(8) ZEROFILL", source.Int, 0, [][2]string{{"42", "42"}}},
	{"BIGINT", source.Int, 0, [][2]string{{"-9223372036854775808", "-9223372036854775808"}, {"9223372036854775807", "9223372036854775807"}}},
	{"BIGINT UNSIGNED", source.Int, 0, [][2]string{{"9223372036854775808", "9223372036854775808"}, {"18446744073709551615", "18446744073709551615"}}},
	{"YEAR", source.Int, 0, [][2]string{{"2026", "2026"}, {"0", "0"}}},
	{"DECIMAL(38,10)", source.Decimal, 10, [][2]string{
		{"'1234567890123456789012345678.0123456789'", "1234567890123456789012345678.0123456789"}, {"-0.5", "-0.5000000000"},
	}},
	{"FLOAT", source.Float, 0, [][2]string{{"1.2345678", "1.2345678"}, {"16777217", "16777216"}, {"-0.1", "-0.1"}, {"1e38", "1e+38"}}},
	{"FLOAT(7,3)", source.Float, 0, [][2]string{{"1.2345", "1.234"}}},
	{"DOUBLE", source.Float, 0, [][2]string{
		{"0.1", "0.1"}, {"1e300", "1e+300"}, {"1234567.5", "1234567.5"}, {"1e10", "10000000000"}, {"5e-324", "5e-324"},
		{"9007199254740993", "9007199254740992"}, {"-1.7976931348623157e308", "-1.7976931348623157e+308"},
	}},
	{"CHAR(5)", source.Text, 0, [][2]string{{"'ab '", "ab"}, {"''", ""}}},
	{"CHAR(5) CHARACTER SET latin1", source.Text, 0, [][2]string{{"'é€'", "é€"}}},
	{"VARCHAR(50)", source.Text, 0, [][2]string{{"'dziękuję 😀 '", "dziękuję 😀 "}, {`'a\\"\'\0\n'`, "a\\\"'\x00\n"}}},
	{"VARCHAR(50) CHARACTER SET sjis", source.Text, 0, [][2]string{{"'表示'", "表示"}}},
	{"VARCHAR(50) CHARACTER SET ucs2", source.Text, 0, [][2]string{{"'тест'", "тест"}}},
	{"LONGTEXT", source.Text, 0, [][2]string{{"REPEAT('ü', 100000)", strings.Repeat("ü", 100000)}}},
	{"ENUM('a','ü','')", source.Text, 0, [][2]string{{"'ü'", "ü"}, {"3", ""}}},
	{"SET('x','y','z')", source.Text, 0, [][2]string{{"'z,x'", "x,z"}, {"''", ""}}},
	{"BINARY(4)", source.Binary, 0, [][2]string{{"'ab'", "ab\x00\x00"}}},
	{"VARBINARY(10)", source.Binary, 0, [][2]string{{"x'00ff80fe'", "\x00\xff\x80\xfe"}, {"''", ""}}},
	{"BLOB", source.Binary, 0, [][2]string{{"x'fffefd'", "\xff\xfe\xfd"}}},
	{"LONGBLOB", source.Binary, 0, [][2]string{{"REPEAT(x'fe', 300000)", strings.Repeat("\xfe", 300000)}}},
	{"CHAR(3) CHARACTER SET binary", source.Binary, 0, [][2]string{{"x'ff'", "\xff\x00\x00"}}},
	{"BIT(1)", source.Bit, 0, [][2]string{{"b'1'", "\x01"}, {"b'0'", "\x00"}}},
	{"BIT(10)", source.Bit, 0, [][2]string{{"b'1000000011'", "\x02\x03"}}},
	{"BIT(64)", source.Bit, 0, [][2]string{{"~0", strings.Repeat("\xff", 8)}, {"1", "\x00\x00\x00\x00\x00\x00\x00\x01"}}},
	{"JSON", source.JSON, 0, [][2]string{{`'{"a": [1, "ü"]}'`, `{"a": [1, "ü"]}`}}},
	{"LONGTEXT COMMENT 'CHECK (json_valid(`v`))'", source.Text, 0, [][2]string{{"'no json'", "no json"}}},
	{"DATE", source.Date, 0, [][2]string{{"'2024-02-29'", "2024-02-29"}, {"'0000-00-00'", "0000-00-00"}, {"'2024-00-00'", "2024-00-00"}}},
	{"TIME", source.Clock, 0, [][2]string{{"'-838:59:59'", "-838:59:59"}, {"'01:02:03'", "01:02:03"}}},
	{"TIME(3)", source.Clock, 3, [][2]string{{"'100:00:00.1234'", "100:00:00.123"}}},
	{"TIME(6)", source.Clock, 6, [][2]string{{"'-00:00:00.000001'", "-00:00:00.000001"}}},
	{"DATETIME", source.DateTime, 0, [][2]string{{"'2026-01-02 03:04:05'", "2026-01-02 03:04:05"}, {"'0000-00-00'", "0000-00-00 00:00:00"}}},
	{"DATETIME(1)", source.DateTime, 1, [][2]string{{"'9999-12-31 23:59:59.9'", "9999-12-31 23:59:59.9"}}},
	{"DATETIME(6)", source.DateTime, 6, [][2]string{{"'1000-01-01 00:00:00.000001'", "1000-01-01 00:00:00.000001"}, {"'0000-00-00'", "0000-00-00 00:00:00.000000"}}},
	{"TIMESTAMP NULL", source.Timestamp, 0, [][2]string{{"'2026-07-01 12:00:00'", "2026-07-01 10:00:00"}, {"'0000-00-00'", "0000-00-00 00:00:00"}}},
	{"TIMESTAMP(3) NULL", source.Timestamp, 3, [][2]string{{"'2026-07-01 12:00:00.123'", "2026-07-01 10:00:00.123"}}},
	{"TIMESTAMP(6) NULL", source.Timestamp, 6, [][2]string{{"'1970-01-01 02:00:01.000001'", "1970-01-01 00:00:01.000001"}}},
	{"POINT", source.Binary, 0, [][2]string{{"POINT(1, 2)", "\x00\x00\x00\x00\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\xf0\x3f\x00\x00\x00\x00\x00\x00\x00\x40"}}},
}

var typesOfMariaDB = []typeTest{
	{"INET6", source.Text, 0, [][2]string{{"'2001:DB8::1'", "2001:db8::1"}}},
	{"UUID", source.Text, 0, [][2]string{{"'123E4567-e89b-12d3-a456-426655440000'", "123e4567-e89b-12d3-a456-426655440000"}}},
}

// TestEveryTypeIsReadExactly has a column of each type side by side.
func TestEveryTypeIsReadExactly(t *testing.T) {
	eachProduct(t, func(t *testing.T, product testenv.Product) {
		b := newBase(t, product.Shared(t))
		types := typeTests
		if !product.IsMySQL() {
			types = slices.Concat(types, typesOfMariaDB)
		}
		// The last row is NULL throughout, as what has no further value is in the others.
		const rows = 9
		at := slices.IndexFunc(types, func(test typeTest) bool { return test.definition == "TIMESTAMP(6) NULL" })
		create, inserts := "CREATE TABLE types (a FLOAT, id BIGINT UNSIGNED PRIMARY KEY", "SET time_zone = '+02:00', sql_mode = '';"
		for i, test := range types {
			create += fmt.Sprintf(", v%d %s", i, test.definition)
		}
		for row := range rows {
			inserts += fmt.Sprintf("INSERT INTO types VALUES (NULL, %d", row+1)
			for _, test := range types {
				value := "NULL"
				if row < len(test.values) {
					value = test.values[row][0]
				}
				inserts += ", " + value
			}
			inserts += ");"
		}
		b.exec(t, create+") DEFAULT CHARSET utf8mb4")
		b.exec(t, inserts)
		p := sourcetest.Read(t, b.source.Shard(source.Spec{Table: "types", ID: "id", Modified: fmt.Sprint("v", at)}), source.Query{Limit: 100})
		if len(p.Rows) != rows || p.Columns.ID != 1 || !p.Columns.List[1].NotNull || p.Columns.Modified != 2+at {
			t.Fatalf("%d rows, columns %+v", len(p.Rows), p.Columns)
		}
		for i, test := range types {
			if got, want := p.Columns.List[2+i], (source.Column{Name: fmt.Sprint("v", i), Kind: test.kind, Precision: test.precision}); got != want {
				t.Errorf("%s is the column %+v, want %+v", test.definition, got, want)
			}
			for row := range rows {
				got := p.Rows[row].Values[2+i]
				if row >= len(test.values) && got != nil || row < len(test.values) && (got == nil || string(got) != test.values[row][1]) {
					t.Errorf("%s: row %d is read as %.80q", test.definition, row+1, got)
				}
			}
		}
	})
}

// What can be selected and is not listed has no type that could be known: check and run say the
// same.
func TestAColumnThatIsNotListed(t *testing.T) {
	b := newBase(t, testenv.MariaDB(t))
	b.exec(t, "CREATE TABLE t (id BIGINT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(9) NOT NULL) WITH SYSTEM VERSIONING")
	for _, test := range []struct {
		setting string
		spec    source.Spec
	}{
		{"ID", source.Spec{ID: "row_start"}},
		{"KEY", source.Spec{ID: "id", Key: []string{"row_end"}, UniqueKey: true}},
		{"CREATED", source.Spec{ID: "id", Created: "row_start"}},
		{"MODIFIED", source.Spec{ID: "id", Modified: "ROW_START"}},
		{"FIELDS", source.Spec{ID: "id", Fields: []string{"row_end"}}},
	} {
		t.Run(test.setting, func(t *testing.T) {
			test.spec.Table = "t"
			found := b.source.Inspect(t.Context(), []source.Expected{{Spec: test.spec, Updates: true}}, 1).Tables[0].Findings
			if len(found) != 1 || found[0].Code != "no-column" || !strings.Contains(found[0].What, "hidden column") || !strings.Contains(found[0].What, test.setting) {
				t.Errorf("found %v", found)
			}
			sourcetest.Refused(t, b.source.Shard(test.spec), source.ErrMissing, "hidden", test.setting)
		})
	}
}
