package mysql_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"bridge/source"
	"bridge/source/mysql"
	"bridge/tests/testenv"
)

// byKey reads the rows with the given tuples and returns those whose keys are byte for byte one of
// them, and how many others came.
func byKey(t *testing.T, s source.Shard, keys ...[][]byte) (ids []uint64, others int) {
	t.Helper()
	p := read(t, s, source.Query{Keys: keys, Limit: 5000})
	same := func(a, b [][]byte) bool { return slices.EqualFunc(a, b, bytes.Equal) }
	for _, r := range p.Rows {
		key := keyOf(p, r)
		if slices.ContainsFunc(keys, func(tuple [][]byte) bool { return same(tuple, key) }) {
			ids = append(ids, r.ID)
		} else {
			others++
		}
	}
	return ids, others
}

func keyOf(p *source.Page, r source.Row) (tuple [][]byte) {
	for _, at := range p.Columns.Key {
		tuple = append(tuple, r.Values[at])
	}
	return tuple
}

func texts(tuple ...string) (key [][]byte) {
	for _, v := range tuple {
		key = append(key, []byte(v))
	}
	return key
}

// keyType is a type of key columns with values in SQL, one row each.
type keyType struct {
	definition string
	values     []string
	// scans says that some of the values are looked for row by row.
	scans bool
}

var keyTypes = []keyType{
	{"TINYINT", []string{"-128", "0", "127"}, false},
	{"INT(8) ZEROFILL", []string{"0", "42"}, false},
	{"BIGINT", []string{"-9223372036854775808", "-1", "9223372036854775807"}, false},
	{"BIGINT UNSIGNED", []string{"0", "9223372036854775808", "18446744073709551615"}, false},
	{"YEAR", []string{"0", "1901", "2000", "2026", "2155"}, false},
	{"DECIMAL(65,30)", []string{"'-12345678901234567890123456789012345.012345678901234567890123456789'", "0", "0.5"}, false},
	{"DECIMAL(65,0)", []string{"'" + strings.Repeat("9", 65) + "'", "-7"}, false},
	{"BIT(1)", []string{"b'0'", "b'1'"}, false},
	{"BIT(10)", []string{"b'1000000011'", "b'1'"}, false},
	{"BIT(64)", []string{"~0", "1", "0"}, false},
	{"CHAR(5)", []string{"'ab'", "''", "'ab c'"}, false},
	{"VARCHAR(200)", []string{"'A'", "'dziękuję 😀 '", `'a\\"\'\0\n'`, "'?'", "'a'' OR 1=1 -- '", "' a'", "''"}, false},
	{"VARCHAR(200) COLLATE utf8mb4_bin", []string{"'a'", "'A'", "'ä'", "'a\u0308'", "'?'"}, false},
	{"VARCHAR(200) COLLATE utf8mb4_unicode_520_ci", []string{"'Straße'", "'x'"}, false},
	{"VARCHAR(200) CHARACTER SET utf8mb3", []string{"'ä'", "'日本'", "'?'", "'what?'"}, false},
	{"VARCHAR(200) CHARACTER SET utf8mb3 COLLATE utf8mb3_bin", []string{"'ä'", "'A'", "'a'"}, false},
	{"VARCHAR(200) CHARACTER SET latin1", []string{"'é€'", "'Zürich'", "'?'", "'a'"}, false},
	{"VARCHAR(200) CHARACTER SET latin1 COLLATE latin1_german1_ci", []string{"'é€'", "'b'"}, false},
	{"VARCHAR(200) CHARACTER SET latin1 COLLATE latin1_bin", []string{"'É'", "'é'", "x'81'", "x'ff'"}, false},
	{"VARCHAR(200) CHARACTER SET ascii", []string{"'abc'", "'ABD'"}, false},
	{"VARCHAR(200) CHARACTER SET ascii COLLATE ascii_bin", []string{"'a?'", "'b'"}, true},
	{"VARCHAR(200) CHARACTER SET ucs2", []string{"'тест'", "'?'"}, false},
	{"VARCHAR(200) CHARACTER SET utf16", []string{"'тест😀'", "'?'"}, false},
	{"VARCHAR(200) CHARACTER SET utf32", []string{"'тест😀'", "'?'"}, false},
	{"VARCHAR(200) CHARACTER SET gbk", []string{"'中文'", "'订单'", "'x'"}, false},
	{"VARCHAR(200) CHARACTER SET gbk COLLATE gbk_bin", []string{"x'a140'", "'?'"}, true},
	{"VARCHAR(200) CHARACTER SET cp932 COLLATE cp932_bin", []string{"x'8754'", "x'fa4a'", "'order-1'"}, true},
	{"VARCHAR(200) CHARACTER SET sjis COLLATE sjis_bin", []string{`'a\\b'`, "'表示'", "'x'"}, true},
	{"VARCHAR(200) CHARACTER SET armscii8 COLLATE armscii8_bin", []string{"x'a4'", "')'", "x'29a4'"}, true},
	{"VARCHAR(200) CHARACTER SET tis620 COLLATE tis620_bin", []string{"x'a1'", "x'a0'"}, true},
	{"ENUM('a','ü','','x y')", []string{"'a'", "'ü'", "4", "3"}, false},
	{"ENUM('a','b') CHARACTER SET latin1 COLLATE latin1_bin", []string{"'a'", "'b'", "0"}, false},
	{"SET('x','y','z')", []string{"'z,x'", "''", "'y'"}, false},
	{"SET('ä','ö') CHARACTER SET latin1", []string{"'ä,ö'", "''"}, false},
	{"BINARY(4)", []string{"'ab'", "x'00000000'", "x'ffffffff'"}, false},
	{"VARBINARY(10)", []string{"x'00ff80fe'", "''", "'a'", "'A'", "'a '", "x'6100'"}, false},
	{"DATE", []string{"'2024-02-29'", "'0000-00-00'", "'1000-01-01'", "'9999-12-31'"}, false},
	{"DATE", []string{"'2024-00-00'", "'2024-02-31'"}, true},
	{"TIME", []string{"'-838:59:59'", "'00:00:00'", "'838:59:59'", "'01:02:03'"}, false},
	{"TIME(6)", []string{"'-00:00:00.000001'", "'100:00:00.123456'"}, false},
	{"DATETIME", []string{"'2026-01-02 03:04:05'", "'0000-00-00'", "'9999-12-31 23:59:59'"}, false},
	{"DATETIME(6)", []string{"'1000-01-01 00:00:00.000001'", "'0000-00-00'", "'2026-10-25 02:30:00.5'"}, false},
	{"TIMESTAMP", []string{"'2026-07-01 12:00:00'", "'0000-00-00'", "'1970-01-01 00:00:01'"}, false},
	{"TIMESTAMP(3)", []string{"'2026-07-01 12:00:00.123'", "'2038-01-19 03:14:07.999'"}, false},
}

// keyTypesOfMariaDB are those that MySQL does not have.
var keyTypesOfMariaDB = []keyType{
	{"CHAR(5) COLLATE utf8mb4_nopad_bin", []string{"'ab '", "''", "'x'"}, false},
	{"VARCHAR(200) COLLATE utf8mb4_nopad_bin", []string{"'a'", "'a '", "'a  '", "''", "' '"}, false},
	{"VARCHAR(200) COLLATE utf8mb4_uca1400_as_cs", []string{"'Straße'", "'STRASSE'", "'x'"}, false},
	{"INET6", []string{"'2001:db8::1'", "'::'", "'::ffff:1.2.3.4'"}, false},
	{"UUID", []string{"'123e4567-e89b-12d3-a456-426655440000'", "'00000000-0000-0000-0000-000000000000'"}, false},
}

// keyTypesOfMySQL are those that MariaDB does not have. Their collations pad no text.
var keyTypesOfMySQL = []keyType{
	{"CHAR(5) COLLATE utf8mb4_0900_bin", []string{"'ab'", "''", "'x'"}, false},
	{"VARCHAR(200) COLLATE utf8mb4_0900_ai_ci", []string{"'Straße'", "'x'", "'x '", "''", "' '"}, false},
	{"VARCHAR(200) COLLATE utf8mb4_0900_as_cs", []string{"'Straße'", "'STRASSE'", "'x'", "'x '"}, false},
	{"VARCHAR(200) COLLATE utf8mb4_0900_bin", []string{"'a'", "'a '", "'a  '", "''", "' '"}, false},
}

// strangers are values that no column of one type or another can hold, or that try to leave their
// literal.
var strangers = []string{
	"", "?", "'", "\\", "' OR 1=1 -- ", "\xff", "a\x00b", "😀", "x'41'", "NULL", "-", "1e5", "12abc", "007", "99999999999999999999999",
	strings.Repeat("9", 70), "0.5.5", "2026-02-30", "2026-13-01", "0000-00-01", "2026-01-02 03:04", "99:99:99", "2026-01-02 25:00:00", "9999999999999:00:00",
	strings.Repeat("long", 5000), "::zz", "12345678-1234", "a,b", "ü", "\u0081", "\ufffd",
}

func TestKeysOfEveryTypeAreFound(t *testing.T) { eachProduct(t, testKeysOfEveryTypeAreFound) }

func testKeysOfEveryTypeAreFound(t *testing.T, product testenv.Product) {
	own := keyTypesOfMariaDB
	if product.IsMySQL() {
		own = keyTypesOfMySQL
	}
	b := newBase(t, product.Shared(t))
	for _, test := range slices.Concat(keyTypes, own) {
		t.Run(strings.ToLower(test.definition), func(t *testing.T) {
			b.replaceTable(t, "typed", "(id INT PRIMARY KEY AUTO_INCREMENT, v "+test.definition+" NOT NULL, UNIQUE KEY proof (v)) DEFAULT CHARSET utf8mb4")
			inserts := "SET NAMES utf8mb4; SET time_zone = '+00:00', sql_mode = 'ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO';"
			for _, value := range test.values {
				inserts += "INSERT IGNORE INTO typed (v) VALUES (" + value + ");"
			}
			b.exec(t, inserts)
			s := b.source.Shard(source.Spec{Table: "typed", ID: "id", Key: []string{"v"}, UniqueKey: true})
			all := read(t, s, source.Query{Limit: 99})
			if len(all.Rows) != len(test.values) {
				t.Fatalf("%d rows of %d", len(all.Rows), len(test.values))
			}
			var keys [][][]byte
			var want []uint64
			for _, r := range all.Rows {
				if ids, _ := byKey(t, s, keyOf(all, r)); !slices.Contains(ids, r.ID) {
					t.Errorf("the key %q of row %d finds %d", keyOf(all, r), r.ID, ids)
				}
				keys, want = append(keys, keyOf(all, r)), append(want, r.ID)
			}
			if ids, _ := byKey(t, s, keys...); !slices.Equal(ids, want) {
				t.Errorf("all keys together find %d, want %d", ids, want)
			}
			// One by one: where there are few rows, MySQL reads them all rather than look for
			// several.
			for _, key := range keys {
				var p source.Page
				cost, err := mysql.ReadCost(t.Context(), s, source.Query{Keys: [][][]byte{key}, Limit: 99}, &p)
				if err != nil {
					t.Fatal(err)
				}
				if scans := cost["Handler_read_first"]+cost["Handler_read_rnd_next"] > 0; scans && !test.scans {
					t.Errorf("the key %q is not looked up: %v", key, nonZero(cost))
				}
			}
			b.exec(t, "SET sql_mode = ''")
			for _, stranger := range strangers {
				ids, _ := byKey(t, s, texts(stranger))
				held := slices.IndexFunc(all.Rows, func(r source.Row) bool { return string(keyOf(all, r)[0]) == stranger }) >= 0
				if len(ids) != 0 != held {
					t.Errorf("the stranger %.30q finds %d", stranger, ids)
				}
			}
		})
	}
}

func nonZero(counters map[string]int) string {
	var b strings.Builder
	for _, name := range []string{
		"Handler_read_key", "Handler_read_next", "Handler_read_first", "Handler_read_last", "Handler_read_prev", "Handler_read_rnd",
		"Handler_read_rnd_next", "Handler_tmp_write", "Sort_rows", "Select_scan", "Select_range",
	} {
		if counters[name] > 0 {
			fmt.Fprintf(&b, "%s=%d ", strings.TrimPrefix(name, "Handler_"), counters[name])
		}
	}
	return b.String()
}
