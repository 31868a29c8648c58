package mysql_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"example.org/bridge/source"
	"example.org/bridge/source/mysql"
	"example.org/bridge/source/sourcetest"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
)

// byKey reads the rows with the given tuples and returns those whose keys are byte for byte one of
// them.
func byKey(t *testing.T, s source.Shard, keys ...[][]byte) []uint64 {
	t.Helper()
	return sourcetest.Found(t, s, source.Query{Keys: keys, Limit: 5000})
}

func texts(tuple ...string) (key [][]byte) {
	for _, v := range tuple {
		key = append(key, []byte(v))
	}
	return key
}

type keyType struct {
	definition string
	values     []string
	// scans says that some of the values are looked for row by row.
	scans bool
}

var keyTypes = []keyType{
	{"TINYINT", []string{"-128", "0", "127"}, false},
	{"BIGINT", []string{"-9223372036854775808", "-1", "9223372036854775807"}, false},
	{"BIGINT UNSIGNED", []string{"0", "9223372036854775808", "18446744073709551615"}, false},
	{"YEAR", []string{"0", "1901", "2000", "2026", "2155"}, false},
	{"DECIMAL(65,30)", []string{"'-12345678901234567890123456789012345.012345678901234567890123456789'", "0", "0.5"}, false},
	{"BIT(10)", []string{"b'1000000011'", "b'1'"}, false},
	{"BIT(64)", []string{"~0", "1", "0"}, false},
	{"CHAR(5)", []string{"'ab'", "''", "'ab c'"}, false},
	{"VARCHAR(200)", []string{"'A'", "'dziękuję 😀 '", `'a\\"\'\0\n'`, "'?'", "'a'' OR 1=1 -- '", "' a'", "''"}, false},
	{"VARCHAR(200) COLLATE utf8mb4_bin", []string{"'a'", "'A'", "'ä'", "'a\u0308'", "'?'"}, false},
	{"VARCHAR(200) COLLATE utf8mb4_unicode_520_ci", []string{"'Straße'", "'x'"}, false},
	{"VARCHAR(200) CHARACTER SET utf8mb3 COLLATE utf8mb3_bin", []string{"'ä'", "'A'", "'a'"}, false},
	{"VARCHAR(200) CHARACTER SET latin1", []string{"'é€'", "'Zürich'", "'?'", "'a'"}, false},
	{"VARCHAR(200) CHARACTER SET latin1 COLLATE latin1_bin", []string{"'É'", "'é'", "x'81'", "x'ff'"}, false},
	{"VARCHAR(200) CHARACTER SET ascii COLLATE ascii_bin", []string{"'a?'", "'b'"}, true},
	{"VARCHAR(200) CHARACTER SET ucs2", []string{"'тест'", "'?'"}, false},
	{"VARCHAR(200) CHARACTER SET utf16", []string{"'тест😀'", "'?'"}, false},
	{"VARCHAR(200) CHARACTER SET utf16le", []string{"'тест😀'", "'?'"}, false},
	{"VARCHAR(200) CHARACTER SET utf32", []string{"'тест😀'", "'order-1'"}, false},
	{"VARCHAR(200) CHARACTER SET latin2", []string{"'żółć'", "'?'", `'a\\b'`}, false},
	{"VARCHAR(200) CHARACTER SET koi8r", []string{"'тест'", "'?'", "'order-1'"}, false},
	{"VARCHAR(200) CHARACTER SET gbk COLLATE gbk_bin", []string{"x'a140'", "'?'"}, true},
	{"VARCHAR(200) CHARACTER SET cp932 COLLATE cp932_bin", []string{"x'8754'", "x'fa4a'", "'order-1'"}, true},
	{"VARCHAR(200) CHARACTER SET sjis COLLATE sjis_bin", []string{`'a\\b'`, "'表示'", "'x'"}, true},
	{"VARCHAR(200) CHARACTER SET armscii8 COLLATE armscii8_bin", []string{"x'a4'", "')'", "x'29a4'"}, true},
	{"VARCHAR(200) CHARACTER SET tis620 COLLATE tis620_bin", []string{"x'a1'", "x'a0'"}, true},
	{"ENUM('a','ü','','x y')", []string{"'a'", "'ü'", "4", "3"}, false},
	{"ENUM('a','b') CHARACTER SET latin1 COLLATE latin1_bin", []string{"'a'", "'b'", "0"}, false},
	{"SET('ä','ö') CHARACTER SET latin1", []string{"'ä,ö'", "''"}, false},
	{"BINARY(4)", []string{"'ab'", "x'00000000'", "x'ffffffff'"}, false},
	{"VARBINARY(10)", []string{"x'00ff80fe'", "''", "'a'", "'A'", "'a '", "x'6100'"}, false},
	{"DATE", []string{"'2024-02-29'", "'0000-00-00'", "'1000-01-01'", "'9999-12-31'"}, false},
	{"DATE", []string{"'2024-00-00'", "'2024-02-31'"}, true},
	{"TIME(6)", []string{"'-00:00:00.000001'", "'100:00:00.123456'"}, false},
	{"DATETIME(6)", []string{"'1000-01-01 00:00:00.000001'", "'0000-00-00'", "'2026-10-25 02:30:00.5'"}, false},
	{"TIMESTAMP(3)", []string{"'2026-07-01 12:00:00.123'", "'2038-01-19 03:14:07.999'"}, false},
}

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

// foreignValues are those that no column of some type can hold, or that try to leave their
// literal.
var foreignValues = []string{
	"", "?", "'", "\\", "' OR 1=1 -- ", "\xff", "a\x00b", "😀", "x'41'", "NULL", "-", "1e5", "12abc", "007", "99999999999999999999999",
	strings.Repeat("9", 70), "0.5.5", "2026-02-30", "2026-13-01", "0000-00-01", "2026-01-02 03:04", "99:99:99", "2026-01-02 25:00:00", "9999999999999:00:00",
	strings.Repeat("long", 5000), "::zz", "12345678-1234", "a,b", "ü", "\u0081", "\ufffd",
}

func TestKeysOfEveryTypeAreFound(t *testing.T) {
	every, atOnce := testall.Cases(3, 1), testall.Cases(len(foreignValues), 1)
	eachProduct(t, func(t *testing.T, product testenv.Product) { testKeysOfEveryTypeAreFound(t, product, every, atOnce) })
}

// testKeysOfEveryTypeAreFound tries every n-th type, and atOnce foreign values a query.
func testKeysOfEveryTypeAreFound(t *testing.T, product testenv.Product, every, atOnce int) {
	own := keyTypesOfMariaDB
	if product.IsMySQL() {
		own = keyTypesOfMySQL
	}
	b := newBase(t, product.Shared(t))
	for _, test := range everyNth(every, slices.Concat(keyTypes, own)) {
		t.Run(strings.ToLower(test.definition), func(t *testing.T) {
			b.replaceTable(t, "typed", "(id INT PRIMARY KEY AUTO_INCREMENT, v "+test.definition+" NOT NULL, UNIQUE KEY proof (v)) DEFAULT CHARSET utf8mb4")
			inserts := "SET NAMES utf8mb4; SET time_zone = '+00:00', sql_mode = 'ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO';"
			for _, value := range test.values {
				inserts += "INSERT IGNORE INTO typed (v) VALUES (" + value + ");"
			}
			b.exec(t, inserts)
			s := b.source.Shard(source.Spec{Table: "typed", ID: "id", Key: []string{"v"}, UniqueKey: true})
			all := sourcetest.Read(t, s, source.Query{Limit: 99})
			if len(all.Rows) != len(test.values) {
				t.Fatalf("%d rows of %d", len(all.Rows), len(test.values))
			}
			var keys [][][]byte
			var want []uint64
			for _, r := range all.Rows {
				if ids := byKey(t, s, sourcetest.KeyOf(all, r)); !slices.Contains(ids, r.ID) {
					t.Errorf("the key %q of row %d finds %d", sourcetest.KeyOf(all, r), r.ID, ids)
				}
				keys, want = append(keys, sourcetest.KeyOf(all, r)), append(want, r.ID)
			}
			sourcetest.Same(t, byKey(t, s, keys...), want, "all keys together")
			// One by one: where there are few rows, MySQL reads them all rather than look for
			// several.
			for _, key := range keys {
				var p source.Page
				cost := must.Get(mysql.ReadCost(t.Context(), s, source.Query{Keys: [][][]byte{key}, Limit: 99}, &p))(t)
				if scans := cost["Handler_read_first"]+cost["Handler_read_rnd_next"] > 0; scans && !test.scans {
					t.Errorf("the key %q is not looked up: %v", key, cost)
				}
			}
			b.exec(t, "SET sql_mode = ''")
			for some := range slices.Chunk(foreignValues, atOnce) {
				var keys [][][]byte
				for _, value := range some {
					keys = append(keys, texts(value))
				}
				var want []uint64
				for _, r := range all.Rows {
					if slices.Contains(some, string(sourcetest.KeyOf(all, r)[0])) {
						want = append(want, r.ID)
					}
				}
				sourcetest.Same(t, byKey(t, s, keys...), want, "the values %.60q", some)
			}
		})
	}
}

// The handler counters prove that keys are looked up one by one, however many they are and however
// the key is made.
func TestKeysReadTheirRowsOnly(t *testing.T) {
	every := testall.Cases(5, 1)
	eachProduct(t, func(t *testing.T, product testenv.Product) { testKeysReadTheirRowsOnly(t, product, every) })
}

// testKeysReadTheirRowsOnly tries every n-th layout, from a random one on.
func testKeysReadTheirRowsOnly(t *testing.T, product testenv.Product, every int) {
	b := newBase(t, product.Shared(t))
	hidden := ignored(product)
	for _, layout := range everyNth(every, []struct {
		name, definition string
		key              []string
	}{
		{"one text", "id BIGINT UNSIGNED PRIMARY KEY, name VARCHAR(50) NOT NULL, n INT NOT NULL, day DATE NOT NULL, body TEXT, UNIQUE KEY (name)", []string{"name"}},
		{"one text in binary order", "id INT PRIMARY KEY, name VARCHAR(50) COLLATE utf8mb4_bin NOT NULL, n INT NOT NULL, day DATE NOT NULL, body TEXT, UNIQUE KEY (name)", []string{"name"}},
		{"a text in latin1", "id INT PRIMARY KEY, name VARCHAR(50) CHARACTER SET latin1 NOT NULL, n INT NOT NULL, day DATE NOT NULL, body TEXT, UNIQUE KEY (name)", []string{"name"}},
		{"a prefix of a text", "id INT PRIMARY KEY, name VARCHAR(50) NOT NULL, n INT NOT NULL, day DATE NOT NULL, body TEXT, UNIQUE KEY (name(40))", []string{"name"}},
		{"three columns in another order", "id INT PRIMARY KEY, name VARCHAR(50) NOT NULL, n INT NOT NULL, day DATE NOT NULL, body TEXT, UNIQUE KEY (day, n, name)", []string{"name", "day", "n"}},
		{"a part of the key", "id INT PRIMARY KEY, name VARCHAR(50), n INT NOT NULL, day DATE, body TEXT, UNIQUE KEY (n), KEY (name)", []string{"n", "name"}},
		{"the primary key beside a unique id", "id INT NOT NULL, name VARCHAR(50) NOT NULL, n INT NOT NULL, day DATE NOT NULL, body TEXT, PRIMARY KEY (n, name), UNIQUE KEY (id)", []string{"name", "n"}},
		{"the id", "id BIGINT UNSIGNED PRIMARY KEY, name VARCHAR(50), n INT, day DATE, body TEXT", nil},
		{"the id that is not the primary key", "name VARCHAR(50) PRIMARY KEY, id BIGINT UNSIGNED NOT NULL, n INT, day DATE, body TEXT, UNIQUE KEY (id)", []string{"id"}},
		{"an index that is ignored beside one that is not", "id INT PRIMARY KEY, name VARCHAR(50) NOT NULL, n INT NOT NULL, day DATE, body TEXT, UNIQUE KEY (name) " + hidden + ", UNIQUE KEY (n)", []string{"name", "n"}},
	}) {
		t.Run(layout.name, func(t *testing.T) {
			b.replaceTable(t, "plan", "("+layout.definition+") DEFAULT CHARSET utf8mb4")
			b.exec(t, "INSERT INTO plan (id, name, n, day, body) SELECT * FROM (SELECT 2*seq AS id, CONCAT('nämé ', seq) AS name, 3*seq AS n, '2000-01-01' + INTERVAL seq % 100 DAY AS day, REPEAT('b', 50) AS body FROM "+testenv.Sequence(20000)+") s")
			s := b.source.Shard(source.Spec{Table: "plan", ID: "id", Key: layout.key, UniqueKey: true})
			all := sourcetest.Read(t, s, source.Query{Limit: 20_000})
			for _, n := range []int{1, 2, 1000} {
				var keys [][][]byte
				var want []uint64
				for i, at := range rand.Perm(len(all.Rows))[:n] {
					key := slices.Clone(sourcetest.KeyOf(all, all.Rows[at]))
					if i%2 == 0 {
						want = append(want, all.Rows[at].ID)
					} else {
						// One that is not there.
						key[0] = append([]byte("8888"), key[0]...)
						key[len(key)-1] = append([]byte("8888"), key[len(key)-1]...)
					}
					keys = append(keys, key)
				}
				slices.Sort(want)
				var p source.Page
				cost := must.Get(mysql.ReadCost(t.Context(), s, source.Query{Keys: keys, Limit: 1000}, &p))(t)
				sourcetest.Same(t, sourcetest.IDs(&p), want, "by %d keys", len(keys))
				if cost["Handler_read_key"] == 0 {
					t.Errorf("%d keys: the counters do not count: %v", n, cost)
				}
				expectCost(t, n, cost, map[string]int{"read_key": len(keys) + 10, "read_next": len(keys), "read_last": 10})
			}
		})
	}
}

func everyNth[T any](n int, list []T) (chosen []T) {
	for i := rand.IntN(n); i < len(list); i += n {
		chosen = append(chosen, list[i])
	}
	return chosen
}

// Texts that differ in case, accents, padding or encoding, in keys of several columns: what a
// server takes for equal must not hide what is equal byte for byte.
func TestNoKeyHidesAnother(t *testing.T) {
	every := testall.Cases(5, 1)
	eachProduct(t, func(t *testing.T, product testenv.Product) { testNoKeyHidesAnother(t, product, every) })
}

var collations = []string{
	"utf8mb4_bin", "utf8mb4_general_ci", "utf8mb3_bin", "utf8mb3_general_ci", "latin1_bin", "latin1_general_cs", "latin1_swedish_ci", "latin1_german2_ci", "ucs2_bin",
	"utf16_unicode_ci", "utf16le_bin", "utf32_bin", "gbk_bin", "koi8r_bin", "cp1251_bin", "big5_bin", "ujis_bin",
}

// testNoKeyHidesAnother tries every n-th collation, from a random one on.
func testNoKeyHidesAnother(t *testing.T, product testenv.Product, every int) {
	own := []string{"utf8mb4_nopad_bin", "utf8mb4_uca1400_as_cs"}
	if product.IsMySQL() {
		own = []string{"utf8mb4_0900_bin", "utf8mb4_0900_as_cs", "utf8mb4_0900_ai_ci"}
	}
	b := newBase(t, product.Shared(t))
	for _, collation := range everyNth(every, append(slices.Clone(collations), own...)) {
		charset, _, _ := strings.Cut(collation, "_")
		t.Run(collation, func(t *testing.T) {
			text := "VARCHAR(40) CHARACTER SET " + charset + " COLLATE " + collation + " NOT NULL"
			b.replaceTable(t, "hidden", "(id INT PRIMARY KEY AUTO_INCREMENT, a "+text+", b "+text+", c INT NOT NULL, UNIQUE KEY (a, c, b))")
			parts := []string{"", "a", "A", "ä", "Ä", "á", "a ", "aa", "ss", "ß", "s", "e", "é", "?", "а", "А", "中", "😀", "a\u0308", "x'", "\\"}
			inserts := "SET NAMES utf8mb4; SET sql_mode = ''; START TRANSACTION;"
			for range 300 {
				inserts += fmt.Sprintf("INSERT IGNORE INTO hidden (a, b, c) VALUES (x'%x', x'%x', %d);", "", "", rand.IntN(3))
				inserts += fmt.Sprintf("INSERT IGNORE INTO hidden (a, b, c) VALUES (CONVERT(x'%x' USING utf8mb4), CONVERT(x'%x' USING utf8mb4), %d);",
					parts[rand.IntN(len(parts))], parts[rand.IntN(len(parts))], rand.IntN(3))
			}
			b.exec(t, inserts+"COMMIT")
			s := b.source.Shard(source.Spec{Table: "hidden", ID: "id", Key: []string{"b", "c", "a"}, UniqueKey: true})
			all := sourcetest.Read(t, s, source.Query{Limit: 999})
			texts := make([]string, len(all.Rows))
			for i, r := range all.Rows {
				texts[i] = fmt.Sprintf("%q", sourcetest.KeyOf(all, r))
			}
			for range 60 {
				var keys [][][]byte
				var want []uint64
				var wanted []string
				for range 1 + rand.IntN(6) {
					i := rand.IntN(len(all.Rows))
					keys, wanted = append(keys, sourcetest.KeyOf(all, all.Rows[i])), append(wanted, texts[i])
				}
				for i, r := range all.Rows {
					if slices.Contains(wanted, texts[i]) {
						want = append(want, r.ID)
					}
				}
				sourcetest.Same(t, byKey(t, s, keys...), want, "the keys %q", keys)
			}
		})
	}
}

// The counters of `SHOW SESSION STATUS` prove the plan: an index range that ends with the page,
// nothing sorted, nothing put into a temporary table.
func TestAPageReadsItsRowsOnly(t *testing.T) { eachProduct(t, testAPageReadsItsRowsOnly) }

func testAPageReadsItsRowsOnly(t *testing.T, product testenv.Product) {
	b := newBase(t, product.Shared(t))
	for _, layout := range []struct{ name, definition string }{
		{"primary key", "id BIGINT UNSIGNED PRIMARY KEY, name VARCHAR(50), body LONGTEXT, KEY (name)"},
		{"signed primary key", "id INT PRIMARY KEY, name VARCHAR(50), body TEXT"},
		{"unique key", "name VARCHAR(50) PRIMARY KEY, id BIGINT UNSIGNED NOT NULL, body TEXT, UNIQUE KEY (id)"},
		{"unique key beside a composite primary key", "id BIGINT NOT NULL, name VARCHAR(50), body TEXT, PRIMARY KEY (name, id), UNIQUE KEY u (id)"},
	} {
		for _, rows := range []int{0, 3, 8_000} {
			t.Run(fmt.Sprintf("%s, %d rows", layout.name, rows), func(t *testing.T) {
				b.replaceTable(t, "plan", "("+layout.definition+") DEFAULT CHARSET utf8mb4")
				if rows > 0 {
					b.exec(t, fmt.Sprintf("INSERT INTO plan (id, name, body) SELECT 2*seq, UUID(), REPEAT('b', 200) FROM %s", testenv.Sequence(rows)))
				}
				s := b.source.Shard(source.Spec{Table: "plan", ID: "id"})
				for _, q := range []source.Query{
					{Limit: 10}, {After: uint64(rows), Limit: 10}, {After: uint64(2 * rows), Limit: 10},
					{After: 4, Through: uint64(rows + 5), Limit: 10}, {Limit: 2, MaxBytes: 100_000},
				} {
					var p source.Page
					cost := must.Get(mysql.ReadCost(t.Context(), s, q, &p))(t)
					expectCost(t, q, cost, map[string]int{"read_key": 1, "read_last": 1, "read_next": len(p.Rows)})
					if cost["Handler_read_key"] == 0 && p.MaxID > q.After {
						t.Errorf("%+v: the counters do not count: %v", q, cost)
					}
				}
			})
		}
	}
}

// expectCost fails the test if the server did more than bounds say, and anything else.
func expectCost(t *testing.T, what any, cost, bounds map[string]int) {
	t.Helper()
	for name, n := range cost {
		if n > bounds[strings.TrimPrefix(name, "Handler_")] {
			t.Errorf("%+v: %s is %d of %v", what, name, n, cost)
		}
	}
}
